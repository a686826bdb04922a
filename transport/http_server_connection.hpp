#pragma once

// clang-format off
#include <utility>  // before Asio, which uses std::exchange without it
// clang-format on

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/http_server.hpp"
#include "transport/http_server_exchange.hpp"
#include "transport/http_server_request.hpp"

namespace rondo {

class HttpConnection;

/// Bytes of bodies that have not come whole: of all clients, and of each address.
class BodyBytes {
public:
    struct Held {
        size_t by_all = 0, by_peer = 0;
    };
    /// A connection from `peer` holds `bytes` now; it held `before`. Returns what all connections hold, and the peer's.
    Held hold(const std::string& peer, size_t before, size_t bytes);
    size_t all() const;

private:
    mutable std::mutex mutex_;
    size_t all_ = 0;
    std::map<std::string, size_t, std::less<>> by_peer_;  // none is 0
};

/// What the connections of one server have in common; outlives them.
struct HttpShared {
    HttpLimits limits;
    HttpServer::Handler handle;
    HttpServer::Refused refused;
    HttpServer::TurnAway turn_away;
    std::atomic<bool> draining{false};
    std::atomic<uint64_t> timed_out{0};
    BodyBytes bodies{};
    std::shared_ptr<AnswerBytes> answers = std::make_shared<AnswerBytes>(limits.answers_bytes_max);
    std::function<void(const std::shared_ptr<HttpConnection>&)> closed;  ///< called once by each connection
};

/// One client: reads a request, hands it over, sends its answer, and so on. Everything happens on the strand of its
/// socket; it lives as long as something is pending there and the server lists it. While it waits for a request it
/// holds no buffer: it waits until there is something to read, and reads into memory the thread lends.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
public:
    HttpConnection(boost::asio::ip::tcp::socket socket, std::string peer, HttpShared& shared);

    // From any thread.
    void start();
    void drain();    ///< close if no request has begun, otherwise after its answer
    void cut_off();  ///< the same as `close`, but whoever is sending a request hears why, if he listens
    void close();

private:
    using Clock = std::chrono::steady_clock;
    using NetError = boost::system::error_code;
    enum class Phase {
        reading,    ///< a request, or waiting for one
        answering,  ///< `exchange_` is there
        lingering,  ///< nothing more is said; what the client still sends is read over, so that it sees our last words
        closed,
    };
    void run(void (HttpConnection::*step)());

    // Reading.
    void begin();
    void wait_for_bytes();
    void receive();
    void end_of_stream(const NetError& error);
    void parse();
    std::optional<std::string> turned_away() const;
    bool has_room_for_body();
    BodyBytes::Held hold_body(size_t bytes);
    void hand_over();

    // Writing.
    void flush();
    void write();
    void wrote(const NetError& error, size_t bytes);
    void answered();
    /// A few bytes outside of any answer; false when the client's window has no room even for them.
    bool say(std::string_view text);
    bool say_error(int status, std::string_view message);
    bool say_body(int status, const std::string& body);
    HttpHeaders refusal_headers(int status, size_t bytes);

    // Ending.
    void refuse(const HttpRefusal& refusal);
    void linger();
    void stop_if_idle();
    void say_why_and_shut();
    void shut();
    void set_read_deadline(std::chrono::milliseconds time);
    void arm_timer();
    void on_timer();
    void time_out();

    boost::asio::ip::tcp::socket socket_;
    boost::asio::steady_timer timer_;
    const std::string peer_;
    const std::string network_;  ///< whose bodies count together
    HttpShared& shared_;
    Phase phase_ = Phase::reading;

    std::string in_;  ///< received and not yet used; while answering, the beginning of what the client pipelines
    std::optional<HttpRequestReader> reader_;  ///< since the first byte of a request
    size_t body_bytes_ = 0;                    ///< of its body, as others count them
    bool waiting_ = false;                     ///< for bytes
    bool no_more_bytes_ = false;               ///< the client has closed its side
    size_t read_over_bytes_ = 0;

    std::shared_ptr<HttpExchange> exchange_;
    std::vector<std::string> out_;  ///< of the answer, being sent
    size_t out_done_ = 0;           ///< pieces of `out_` sent, and bytes of the next one
    size_t out_offset_ = 0;
    std::vector<boost::asio::const_buffer> gather_;
    bool writing_ = false;

    Clock::time_point read_deadline_ = Clock::time_point::max();
    Clock::time_point write_deadline_ = Clock::time_point::max();
    Clock::time_point timer_at_ = Clock::time_point::max();  ///< when the timer goes off, early at most
};

}  // namespace rondo

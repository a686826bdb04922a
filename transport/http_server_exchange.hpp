#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/http_server.hpp"

namespace rondo {

/// Bytes that all answers of a server hold for clients who have not taken them. Outlives the server with its answers.
struct AnswerBytes {
    explicit AnswerBytes(size_t most) : bytes_max(most) {}

    const size_t bytes_max;
    std::atomic<size_t> all{0};
};

/// The answer to one request, between the threads that write it and the connection that sends it: what was accepted
/// waits here as bytes for the wire until the connection takes it. The connection is known only as `wake`, which is
/// never called after `detach` or `lost`, so an answer may outlive connection and server.
class HttpExchange {
public:
    struct Request {
        bool http11 = true;
        bool head = false;   ///< the answer is to have no body
        bool close = false;  ///< the connection ends after the answer
    };
    enum class Stage {
        open,       ///< more may come
        complete,   ///< all has been accepted
        cut,        ///< given up: what was accepted is sent, and no end
        overflown,  ///< the client takes too slowly
    };

    /// `wake` is called under the lock, from any thread: it may only post.
    HttpExchange(Request request, size_t write_bytes_max, std::shared_ptr<AnswerBytes> answers,
                 std::function<void()> wake);
    ~HttpExchange();

    // The side that answers: as HttpReply, from any thread.
    void send(int status, HttpHeaders headers, std::string body);
    void begin(int status, HttpHeaders headers);
    bool write(std::string piece);
    void finish();
    void on_gone(std::function<void()> gone);
    /// Nobody is left to answer: a 500, or the end of a stream before its last chunk.
    void give_up();

    // The connection's side, from its strand.
    /// Moves what waits behind `pieces`; the stage as of that moment.
    Stage take(std::vector<std::string>& pieces);
    void sent(size_t bytes);  ///< these have left
    bool is_answered() const;
    bool is_overflown() const;
    void close_after();
    bool said_close() const;  ///< in the head of the answer
    void detach();            ///< all was sent
    /// The client cannot be answered any more; calls what `on_gone` was given.
    void lost();

private:
    bool has_room(size_t bytes) const;
    void push(std::string bytes);
    void let_go(size_t bytes);
    void wake_up();
    /// No more is accepted. Returns the callback that is now void, to be destroyed without the lock.
    [[nodiscard]] std::function<void()> end(Stage stage);
    void send_locked(int status, HttpHeaders headers, std::string body);

    mutable std::mutex mutex_;
    const Request request_;
    const size_t write_bytes_max_;
    const std::shared_ptr<AnswerBytes> answers_;
    std::function<void()> wake_;
    std::function<void()> gone_;
    std::vector<std::string> waiting_;
    size_t unsent_bytes_ = 0;
    Stage stage_ = Stage::open;
    bool begun_ = false;
    bool has_body_ = true;
    bool close_ = false;
    bool said_close_ = false;
    bool woken_ = false;
    bool lost_ = false;
};

/// What a handler holds; when the last one is dropped, the exchange is given up.
std::shared_ptr<HttpReply> make_http_reply(std::shared_ptr<HttpExchange> exchange);

}  // namespace rondo

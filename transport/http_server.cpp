#include "transport/http_server.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_set>
#include <utility>

#include "transport/client_room.hpp"
#include "transport/http_server_connection.hpp"
#include "transport/silent_peer.hpp"

namespace rondo {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using NetError = boost::system::error_code;
using Strand = asio::strand<asio::io_context::executor_type>;

constexpr int threads_max = 256;
constexpr int send_buffer_bytes = 256 << 10;
/// The pause before the next attempt to accept, when the process has no descriptor or memory left.
constexpr std::chrono::milliseconds accept_pause{50};

/// Listens, keeps the list of connections and owns the threads. What concerns listening and draining happens on the
/// `strand_`; the list has a lock, since connections leave it from strands of their own.
class AsioHttpServer final : public HttpServer {
public:
    AsioHttpServer(Options options, Handler handle)
        : options_(std::move(options)),
          shared_{.limits = options_.limits,
                  .handle = std::move(handle),
                  .refused = options_.refused,
                  .turn_away = options_.turn_away,
                  .closed = [this](const std::shared_ptr<HttpConnection>& connection) { forget(connection); }},
          io_(options_.threads),
          work_(io_.get_executor()),
          strand_(asio::make_strand(io_)),
          patience_(strand_) {}
    ~AsioHttpServer() override;

    Status listen();
    Status begin() override;
    uint16_t port() const override { return port_; }
    Counts counts() const override;
    void drain(std::chrono::milliseconds patience, std::function<void()> drained) override;

private:
    /// One for each address.
    struct Listener {
        explicit Listener(const Strand& strand) : acceptor(strand), pause(strand) {}
        tcp::acceptor acceptor;
        asio::steady_timer pause;
    };
    Error refused(const std::string& reason) const;
    NetError listen_on_all(const tcp::resolver::results_type& found);
    NetError listen_on(tcp::endpoint endpoint, bool is_one_of_several);
    void serve();
    void accept(Listener& listener);
    void admit(tcp::socket socket);
    void forget(const std::shared_ptr<HttpConnection>& connection);
    void stop_listening();
    void for_each(void (HttpConnection::*step)());
    void tell_if_drained();

    const Options options_;
    const size_t connections_max_ = make_room_for_clients(options_.limits.connections_max);
    HttpShared shared_;
    asio::io_context io_;
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
    Strand strand_;
    std::list<Listener> listeners_;
    asio::steady_timer patience_;
    uint16_t port_ = 0;
    uint64_t refused_ = 0;
    mutable std::mutex mutex_;
    std::unordered_set<std::shared_ptr<HttpConnection>> connections_;
    std::vector<std::function<void()>> drained_;  ///< to be called when the last connection is gone
    std::vector<std::thread> threads_;
};

/// Closed connections leave nothing pending, so the threads come to an end by themselves.
AsioHttpServer::~AsioHttpServer() {
    asio::post(strand_, [this] {
        stop_listening();
        patience_.cancel();
        for_each(&HttpConnection::close);
        work_.reset();
    });
    for (std::thread& thread : threads_) thread.join();
}

Error AsioHttpServer::refused(const std::string& reason) const {
    return make_error(ErrorCode::io, "HTTP server: cannot listen on " + options_.host + ":" +
                                         std::to_string(options_.port) + ": " + reason);
}

Status AsioHttpServer::listen() {
    NetError error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error || found.empty()) return refused("no such address");
    for (int tries = 0; tries < 8; ++tries) {
        error = listen_on_all(found);
        // Any free port of the first address may be taken at the second.
        if (options_.port != 0 || error != asio::error::address_in_use) break;
    }
    return error ? Status(refused(error.message())) : Status::ok();
}

/// Addresses of a kind that this machine has not are left out, if there are others. All others are listened on, or
/// none.
NetError AsioHttpServer::listen_on_all(const tcp::resolver::results_type& found) {
    listeners_.clear();
    port_ = 0;
    NetError last;
    std::set<asio::ip::address> seen;  // a hosts file may name one twice
    for (const auto& one : found) {
        if (!seen.insert(one.endpoint().address()).second) continue;
        const NetError error = listen_on(one.endpoint(), found.size() > 1);
        if (!error) continue;
        const bool has_no_such =
            error == asio::error::address_family_not_supported || error == boost::system::errc::address_not_available;
        if (!has_no_such) return error;
        last = error;
    }
    return listeners_.empty() ? last : NetError();
}

/// A name's addresses share the port that the first one found.
NetError AsioHttpServer::listen_on(tcp::endpoint endpoint, bool is_one_of_several) {
    NetError error;
    if (port_ != 0) endpoint.port(port_);
    Listener& listener = listeners_.emplace_back(strand_);
    tcp::acceptor& acceptor = listener.acceptor;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    // By itself IPv6's :: takes IPv4's clients too.
    if (!error && is_one_of_several && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor.local_endpoint(error).port();
    if (error) listeners_.pop_back();
    return error;
}

Status AsioHttpServer::begin() {
    for (Listener& listener : listeners_) accept(listener);
    try {
        for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { serve(); });
    } catch (const std::exception&) {
        return refused("the system gives no more threads");
    }
    return {};
}

/// Memory may run out in any step of a connection. That connection is left to its deadline; the others go on.
void AsioHttpServer::serve() {
    for (;;) {
        try {
            io_.run();
            return;
        } catch (const std::exception&) {
        }
    }
}

void AsioHttpServer::accept(Listener& listener) {
    listener.acceptor.async_accept(asio::make_strand(io_), [&, this](const NetError& error, tcp::socket socket) {
        if (!listener.acceptor.is_open()) return;
        if (!error) {
            accept(listener);
            return admit(std::move(socket));
        }
        listener.pause.expires_after(accept_pause);
        listener.pause.async_wait([&, this](const NetError& cancelled) {
            if (!cancelled && listener.acceptor.is_open()) accept(listener);
        });
    });
}

void AsioHttpServer::admit(tcp::socket socket) {
    NetError error;
    const tcp::endpoint peer = socket.remote_endpoint(error);
    if (!error) socket.non_blocking(true, error);
    if (!error) socket.set_option(tcp::no_delay(true), error);
    // Otherwise the kernel would hold megabytes for a client that does not read.
    if (!error) socket.set_option(tcp::socket::send_buffer_size(send_buffer_bytes), error);
    if (error) return;  // it has left already
    end_when_silent(socket.native_handle());
    std::shared_ptr<HttpConnection> connection;
    {
        const std::lock_guard lock(mutex_);
        if (connections_.size() >= connections_max_) {
            ++refused_;
            return;
        }
        connection = std::make_shared<HttpConnection>(std::move(socket), peer.address().to_string(), shared_);
        connections_.insert(connection);
    }
    connection->start();
}

void AsioHttpServer::forget(const std::shared_ptr<HttpConnection>& connection) {
    {
        const std::lock_guard lock(mutex_);
        connections_.erase(connection);
    }
    tell_if_drained();
}

HttpServer::Counts AsioHttpServer::counts() const {
    const std::lock_guard lock(mutex_);
    return {.connections = connections_.size(),
            .refused = refused_,
            .timed_out = shared_.timed_out,
            .body_bytes = shared_.bodies.all(),
            .answer_bytes = shared_.answers->all};
}

void AsioHttpServer::drain(std::chrono::milliseconds patience, std::function<void()> drained) {
    asio::post(strand_, [this, patience, drained = std::move(drained)]() mutable {
        shared_.draining = true;
        stop_listening();
        {
            const std::lock_guard lock(mutex_);
            drained_.push_back(std::move(drained));
        }
        for_each(&HttpConnection::drain);
        patience_.expires_after(patience);
        patience_.async_wait([this](const NetError& cancelled) {
            if (!cancelled) for_each(&HttpConnection::cut_off);
        });
        tell_if_drained();
    });
}

void AsioHttpServer::stop_listening() {
    NetError ignored;
    for (Listener& listener : listeners_) {
        listener.acceptor.close(ignored);
        listener.pause.cancel();
    }
}

void AsioHttpServer::for_each(void (HttpConnection::*step)()) {
    std::vector<std::shared_ptr<HttpConnection>> open;
    {
        const std::lock_guard lock(mutex_);
        open.assign(connections_.begin(), connections_.end());
    }
    for (const auto& connection : open) ((*connection).*step)();
}

void AsioHttpServer::tell_if_drained() {
    std::vector<std::function<void()>> drained;
    {
        const std::lock_guard lock(mutex_);
        if (connections_.empty()) drained.swap(drained_);
    }
    for (const auto& tell : drained) {
        try {
            tell();
        } catch (...) {
            // What the owner does at the end must not take the server's thread down.
        }
    }
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::open(Options options, Handler handle) {
    if (options.host.empty())
        return make_error(ErrorCode::invalid_argument, "HTTP server: host is empty, must be an address to listen on");
    if (options.threads < 1 || options.threads > threads_max)
        return make_error(ErrorCode::invalid_argument, "HTTP server: threads is " + std::to_string(options.threads) +
                                                           ", must be 1 to " + std::to_string(threads_max));
    auto server = std::make_unique<AsioHttpServer>(std::move(options), std::move(handle));
    RONDO_TRY(server->listen());
    return std::unique_ptr<HttpServer>(std::move(server));
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(Options options, Handler handle) {
    RONDO_ASSIGN(std::unique_ptr<HttpServer> server, open(std::move(options), std::move(handle)));
    RONDO_TRY(server->begin());
    return server;
}

}  // namespace rondo

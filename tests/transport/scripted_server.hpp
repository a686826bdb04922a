#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace rondo::testing {

/// The bytes of one connection, as they are or within TLS.
class ScriptedChannel {
public:
    explicit ScriptedChannel(int socket) : socket_(socket) {}
    virtual ~ScriptedChannel() = default;
    ScriptedChannel(const ScriptedChannel&) = delete;
    ScriptedChannel& operator=(const ScriptedChannel&) = delete;

    /// Both give what recv and send give.
    virtual ssize_t receive(char* into, size_t bytes) { return ::recv(socket_, into, bytes, 0); }
    virtual ssize_t send(const char* bytes, size_t count) { return ::send(socket_, bytes, count, MSG_NOSIGNAL); }

protected:
    const int socket_;
};

/// Listens on a free port of this machine and answers each request with exactly the bytes a test wants, right or wrong.
/// A thread a connection; the destructor closes all of them.
class ScriptedServer {
public:
    /// Null where the server does not talk with this client.
    using Open = std::function<std::unique_ptr<ScriptedChannel>(int socket)>;

    struct Request {
        std::string head;    ///< request line and headers, with the empty line
        std::string body;    ///< as long as Content-Length says
        int connection = 0;  ///< its number, from 0
    };
    /// False when the client has gone.
    using Send = std::function<bool(std::string_view)>;
    /// Runs on the connection's thread; false closes the connection.
    using Handler = std::function<bool(const Request&, const Send&)>;

    explicit ScriptedServer(
        Handler handler, Open open = [](int socket) { return std::make_unique<ScriptedChannel>(socket); })
        : handler_(std::move(handler)), open_channel_(std::move(open)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
            ::listen(listener_, 64) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
            throw std::runtime_error("no socket to listen on");
        }
        port_ = ntohs(address.sin_port);
        acceptor_ = std::thread([this] { accept_all(); });
    }

    ~ScriptedServer() {
        ::shutdown(listener_, SHUT_RDWR);
        acceptor_.join();
        ::close(listener_);
        {
            const std::lock_guard lock(mutex_);
            for (const int connection : open_) ::shutdown(connection, SHUT_RDWR);
        }
        for (std::thread& thread : threads_) thread.join();
    }

    uint16_t port() const { return port_; }
    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

private:
    void accept_all() {
        for (int count = 0;; ++count) {
            const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (connection < 0) return;
            const int now = 1;  // small pieces leave at once, as a server of streams has it
            ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
            const std::lock_guard lock(mutex_);
            open_.push_back(connection);
            threads_.emplace_back([this, connection, count] { serve(connection, count); });
        }
    }

    void serve(int connection, int count) {
        if (const auto channel = open_channel_(connection)) talk(*channel, count);
        const std::lock_guard lock(mutex_);
        open_.erase(std::find(open_.begin(), open_.end(), connection));
        ::close(connection);
    }

    void talk(ScriptedChannel& channel, int count) {
        const Send send = [&channel](std::string_view bytes) {
            while (!bytes.empty()) {
                const ssize_t sent = channel.send(bytes.data(), bytes.size());
                if (sent <= 0) return false;
                bytes.remove_prefix(static_cast<size_t>(sent));
            }
            return true;
        };
        std::string received;
        for (;;) {
            Request request;
            request.connection = count;
            if (!read_request(channel, received, request) || !handler_(request, send)) break;
        }
    }

    static bool read_request(ScriptedChannel& channel, std::string& received, Request& request) {
        size_t end = received.find("\r\n\r\n");
        for (; end == received.npos; end = received.find("\r\n\r\n")) {
            if (!read_more(channel, received)) return false;
        }
        request.head = received.substr(0, end + 4);
        received.erase(0, end + 4);
        const size_t length_at = request.head.find("Content-Length: ");
        const size_t length = length_at == request.head.npos ? 0 : std::stoul(request.head.substr(length_at + 16));
        while (received.size() < length) {
            if (!read_more(channel, received)) return false;
        }
        request.body = received.substr(0, length);
        received.erase(0, length);
        return true;
    }

    static bool read_more(ScriptedChannel& channel, std::string& received) {
        char piece[4096];
        const ssize_t got = channel.receive(piece, sizeof piece);
        if (got <= 0) return false;
        received.append(piece, static_cast<size_t>(got));
        return true;
    }

    Handler handler_;
    Open open_channel_;
    int listener_ = -1;
    uint16_t port_ = 0;
    std::thread acceptor_;
    std::mutex mutex_;  ///< of the two below
    std::vector<int> open_;
    std::vector<std::thread> threads_;
};

/// A whole answer whose connection is kept.
inline std::string http_answer(int status, std::string_view body, std::string_view more_headers = "") {
    return "HTTP/1.1 " + std::to_string(status) + " Some\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           std::string(more_headers) + "\r\n" + std::string(body);
}

/// A piece of a chunked body; an empty one ends it.
inline std::string http_chunk(std::string_view bytes) {
    char size[24];
    std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    return size + std::string(bytes) + "\r\n";
}

}  // namespace rondo::testing

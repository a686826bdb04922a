#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "transport/http_server.hpp"

namespace rondo {

constexpr std::chrono::seconds test_patience{20};

/// A response as it came; `whole` is false when the connection ended before it did.
struct RawResponse {
    int status = 0;
    std::map<std::string, std::string> headers;  ///< names in lower case
    std::string body;
    bool whole = false;
};

/// A client that sends any bytes it likes. Every read gives up after `test_patience`.
class RawClient {
public:
    /// With a small buffer, segments are those of a network: for the loopback's of 64 KiB the kernel would hold as much
    /// as 4 MiB on the server's side.
    explicit RawClient(uint16_t port, int receive_buffer_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        if (receive_buffer_bytes > 0) {
            const int segment_bytes = 1400;
            ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
            ::setsockopt(socket_, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof segment_bytes);
        }
        const int yes = 1;
        ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    }
    ~RawClient() { close(); }
    RawClient(RawClient&& other) noexcept
        : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_), in_(std::move(other.in_)) {}
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    bool is_connected() const { return connected_; }

    /// False when the server takes no more.
    bool send(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (count <= 0) return false;
            bytes.remove_prefix(static_cast<size_t>(count));
        }
        return true;
    }
    /// Sends zeros until the server has taken none for a while; how many it and the kernel took.
    size_t send_until_full(size_t bytes_max) {
        const std::string zeros(65536, '0');
        size_t sent = 0;
        pollfd room{socket_, POLLOUT, 0};
        while (sent<bytes_max&& ::poll(&room, 1, 300)> 0) {
            const ssize_t count = ::send(socket_, zeros.data(), zeros.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (count <= 0) break;
            sent += static_cast<size_t>(count);
        }
        return sent;
    }
    void close() {
        if (socket_ >= 0) ::close(socket_);
        socket_ = -1;
    }
    void half_close() { ::shutdown(socket_, SHUT_WR); }
    void reset() {
        const linger at_once{1, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close();
    }

    /// Everything up to and with `end`, or nothing when the connection ends before.
    std::optional<std::string> read_until(std::string_view end) {
        size_t found = in_.find(end);
        while (found == std::string::npos) {
            if (!receive()) return std::nullopt;
            found = in_.find(end);
        }
        return take(found + end.size());
    }
    std::optional<std::string> read_bytes(size_t count) {
        while (in_.size() < count) {
            if (!receive()) return std::nullopt;
        }
        return take(count);
    }
    /// What comes until the server closes.
    std::string read_to_end() {
        while (receive()) {
        }
        return take(in_.size());
    }
    /// Waits for the server to close; false when bytes come instead.
    bool sees_close() { return !receive() && !gave_up_; }
    /// Whether what ended the reading was a reset, by which bytes on their way are lost.
    bool was_reset() const { return was_reset_; }
    /// Does not wait.
    bool is_closed_now() {
        char c = 0;
        const ssize_t count = ::recv(socket_, &c, 1, MSG_PEEK | MSG_DONTWAIT);
        return count == 0 || (count < 0 && errno != EAGAIN) || (count == 1 && (receive(), is_closed_now()));
    }

    RawResponse read_head() {
        RawResponse response;
        const auto head = read_until("\r\n\r\n");
        if (!head || !head->starts_with("HTTP/1.1 ")) return response;
        response.status = std::stoi(head->substr(9, 3));
        size_t line = head->find("\r\n") + 2;
        while (head->compare(line, 2, "\r\n") != 0) {
            const size_t colon = head->find(": ", line);
            const size_t end = head->find("\r\n", line);
            std::string name = head->substr(line, colon - line);
            for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
            response.headers[name] = head->substr(colon + 2, end - colon - 2);
            line = end + 2;
        }
        return response;
    }
    /// "" is the last one; nothing when the connection ends before it.
    std::optional<std::string> read_chunk() {
        const auto size = read_until("\r\n");
        if (!size) return std::nullopt;
        auto chunk = read_bytes(std::stoul(*size, nullptr, 16) + 2);
        if (chunk) chunk->resize(chunk->size() - 2);
        return chunk;
    }
    RawResponse read_response(bool to_head_request = false) {
        RawResponse response = read_head();
        if (to_head_request || response.status == 204 || response.status / 100 == 1) {
            response.whole = response.status != 0;
        } else if (response.headers.contains("content-length")) {
            auto body = read_bytes(std::stoul(response.headers["content-length"]));
            response.whole = body.has_value();
            response.body = std::move(body).value_or("");
        } else if (response.headers.contains("transfer-encoding")) {
            auto chunk = read_chunk();
            for (; chunk && !chunk->empty(); chunk = read_chunk()) response.body += *chunk;
            response.whole = chunk.has_value();
        }
        return response;
    }
    RawResponse ask(std::string_view request) {
        send(request);
        return read_response();
    }

private:
    bool receive() {
        pollfd waiting{socket_, POLLIN, 0};
        gave_up_ = ::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(test_patience).count())) <= 0;
        if (gave_up_) return false;
        char bytes[16384];
        const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
        if (count > 0) in_.append(bytes, static_cast<size_t>(count));
        was_reset_ = count < 0;
        return count > 0;
    }
    std::string take(size_t count) {
        std::string taken = in_.substr(0, count);
        in_.erase(0, count);
        if (in_.empty()) std::string().swap(in_);
        return taken;
    }

    int socket_;
    bool connected_ = false;
    bool gave_up_ = false;
    bool was_reset_ = false;
    std::string in_;
};

/// Hands things from the server's threads to the test.
template <class T>
class Mailbox {
public:
    void put(T thing) {
        {
            const std::lock_guard lock(mutex_);
            things_.push_back(std::move(thing));
        }
        more_.notify_one();
    }
    std::optional<T> take() {
        std::unique_lock lock(mutex_);
        if (!more_.wait_for(lock, test_patience, [this] { return !things_.empty(); })) return std::nullopt;
        T thing = std::move(things_.front());
        things_.pop_front();
        return thing;
    }
    size_t size() const {
        const std::lock_guard lock(mutex_);
        return things_.size();
    }

private:
    mutable std::mutex mutex_;
    std::condition_variable more_;
    std::deque<T> things_;
};

using Replies = Mailbox<std::shared_ptr<HttpReply>>;

/// It listens and has not begun. What a client sends before it begins has come when its idle time begins to run, so no
/// busy machine can make the client too late.
inline std::unique_ptr<HttpServer> open_server(HttpServer::Handler handle, HttpLimits limits = {}, int threads = 1) {
    auto server =
        HttpServer::open({.host = "127.0.0.1", .port = 0, .threads = threads, .limits = limits}, std::move(handle));
    EXPECT_TRUE(server.is_ok());
    return server.is_ok() ? std::move(server).value() : nullptr;
}

inline std::unique_ptr<HttpServer> start_server(HttpServer::Handler handle, HttpLimits limits = {}, int threads = 1) {
    auto server = open_server(std::move(handle), limits, threads);
    EXPECT_TRUE(server != nullptr && server->begin());
    return server;
}

/// Answers with what was asked: "METHOD path?query body".
inline void echo(HttpRequest request, std::shared_ptr<HttpReply> reply) {
    reply->send(200, {{"Content-Type", "text/plain"}},
                request.method + ' ' + request.path + '?' + request.query + ' ' + request.body);
}

/// Keeps every reply for the test to answer.
inline HttpServer::Handler keep_in(Replies& replies) {
    return [&replies](HttpRequest, std::shared_ptr<HttpReply> reply) { replies.put(std::move(reply)); };
}

inline bool becomes_true(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + test_patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

inline size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
}

constexpr std::string_view get_root = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";

}  // namespace rondo

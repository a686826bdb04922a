#include "transport/socket_stream.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/silent_peer.hpp"

namespace rondo {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long a caller that wants to stop may have to wait for its next chance to say so.
constexpr milliseconds look_around_every{100};
// An address that swallows packets must not keep the next one of the same name from being tried.
constexpr std::chrono::seconds connect_time_max{20};

Error of_system(int number) {
    if (number == ECONNREFUSED) {
        return make_error(ErrorCode::io, "nothing listens there; a server must be running");
    }
    return make_error(ErrorCode::io, std::strerror(number));
}

bool would_block(int number) {
    return number == EAGAIN || number == EWOULDBLOCK || number == EINTR;
}

class SocketStream : public ByteStream {
public:
    explicit SocketStream(int descriptor) : descriptor_(descriptor) {}
    ~SocketStream() override { ::close(descriptor_); }
    SocketStream(const SocketStream&) = delete;
    SocketStream& operator=(const SocketStream&) = delete;

    Status connect(const addrinfo& to, const Patience& patience) {
        if (::connect(descriptor_, to.ai_addr, to.ai_addrlen) != 0) {
            if (errno != EINPROGRESS && errno != EINTR) return of_system(errno);
            RONDO_TRY(wait_for(POLLOUT, patience));
            int failed = 0;
            socklen_t size = sizeof failed;
            if (::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
            if (failed != 0) return of_system(failed);
        }
        // A request leaves at once; waiting to fill a packet would be measured as the server's time.
        const int now = 1;
        if (::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now) != 0) return of_system(errno);
        end_when_silent(descriptor_);
        return Status::ok();
    }

    Result<size_t> read_some(std::span<char> into, const Patience& patience) override {
        for (;;) {
            const ssize_t got = ::recv(descriptor_, into.data(), into.size(), 0);
            if (got >= 0) return static_cast<size_t>(got);
            // The server may be at it still, out of reach, so what it was asked must not be asked again.
            if (errno == ETIMEDOUT) return make_error(ErrorCode::timeout, "the server's machine is silent");
            if (!would_block(errno)) return of_system(errno);
            RONDO_TRY(wait_for(POLLIN, patience));
        }
    }

    Status write(std::string_view bytes, const Patience& patience) override {
        while (!bytes.empty()) {
            const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
            if (sent >= 0) continue;
            if (!would_block(errno)) return of_system(errno);
            RONDO_TRY(wait_for(POLLOUT, patience));
        }
        return Status::ok();
    }

private:
    /// Until the socket can be read or written, or has an error to tell.
    Status wait_for(short events, const Patience& patience) const {
        for (;;) {
            const auto left = std::chrono::ceil<milliseconds>(patience.deadline - steady_clock::now());
            if (left.count() <= 0) return make_error(ErrorCode::timeout, "no answer before the deadline");
            pollfd waiting{descriptor_, events, 0};
            const int ready = ::poll(&waiting, 1, static_cast<int>(std::min(left, look_around_every).count()));
            if (ready < 0 && errno != EINTR) return of_system(errno);
            // Also where something has come: it may be drips of a header that never ends.
            if (patience.goes_on && !patience.goes_on()) {
                return make_error(ErrorCode::cancelled, "stopped by the caller");
            }
            if (ready > 0) return Status::ok();
        }
    }

    const int descriptor_;
};

struct Addresses {
    Addresses() = default;
    Addresses(const Addresses&) = delete;
    Addresses& operator=(const Addresses&) = delete;
    ~Addresses() {
        if (first != nullptr) ::freeaddrinfo(first);
    }
    addrinfo* first = nullptr;
};

}  // namespace

Result<std::unique_ptr<ByteStream>> connect_socket(const std::string& host, uint16_t port, const Patience& patience) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    Addresses found;
    const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found.first);
    if (failed != 0) return make_error(ErrorCode::io, std::string("the name is not known: ") + ::gai_strerror(failed));
    Error last = make_error(ErrorCode::io, "the name has no address");
    for (const addrinfo* one = found.first; one != nullptr; one = one->ai_next) {
        const int descriptor =
            ::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol);
        if (descriptor < 0) {
            last = of_system(errno);
            continue;
        }
        auto stream = std::make_unique<SocketStream>(descriptor);
        Patience shorter = patience;
        shorter.deadline = std::min(patience.deadline, steady_clock::now() + connect_time_max);
        const Status connected = stream->connect(*one, shorter);
        if (connected) return std::unique_ptr<ByteStream>(std::move(stream));
        last = connected.error();
        if (last.code == ErrorCode::cancelled || steady_clock::now() >= patience.deadline) break;
    }
    return last;
}

}  // namespace rondo

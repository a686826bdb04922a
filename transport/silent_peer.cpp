#include "transport/silent_peer.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace rondo {

/// Without any of these a connection works all the same, so a kernel may refuse them.
void end_when_silent(int descriptor, std::chrono::milliseconds time) {
    constexpr int probes = 3;
    const int on = 1;
    const int between_s = std::max(static_cast<int>(time.count() / 1000) / probes, 1);
    const auto all_ms = static_cast<unsigned>(time.count());
    ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &between_s, sizeof between_s);
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &all_ms, sizeof all_ms);
}

}  // namespace rondo

#include "transport/silent_peer.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/transport/http_server_fixture.hpp"
#include "tests/transport/scripted_server.hpp"
#include "transport/http_client.hpp"

namespace rondo {
namespace {

sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

using NameOf = int (*)(int, sockaddr*, socklen_t*);

/// 0 where there is none.
uint16_t port_of(int socket, NameOf name_of) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    return name_of(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? ntohs(address.sin_port) : uint16_t{0};
}

/// A connection to a machine that falls silent: its kernel drops every packet.
class SilentConnection {
public:
    SilentConnection() {
        const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in any = loopback(0);
        ::bind(listener, reinterpret_cast<const sockaddr*>(&any), sizeof any);
        ::listen(listener, 1);
        const sockaddr_in there = loopback(port_of(listener, ::getsockname));
        ::connect(near_, reinterpret_cast<const sockaddr*>(&there), sizeof there);
        far_ = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        ::close(listener);
    }
    ~SilentConnection() {
        ::close(near_);
        ::close(far_);
    }
    SilentConnection(const SilentConnection&) = delete;
    SilentConnection& operator=(const SilentConnection&) = delete;

    int near() const { return near_; }
    /// False where this machine's kernel filters nothing.
    bool fall_silent() const {
        sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
        const sock_fprog program{1, &drop};
        return ::setsockopt(far_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
    }
    /// How the connection ends; 0: it does not.
    int end() const {
        pollfd waiting{near_, POLLIN, 0};
        if (::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(test_patience).count())) <= 0) return 0;
        int error = 0;
        socklen_t size = sizeof error;
        ::getsockopt(near_, SOL_SOCKET, SO_ERROR, &error, &size);
        return error;
    }

private:
    const int near_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int far_ = -1;
};

TEST(SilentPeer, EndsTheConnection) {
    SilentConnection idle, sending;
    for (const SilentConnection* one : {&idle, &sending}) {
        end_when_silent(one->near(), std::chrono::milliseconds(1500));
        if (!one->fall_silent()) GTEST_SKIP() << "this kernel filters no packets";
    }
    EXPECT_EQ(::send(sending.near(), "x", 1, MSG_NOSIGNAL), 1);
    EXPECT_EQ(sending.end(), ETIMEDOUT);
    EXPECT_EQ(idle.end(), ETIMEDOUT);
}

/// Of this process's connected sockets those with this port at one end: for how long the other machine may be silent.
std::vector<std::chrono::milliseconds> silence_of(uint16_t port, NameOf name_of) {
    std::vector<std::chrono::milliseconds> all;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int socket = std::stoi(entry.path().filename().string());
        if (port_of(socket, ::getpeername) == 0 || port_of(socket, name_of) != port) continue;
        int probes = 0;
        unsigned ms = 0;
        socklen_t probes_size = sizeof probes, size = sizeof ms;
        ::getsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &probes, &probes_size);
        ::getsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &size);
        all.emplace_back(probes != 0 ? ms : 0);
    }
    return all;
}

TEST(SilentPeer, IsNoticedByTheServer) {
    const auto server = start_server(echo);
    RawClient client(server->port());
    EXPECT_EQ(client.ask(get_root).status, 200);
    EXPECT_EQ(silence_of(server->port(), ::getsockname), std::vector{silent_time_max});
}

TEST(SilentPeer, IsNoticedByTheClient) {
    testing::ScriptedServer server([](const auto&, const auto& send) { return send(testing::http_answer(200, "")); });
    HttpClient client(Url::parse(server.url()).value());
    ASSERT_TRUE(client.request("GET", "/", {}, "", std::chrono::steady_clock::now() + test_patience));
    EXPECT_EQ(silence_of(server.port(), ::getpeername), std::vector{silent_time_max});
}

}  // namespace
}  // namespace rondo

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/transport/http_server_fixture.hpp"
#include "transport/client_room.hpp"
#include "transport/http_server_connection.hpp"

namespace rondo {
namespace {

using std::chrono::milliseconds;

bool all_gone(const HttpServer& server) {
    return becomes_true([&] { return server.counts().connections == 0; });
}

/// Sends `start`, then one byte after another until the server closes; what it said at the end.
std::string drip(HttpServer& server, std::string_view start) {
    RawClient client(server.port());
    client.send(start);
    EXPECT_TRUE(becomes_true([&] {
        client.send("x");
        return client.is_closed_now();
    }));
    return client.read_to_end();
}

TEST(HttpLimits, HeaderTimeIsOneDeadlineForAllOfIt) {
    const auto server = start_server(echo, {.header_bytes_max = 1 << 20, .header_time = milliseconds(100)});
    EXPECT_TRUE(drip(*server, "GET / HTTP/1.1\r\nHost: ").starts_with("HTTP/1.1 408 "));
    EXPECT_TRUE(all_gone(*server));
    EXPECT_EQ(server->counts().timed_out, 1u);
}

TEST(HttpLimits, HeaderTimeHoldsForALaterRequestToo) {
    const auto server = start_server(echo, {.header_time = milliseconds(100)});
    RawClient client(server->port());
    EXPECT_EQ(client.ask(get_root).status, 200);
    EXPECT_EQ(client.ask("GET / HT").status, 408);
    EXPECT_TRUE(client.sees_close());
}

TEST(HttpLimits, LineEndsBehindABodyBeginNoRequest) {
    const auto server = start_server(echo, {.header_time = milliseconds(100)});
    RawClient client(server->port());
    EXPECT_EQ(client.ask("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nhi\r\n").status, 200);
    for (const char* more : {"\r\n", "\r", "\n\r\n\r\n"}) {
        client.send(more);
        std::this_thread::sleep_for(milliseconds(150));
    }
    EXPECT_EQ(client.ask(get_root).status, 200);
    EXPECT_EQ(server->counts().timed_out, 0u);
}

TEST(HttpLimits, BodyTimeIsOneDeadlineForAllOfIt) {
    const auto server = start_server(echo, {.body_time = milliseconds(100)});
    EXPECT_TRUE(
        drip(*server, "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n").starts_with("HTTP/1.1 408 "));
    EXPECT_TRUE(drip(*server, "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n")
                    .starts_with("HTTP/1.1 408 "));
    EXPECT_EQ(server->counts().timed_out, 2u);
}

TEST(HttpLimits, IdleTimeEndsConnectionsWithoutAWord) {
    const auto server = open_server(echo, {.idle_time = milliseconds(200)});
    RawClient silent(server->port());
    RawClient kept(server->port());
    kept.send(get_root);
    ASSERT_TRUE(server->begin());
    EXPECT_EQ(kept.read_response().status, 200);
    EXPECT_EQ(silent.read_to_end(), "");
    EXPECT_EQ(kept.read_to_end(), "");
    EXPECT_EQ(server->counts().timed_out, 2u);
}

TEST(HttpLimits, NoDeadlineRunsWhileTheHandlerThinks) {
    Replies replies;
    const auto server =
        open_server(keep_in(replies),
                    {.header_time = milliseconds(200), .body_time = milliseconds(200), .idle_time = milliseconds(200)});
    RawClient client(server->port());
    client.send(get_root);
    ASSERT_TRUE(server->begin());
    const auto reply = replies.take().value();
    // Another connection's whole life passes meanwhile, which shows that the time is over.
    EXPECT_TRUE(RawClient(server->port()).sees_close());
    reply->send(200, {}, "thought");
    EXPECT_EQ(client.read_response().body, "thought");
}

TEST(HttpLimits, WriteTimeRunsOnlyWhileThereIsSomethingToWrite) {
    Replies replies;
    const auto server = open_server(keep_in(replies), {.idle_time = milliseconds(300), .write_time = milliseconds(50)});
    RawClient client(server->port());
    client.send(get_root);
    ASSERT_TRUE(server->begin());
    const auto reply = replies.take().value();
    reply->begin(200, {});
    EXPECT_EQ(client.read_head().status, 200);
    EXPECT_TRUE(RawClient(server->port()).sees_close());
    EXPECT_TRUE(reply->write("piece"));
    EXPECT_EQ(client.read_chunk(), "piece");
}

TEST(HttpLimits, ConnectionsBeyondTheLimitAreClosedAtOnce) {
    const auto server = start_server(echo, {.connections_max = 3});
    std::vector<RawClient> clients;
    for (int i = 0; i < 3; ++i) {
        clients.emplace_back(server->port());
        EXPECT_EQ(clients.back().ask(get_root).status, 200);
    }
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(RawClient(server->port()).sees_close());
    EXPECT_EQ(server->counts().refused, 5u);
    EXPECT_EQ(server->counts().connections, 3u);

    clients.pop_back();
    EXPECT_TRUE(becomes_true([&] { return server->counts().connections == 2; }));
    EXPECT_EQ(RawClient(server->port()).ask(get_root).status, 200);
}

TEST(HttpLimits, LargeBodiesOnTheirWayAreBoundedTogether) {
    const auto server = start_server(echo, {.header_bytes_max = 1024, .bodies_bytes_max = size_t{128} << 10});
    const auto part = [](size_t bytes) {
        return "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n" + std::string(bytes, 'x');
    };
    const auto whole = [](size_t bytes) {
        return "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" +
               std::string(bytes, 'x');
    };
    RawClient first(server->port());
    first.send(part(60'000));
    EXPECT_TRUE(becomes_true([&] { return server->counts().body_bytes >= 60'000; }));
    EXPECT_EQ(RawClient(server->port()).ask(part(10'000)).status, 503);
    EXPECT_EQ(RawClient(server->port()).ask(whole(1'000)).status, 200) << "a small one always finds room";
    first.close();
    EXPECT_TRUE(becomes_true([&] { return RawClient(server->port()).ask(whole(60'000)).status == 200; }));
    RawClient again(server->port());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(again.ask(whole(60'000)).status, 200) << "what has come whole counts no more";
}

TEST(HttpLimits, OneAddressHasHalfOfTheRoomForBodies) {
    BodyBytes bodies;
    EXPECT_EQ(bodies.hold("a", 0, 70).by_peer, 70U);
    EXPECT_EQ(bodies.hold("b", 0, 10).by_peer, 10U);
    EXPECT_EQ(bodies.hold("a", 0, 30).by_peer, 100U) << "another connection";
    EXPECT_EQ(bodies.hold("a", 70, 20).by_all, 60U);
    for (const auto& [peer, held] : {std::pair("a", 20), std::pair("a", 30), std::pair("b", 10)})
        bodies.hold(peer, static_cast<size_t>(held), 0);
    EXPECT_EQ(bodies.all(), 0U);
    EXPECT_EQ(bodies.hold("a", 0, 1).by_peer, 1U);
}

TEST(HttpLimits, ClientsWaitUntilTheServerHasBegun) {
    HttpServer::Options options;
    const auto server = std::move(HttpServer::open(options, echo)).value();
    RawClient early(server->port());
    early.send(get_root);
    EXPECT_EQ(server->counts().connections, 0u);
    ASSERT_TRUE(server->begin());
    EXPECT_EQ(early.read_head().status, 200);
    EXPECT_TRUE(std::move(HttpServer::open(options, echo)).is_ok()) << "one that never begins ends too";
}

TEST(HttpLimits, FiveHundredDripsDoNotKeepGoodClientsWaiting) {
    const size_t before = open_descriptors();
    {
        const auto server = start_server(echo, {.header_bytes_max = 1 << 20, .header_time = milliseconds(1000)});
        std::vector<RawClient> drips;
        for (int i = 0; i < 500; ++i) {
            drips.emplace_back(server->port());
            EXPECT_TRUE(drips.back().send("GET / HTTP/1.1\r\nHost: "));
        }
        RawClient good(server->port());
        size_t answered = 0;
        size_t asked = 0;
        const bool all_closed = becomes_true([&] {
            size_t closed = 0;
            for (RawClient& client : drips) {
                client.send("x");
                closed += client.is_closed_now() ? 1 : 0;
            }
            ++asked;
            answered += good.ask(get_root).status == 200 ? 1 : 0;
            return closed == drips.size();
        });
        EXPECT_TRUE(all_closed);
        EXPECT_GT(asked, 1u);
        EXPECT_EQ(answered, asked);
        EXPECT_EQ(server->counts().timed_out, 500u);
        EXPECT_TRUE(becomes_true([&] { return server->counts().connections == 1; }));
    }
    EXPECT_EQ(open_descriptors(), before);
}

TEST(HttpLimits, AbortedRequestsGiveEverythingBack) {
    Replies replies;
    const auto server = start_server(keep_in(replies));
    const size_t before = open_descriptors();
    std::atomic<int> gone{0};
    for (int i = 0; i < 1000; ++i) {
        RawClient client(server->port());
        client.send(get_root);
        const auto reply = replies.take().value();
        reply->on_gone([&] { ++gone; });
        if (i % 2 == 0) reply->begin(200, {});
        i % 3 == 0 ? client.reset() : client.close();
    }
    EXPECT_TRUE(all_gone(*server));
    EXPECT_EQ(open_descriptors(), before);
}

TEST(HttpLimits, AnIdleConnectionHoldsLittleMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's allocator does not say what is in use";
#endif
    const auto in_use = [] {
        const auto heap = ::mallinfo2();
        return heap.uordblks + heap.hblkhd;
    };
    const auto server = start_server(echo, {.write_bytes_max = 1 << 20});
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);  // a shell gives 1,024
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    const size_t count = std::min<size_t>(2000, (limit.rlim_cur - 200) / 2);
    std::vector<RawClient> clients;
    clients.reserve(count);
    const std::string request =
        "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 50000\r\n\r\n" + std::string(50'000, 'x');
    EXPECT_EQ(RawClient(server->port()).ask(request).status, 200);
    const size_t before = in_use();
    for (size_t i = 0; i < count; ++i) {
        clients.emplace_back(server->port());
        ASSERT_EQ(clients.back().ask(request).status, 200) << "of client " << i;
    }
    const size_t bytes_each = (in_use() - before) / count;
    RecordProperty("bytes_each", static_cast<int>(bytes_each));
    EXPECT_LT(bytes_each, 4096u) << "both ends together";
}

TEST(HttpLimits, GoesOnAcceptingAfterTheProcessRanOutOfDescriptors) {
    const auto server = start_server(echo);
    RawClient client(server->port());
    EXPECT_EQ(client.ask(get_root).status, 200);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    // The connection takes the last descriptor there is, so the server finds none for its end.
    const int next = ::dup(0);
    ASSERT_GE(next, 0);
    ::close(next);
    const rlimit none_left{static_cast<rlim_t>(next) + 1, limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
    RawClient waiting(server->port());
    waiting.send(get_root);
    EXPECT_EQ(client.ask(get_root).status, 200) << "who is in is served";
    EXPECT_EQ(server->counts().connections, 1u);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(waiting.read_response().status, 200);
}

/// A shell and systemd give a process 1,024 descriptors and let it have more.
TEST(HttpLimits, TheServerTakesTheDescriptorsThatItsClientsNeed) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit few{std::min<rlim_t>(before.rlim_max, 600), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto server = start_server(echo);
    rlimit now{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(now.rlim_cur, std::min<rlim_t>(before.rlim_max, 12'512));
}

TEST(HttpLimits, ClientsLeaveDescriptorsToOthers) {
    EXPECT_EQ(clients_within(20'000, 12'000), 12'000U);
    EXPECT_EQ(clients_within(12'100, 12'000), 11'588U);
    EXPECT_EQ(clients_within(1'024, 12'000), 512U);
    EXPECT_EQ(clients_within(100, 12'000), 50U);
    EXPECT_EQ(clients_within(100, 3), 3U);
}

}  // namespace
}  // namespace rondo

// How a server ends: by a drain, or at once.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/transport/http_server_fixture.hpp"

namespace rondo {
namespace {

using std::chrono::milliseconds;

TEST(HttpDrain, ClosesIdleConnectionsAndFinishesAnswers) {
    Replies replies;
    Mailbox<bool> drained;
    const auto server = start_server(keep_in(replies));
    RawClient idle(server->port());
    RawClient waiting(server->port());
    RawClient streaming(server->port());
    RawClient sending(server->port());
    sending.send("GET / HTTP/1.1\r\nHo");
    waiting.send(get_root);
    const auto first = replies.take().value();
    streaming.send(get_root);
    const auto second = replies.take().value();
    second->begin(200, {});
    EXPECT_EQ(streaming.read_head().status, 200);
    ASSERT_TRUE(becomes_true([&] { return server->counts().connections == 4; }));

    server->drain(test_patience, [&] { drained.put(true); });
    EXPECT_TRUE(idle.sees_close());
    EXPECT_FALSE(RawClient(server->port()).is_connected());
    sending.send("st: t\r\n\r\n");
    const auto third = replies.take().value();
    third->send(200, {}, "third");
    EXPECT_EQ(sending.read_response().headers.at("connection"), "close");
    EXPECT_TRUE(sending.sees_close());
    first->send(200, {}, "first");
    EXPECT_EQ(waiting.read_response().headers.at("connection"), "close");
    EXPECT_TRUE(waiting.sees_close());
    EXPECT_TRUE(second->write("piece"));
    EXPECT_EQ(streaming.read_chunk(), "piece");
    EXPECT_EQ(drained.size(), 0u);
    second->finish();
    EXPECT_EQ(streaming.read_chunk(), "");
    EXPECT_TRUE(streaming.sees_close());
    for (RawClient* client : {&sending, &waiting, &streaming}) client->close();
    EXPECT_TRUE(drained.take());
    EXPECT_EQ(server->counts().connections, 0u);
}

TEST(HttpDrain, AnswersARequestThatIsOnItsWay) {
    Replies replies;
    Mailbox<bool> drained;
    const auto server = start_server(keep_in(replies));
    RawClient client(server->port());
    client.send(get_root);
    replies.take().value()->send(200, {}, "first");
    EXPECT_EQ(client.read_response().body, "first");
    client.send(get_root);
    server->drain(test_patience, [&] { drained.put(true); });
    replies.take().value()->send(200, {}, "second");
    EXPECT_EQ(client.read_response().body, "second");
}

TEST(HttpDrain, ClosesTheRestWhenPatienceIsOver) {
    Replies replies;
    Mailbox<bool> drained;
    Mailbox<bool> gone;
    const auto server = start_server(keep_in(replies));
    RawClient client(server->port());
    client.send(get_root);
    const auto reply = replies.take().value();
    reply->on_gone([&] { gone.put(true); });
    server->drain(test_patience, [&] { drained.put(true); });
    server->drain(milliseconds(50), [&] { drained.put(true); });
    EXPECT_TRUE(gone.take());
    EXPECT_TRUE(drained.take());
    EXPECT_TRUE(drained.take());
    EXPECT_TRUE(client.sees_close());
}

TEST(HttpDrain, TellsWhoeverIsStillSendingWhenPatienceIsOver) {
    Mailbox<bool> drained;
    const auto server = start_server(echo);
    RawClient in_header(server->port()), in_body(server->port());
    in_header.send("POST / HTTP/1.1\r\nHo");
    in_body.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nhalf");
    ASSERT_TRUE(becomes_true([&] { return server->counts().connections == 2; }));
    // The server has read them when it has answered a client that came later.
    EXPECT_EQ(RawClient(server->port()).ask(get_root).status, 200);
    server->drain(milliseconds(50), [&] { drained.put(true); });
    for (RawClient* client : {&in_header, &in_body}) {
        const RawResponse refusal = client->read_response();
        EXPECT_EQ(refusal.status, 503);
        EXPECT_NE(refusal.body.find("shutting down"), std::string::npos) << refusal.body;
        EXPECT_TRUE(client->sees_close());
    }
    EXPECT_TRUE(drained.take());
}

TEST(HttpDrain, EndsAtOnceWithoutConnections) {
    Mailbox<bool> drained;
    const auto server = start_server(echo);
    server->drain(test_patience, [&] { drained.put(true); });
    EXPECT_TRUE(drained.take());
}

TEST(HttpServerEnd, ClosesEverythingInEveryState) {
    const size_t before = open_descriptors();
    Replies replies;
    auto server = start_server(keep_in(replies), {}, 2);
    std::vector<RawClient> clients;
    for (const std::string_view bytes : {std::string_view(""), std::string_view("GET / HT"), get_root,
                                         std::string_view("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nx"),
                                         std::string_view("nonsense\n")}) {
        clients.emplace_back(server->port());
        clients.back().send(bytes);
    }
    const auto reply = replies.take().value();
    ASSERT_TRUE(becomes_true([&] { return server->counts().connections >= 4; }));
    server->drain(test_patience, [] {});
    server.reset();
    for (RawClient& client : clients) {
        client.read_to_end();
        client.close();
    }
    reply->send(200, {}, "late");
    EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace rondo

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/transport/http_server_fixture.hpp"

namespace rondo {
namespace {

constexpr int small_buffer = 4096;

/// A server that keeps its replies, one client, and the reply to that client's first request.
struct Stream {
    explicit Stream(HttpLimits limits = {}, int receive_buffer_bytes = 0, std::string_view request = get_root)
        : server(start_server(keep_in(replies), limits)), client(server->port(), receive_buffer_bytes) {
        client.send(request);
        reply = replies.take().value();
    }

    Replies replies;
    std::unique_ptr<HttpServer> server;
    RawClient client;
    std::shared_ptr<HttpReply> reply;
};

TEST(HttpStream, SendsEachPieceAtOnce) {
    Stream stream;
    stream.reply->begin(200, {{"Content-Type", "text/event-stream"}});
    const RawResponse head = stream.client.read_head();
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.headers.at("transfer-encoding"), "chunked");
    for (int i = 0; i < 20; ++i) {
        const std::string piece = "data: " + std::to_string(i) + "\n\n";
        EXPECT_TRUE(stream.reply->write(piece));
        EXPECT_EQ(stream.client.read_chunk(), piece);
    }
    EXPECT_TRUE(stream.reply->write("")) << "which must not end the body";
    stream.reply->finish();
    EXPECT_EQ(stream.client.read_chunk(), "");
    EXPECT_FALSE(stream.reply->write("late"));

    stream.client.send(get_root);
    stream.replies.take().value()->send(200, {}, "next");
    EXPECT_EQ(stream.client.read_response().body, "next");
}

TEST(HttpStream, KeepsThePiecesOfOneThreadInOrder) {
    Stream stream({.write_bytes_max = size_t{8} << 20});
    std::string all;
    stream.reply->begin(200, {});
    for (int i = 0; i < 5000; ++i) {
        const std::string piece(static_cast<size_t>(1 + i % 200), static_cast<char>('a' + i % 26));
        EXPECT_TRUE(stream.reply->write(piece));
        all += piece;
    }
    stream.reply->finish();
    EXPECT_EQ(stream.client.read_response().body, all);
}

TEST(HttpStream, TakesPiecesFromManyThreads) {
    Stream stream({.write_bytes_max = size_t{8} << 20});
    stream.reply->begin(200, {});
    std::vector<std::thread> writers;
    for (int i = 0; i < 4; ++i) {
        writers.emplace_back([&stream] {
            for (int k = 0; k < 1000; ++k) EXPECT_TRUE(stream.reply->write("0123456789"));
        });
    }
    for (std::thread& writer : writers) writer.join();
    stream.reply->finish();
    const std::string body = stream.client.read_response().body;
    EXPECT_EQ(body.size(), 40'000u);
    for (size_t i = 0; i + 10 <= body.size(); i += 10) ASSERT_EQ(body.substr(i, 10), "0123456789");
}

TEST(HttpStream, GivesHeadersAloneToHead) {
    Stream stream({}, 0, "HEAD / HTTP/1.1\r\nHost: t\r\n\r\n");
    stream.reply->begin(200, {});
    EXPECT_TRUE(stream.reply->write("unseen"));
    stream.reply->finish();
    EXPECT_EQ(stream.client.read_response(true).status, 200);
    stream.client.send(get_root);
    stream.replies.take().value()->send(200, {}, "next");
    EXPECT_EQ(stream.client.read_response().body, "next");
}

TEST(HttpStream, EndsWithTheConnectionForHttp10) {
    Stream stream({}, 0, "GET / HTTP/1.0\r\n\r\n");
    stream.reply->begin(200, {});
    EXPECT_TRUE(stream.reply->write("one "));
    EXPECT_TRUE(stream.reply->write("two"));
    stream.reply->finish();
    EXPECT_FALSE(stream.client.read_head().headers.contains("transfer-encoding"));
    EXPECT_EQ(stream.client.read_to_end(), "one two");
}

TEST(HttpStream, IsCutWhenTheReplyIsDropped) {
    Stream stream;
    stream.reply->begin(200, {});
    stream.reply->write("piece");
    stream.reply.reset();
    const RawResponse response = stream.client.read_response();
    EXPECT_EQ(response.body, "piece");
    EXPECT_FALSE(response.whole);
}

TEST(HttpStream, TellsOnceWhenTheClientLeaves) {
    for (const bool streaming : {false, true}) {
        for (const bool politely : {false, true}) {
            Mailbox<bool> gone;
            Stream stream;
            if (streaming) stream.reply->begin(200, {});
            stream.reply->on_gone([&] { gone.put(true); });
            politely ? stream.client.close() : stream.client.reset();
            EXPECT_TRUE(gone.take()) << streaming << politely;
            EXPECT_FALSE(stream.reply->write("unheard"));
            stream.reply->finish();
            EXPECT_TRUE(becomes_true([&] { return stream.server->counts().connections == 0; }));
            EXPECT_EQ(gone.size(), 0u);

            stream.reply->on_gone([&] { gone.put(true); });
            EXPECT_EQ(gone.size(), 1u) << "at once, since it already has";
        }
    }
}

TEST(HttpStream, DoesNotTellOfAClientThatLeavesAfterTheAnswer) {
    Mailbox<bool> gone;
    {
        Stream stream;
        stream.reply->on_gone([&] { gone.put(true); });
        stream.reply->send(200, {}, "done");
        stream.reply->on_gone([&] { gone.put(true); });
        EXPECT_EQ(stream.client.read_response().body, "done");
        stream.client.close();
        EXPECT_TRUE(becomes_true([&] { return stream.server->counts().connections == 0; }));
    }
    EXPECT_EQ(gone.size(), 0u);
}

TEST(HttpStream, FreesWhatOnGoneHoldsOnceItIsAnswered) {
    Stream stream;
    const auto held = std::make_shared<int>(1);
    stream.reply->on_gone([held, reply = stream.reply] {});
    stream.reply->send(200, {}, "done");
    EXPECT_EQ(held.use_count(), 1);
}

TEST(HttpStream, KeepsPipelinedBytesAndStillSeesTheClientLeave) {
    Mailbox<bool> gone;
    Stream stream;
    stream.reply->begin(200, {});
    stream.client.send("GET /second HTTP/1.1\r\nHost: t\r\n\r\nGET /third");
    EXPECT_TRUE(stream.reply->write("first"));
    stream.reply->finish();
    EXPECT_EQ(stream.client.read_response().body, "first");

    const auto second = stream.replies.take().value();
    second->on_gone([&] { gone.put(true); });
    stream.client.close();
    EXPECT_TRUE(gone.take());
}

TEST(HttpStream, StopsReadingFromAClientThatSendsAheadWithoutEnd) {
    Stream stream;
    EXPECT_LT(stream.client.send_until_full(size_t{64} << 20), size_t{32} << 20) << "what the kernel holds";
    stream.reply->send(200, {}, "answer");
    EXPECT_EQ(stream.client.read_response().body, "answer");
    EXPECT_EQ(stream.client.read_response().status, 431) << "what came ahead is no request";
    EXPECT_TRUE(becomes_true([&] { return stream.server->counts().connections == 0; }));
}

TEST(HttpStream, ClosesOnAReaderThatFallsTooFarBehind) {
    Mailbox<bool> gone;
    Stream stream({.write_bytes_max = 64 << 10}, small_buffer);
    stream.reply->on_gone([&] { gone.put(true); });
    stream.reply->begin(200, {});
    const std::string piece(1000, 'x');
    size_t accepted = 0;
    while (stream.reply->write(piece)) accepted += piece.size();
    EXPECT_TRUE(gone.take());
    EXPECT_LT(accepted, size_t{1} << 20) << "64 KiB here and what the kernel holds";
    EXPECT_FALSE(stream.client.read_response().whole);
    EXPECT_TRUE(becomes_true([&] { return stream.server->counts().connections == 0; }));
}

TEST(HttpStream, ClosesOnAReaderThatTakesNothing) {
    for (const bool streaming : {false, true}) {
        Stream stream({.write_bytes_max = size_t{16} << 20, .write_time = std::chrono::milliseconds(100)},
                      small_buffer);
        if (streaming) {
            stream.reply->begin(200, {});
            EXPECT_TRUE(stream.reply->write(std::string(size_t{8} << 20, 'x')));
        } else {
            stream.reply->send(200, {}, std::string(size_t{8} << 20, 'x'));
        }
        EXPECT_TRUE(becomes_true([&] { return stream.server->counts().connections == 0; }));
        EXPECT_EQ(stream.server->counts().timed_out, 1u);
    }
}

TEST(HttpStream, WaitsForAReaderThatIsOnlySlow) {
    constexpr size_t part = size_t{512} << 10;
    Stream stream({.write_time = std::chrono::milliseconds(1000)}, 64 << 10);
    stream.reply->send(200, {}, std::string(12 * part, 'x'));
    EXPECT_EQ(stream.client.read_head().status, 200);
    // All of it takes longer than `write_time`, each part much less: the pace is what is tested here.
    for (int i = 0; i < 12; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ASSERT_TRUE(stream.client.read_bytes(part));
    }
    EXPECT_EQ(stream.server->counts().timed_out, 0u);
}

TEST(HttpStream, OutlivesTheServer) {
    Mailbox<bool> gone;
    Stream stream;
    stream.reply->on_gone([&] { gone.put(true); });
    stream.reply->begin(200, {});
    stream.server.reset();
    EXPECT_EQ(gone.size(), 1u) << "before the destructor returned";
    EXPECT_FALSE(stream.reply->write("unheard"));
    stream.reply->finish();
    stream.reply.reset();
    EXPECT_FALSE(stream.client.read_response().whole);
}

TEST(HttpStream, LosesNothingWhenServerAndWritersEndTogether) {
    for (int round = 0; round < 50; ++round) {
        std::atomic<int> called{0};
        Stream stream;
        stream.reply->begin(200, {});
        stream.reply->on_gone([&] { ++called; });
        std::thread writer([reply = stream.reply] {
            while (reply->write("x")) std::this_thread::yield();
        });
        stream.client.read_head();
        stream.server.reset();
        writer.join();
        EXPECT_EQ(called, 1);
    }
}

}  // namespace
}  // namespace rondo

#include <gtest/gtest.h>

#include <string>

#include "tests/transport/http_server_fixture.hpp"

namespace rondo {
namespace {

constexpr size_t large = size_t{8} << 20;  // more than the kernel takes for a client that does not read

/// A server whose answers may hold one large one and half another, and its clients one after the other.
class HttpAnswers : public ::testing::Test {
protected:
    std::shared_ptr<HttpReply> asked_by(RawClient& client) {
        client.send(get_root);
        return replies_.take().value();
    }
    size_t held() const { return server_->counts().answer_bytes; }

    Replies replies_;
    const std::unique_ptr<HttpServer> server_ =
        start_server(keep_in(replies_), {.write_bytes_max = 2 * large, .answers_bytes_max = large + large / 2});
};

TEST_F(HttpAnswers, AreBoundedTogether) {
    RawClient slow(server_->port(), 4096), other(server_->port());
    asked_by(slow)->send(200, {{"Content-Type", "text/plain"}}, std::string(large, 'x'));
    EXPECT_GT(held(), large / 2);
    asked_by(other)->send(200, {{"Content-Type", "text/plain"}, {"X-Request-Id", "7"}}, std::string(large, 'y'));
    const RawResponse refused = other.read_response();
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.headers.at("content-type"), "application/json");
    EXPECT_EQ(refused.headers.at("x-request-id"), "7");
    EXPECT_EQ(refused.headers.at("retry-after"), "1");
    EXPECT_NE(refused.body.find("slow clients"), std::string::npos) << refused.body;
    asked_by(other)->send(200, {}, "small");
    EXPECT_EQ(other.read_response().body, "small") << "a small one always finds room";

    EXPECT_EQ(slow.read_response().body.size(), large);
    EXPECT_TRUE(becomes_true([&] { return held() == 0; }));
    asked_by(other)->send(200, {}, std::string(large, 'z'));
    EXPECT_EQ(other.read_response().body.size(), large);
    EXPECT_TRUE(becomes_true([&] { return held() == 0; }));
}

TEST_F(HttpAnswers, StreamsAreCutWhereThereIsNoMoreRoom) {
    RawClient slow(server_->port(), 4096), other(server_->port());
    asked_by(slow)->send(200, {}, std::string(large, 'x'));
    const auto stream = asked_by(other);
    stream->begin(200, {});
    EXPECT_TRUE(stream->write("small"));
    EXPECT_FALSE(stream->write(std::string(large, 'y')));
    EXPECT_FALSE(other.read_response().whole);
}

TEST_F(HttpAnswers, OfWhoeverLeavesAreGivenBack) {
    for (const bool streaming : {false, true}) {
        RawClient slow(server_->port(), 4096);
        const auto reply = asked_by(slow);
        if (streaming) {
            reply->begin(200, {});
            EXPECT_TRUE(reply->write(std::string(large, 'x')));
        } else {
            reply->send(200, {}, std::string(large, 'x'));
        }
        EXPECT_GT(held(), large / 2);
        slow.reset();
        EXPECT_TRUE(becomes_true([&] { return held() == 0; })) << streaming;
    }
}

}  // namespace
}  // namespace rondo

// A server that ends: whoever still waits for an answer when the time is over is told so, whoever he is.

#include <future>

#include "tests/actors/gateway_fixture.hpp"
#include "tests/transport/http_server_fixture.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::must;

/// An engine with room for many turns, which computes two at a time; one a suite.
class GatewayDrain : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        engine = must(Engine::open(
            testing::settings_of({testing::demo_pool(341), "devices.cpu.threads=1", "pipeline.decode.batch_max=2"})));
    }
    static void TearDownTestSuite() { engine.reset(); }
    /// Turns of an earlier test may not be off the books yet.
    void SetUp() override {
        ASSERT_TRUE(becomes_true([] { return inside(*engine).load().turns == 0; }));
    }

    /// Clients read late here, and are not to be cancelled for that.
    static std::unique_ptr<Gateway> open(const HttpLimits& limits = {.write_bytes_max = size_t{64} << 20},
                                         int waiting_max = 256) {
        Gateway::Options options;
        options.server.port = 0;
        options.server.requests_waiting_max = waiting_max;
        options.limits = limits;
        options.log.write = [](const std::string& line) {
            const std::lock_guard lock(log_mutex);
            log += line;
        };
        return must(Gateway::start(*engine, std::move(options)));
    }
    static std::string post(const std::string& path, const json& body) {
        const std::string text = body.dump();
        return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(text.size()) +
               "\r\n\r\n" + text;
    }
    static json endless(bool stream, int answers = 1) {
        return {{"messages", json::array({{{"role", "user"}, {"content", "Hello!"}}})},
                {"max_tokens", 4000},
                {"ignore_eos", true},
                {"stream", stream},
                {"n", answers}};
    }
    static void expect_shut_down(const RawResponse& refusal) {
        EXPECT_EQ(refusal.status, 503);
        EXPECT_TRUE(refusal.whole);
        EXPECT_THAT(refusal.body, HasSubstr(R"("code":"shutting_down")"));
    }
    /// A stream that was begun has a last event that says so, and a proper end.
    static void expect_last_words(const RawResponse& answer) {
        if (answer.status != 200) return expect_shut_down(answer);
        EXPECT_TRUE(answer.whole) << "no last chunk";
        const size_t error = answer.body.find(R"(data: {"error":)");
        ASSERT_NE(error, std::string::npos)
            << answer.body.substr(answer.body.size() - std::min<size_t>(200, answer.body.size()));
        EXPECT_THAT(answer.body.substr(error), HasSubstr(R"("code":"shutting_down")"));
        EXPECT_EQ(answer.body.find("\n\n", error), answer.body.size() - 2) << "something follows it";
        EXPECT_EQ(answer.body.find("[DONE]"), std::string::npos);
    }

    static inline std::unique_ptr<Engine> engine;
    static inline std::mutex log_mutex;
    static inline std::string log;
};

TEST_F(GatewayDrain, EndsEveryAnswerWithAnErrorOfItsOwn) {
    const auto ending = open();
    RawClient begun(ending->port());
    begun.send(post("/v1/chat/completions", endless(true)));
    RawResponse heard = begun.read_head();
    EXPECT_EQ(heard.status, 200);
    std::vector<RawClient> clients;
    for (int i = 0; i < 50; ++i) {
        for (const bool stream : {true, false}) {
            clients.emplace_back(ending->port());
            clients.back().send(post("/v1/chat/completions", endless(stream, i % 10 == 0 ? 2 : 1)));
        }
    }
    ASSERT_TRUE(becomes_true([] { return inside(*engine).load().turns >= 101; }));

    const auto asked = std::chrono::steady_clock::now();
    ending->drain(milliseconds(100));
    EXPECT_LT(std::chrono::steady_clock::now() - asked, milliseconds(100) + test_patience);
    for (auto chunk = begun.read_chunk(); chunk && !heard.whole; chunk = begun.read_chunk()) {
        heard.whole = chunk->empty();
        heard.body += *chunk;
    }
    expect_last_words(heard);
    for (RawClient& client : clients) {
        expect_last_words(client.read_response());
        EXPECT_TRUE(client.sees_close());
    }
    EXPECT_TRUE(becomes_true([] { return inside(*engine).load().turns == 0; })) << "and nobody computes for them";
}

TEST_F(GatewayDrain, IsNotHeldUpByClientsWhoTakeNothing) {
    const auto ending = open();
    std::vector<RawClient> clients;
    for (int i = 0; i < 2; ++i) {
        json body = endless(true);
        body["logprobs"] = true;
        body["top_logprobs"] = 20;  // some kilobytes a token, so that the kernel's buffers are full soon
        clients.emplace_back(ending->port(), 4096);
        clients.back().send(post("/v1/chat/completions", body));
        EXPECT_EQ(clients.back().read_head().status, 200);
    }
    RawClient reading(ending->port());
    reading.send(post("/v1/chat/completions", endless(false)));
    RawClient gone(ending->port());
    gone.send(post("/v1/chat/completions", endless(false)));
    ASSERT_TRUE(becomes_true([] { return inside(*engine).load().turns == 4; }));
    gone.close();
    const auto begun = std::chrono::steady_clock::now();
    ending->drain(milliseconds(300));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, milliseconds(300) + test_patience);
    expect_shut_down(reading.read_response());
    EXPECT_TRUE(becomes_true([] { return inside(*engine).load().turns == 0; }));
}

TEST_F(GatewayDrain, EndsWhatWaitsToBeTokenized) {
    const auto ending = open();
    std::string text;
    while (text.size() < 300'000) text += "It was a slow afternoon. ";
    std::vector<RawClient> clients;
    for (int i = 0; i < 12; ++i) {
        clients.emplace_back(ending->port());
        const bool counts = i % 2 == 0;
        clients.back().send(post(counts ? "/tokenize" : "/v1/completions", {{counts ? "text" : "prompt", text}}));
    }
    RawClient(ending->port()).ask("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto begun = std::chrono::steady_clock::now();
    ending->drain(milliseconds(0));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, test_patience);
    size_t shut_down = 0;
    for (RawClient& client : clients) {
        const RawResponse answer = client.read_response();
        EXPECT_TRUE(answer.whole);
        EXPECT_THAT(answer.status, ::testing::AnyOf(200, 400, 503));
        if (answer.status == 503) ++shut_down;
    }
    EXPECT_GE(shut_down, 1U);
}

TEST_F(GatewayDrain, LetsAnswersComeToTheirEndMeanwhile) {
    const auto ending = open();
    json body = endless(true);
    body["max_tokens"] = 2000;  // longer than it takes to ask, also where tokens are fast
    RawClient streaming(ending->port()), whole(ending->port());
    streaming.send(post("/v1/chat/completions", body));
    body["stream"] = false;
    whole.send(post("/v1/chat/completions", body));
    ASSERT_TRUE(becomes_true([] { return inside(*engine).load().turns == 2; }));
    auto drained = std::async(std::launch::async, [&] { ending->drain(6 * test_patience); });
    const RawResponse streamed = streaming.read_response();
    EXPECT_TRUE(streamed.whole);
    EXPECT_THAT(streamed.body, ::testing::EndsWith("data: [DONE]\n\n"));
    EXPECT_EQ(whole.read_response().status, 200);
    for (RawClient* client : {&streaming, &whole}) client->close();
    EXPECT_EQ(drained.wait_for(test_patience / 2), std::future_status::ready);
}

}  // namespace
}  // namespace rondo

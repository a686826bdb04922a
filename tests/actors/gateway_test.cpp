#include "actors/gateway/gateway.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/actors/pipeline_fixture.hpp"
#include "transport/http_client.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::must;
using testing::settings_of;

constexpr const char* fact = "The code of the red box is 4817. What is the code of the red box?";

class GatewayTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        const std::string keys = ::testing::TempDir() + "gateway_keys";
        std::ofstream(keys) << "key-of-ann-0123456789 ann\nkey-of-bob-0123456789 bob\n";
        Settings settings = settings_of({"memory.device_kv_mib=16", "server.port=0", "devices.cpu.threads=1",
                                         "pipeline.decode.batch_max=2", "server.requests_waiting_max=1"});
        settings.server.api_keys_file = keys;
        engine = must(Engine::open(settings));
        Gateway::Options options;
        options.server = settings.server;
        options.log = [](const std::string& line) {
            const std::lock_guard lock(log_mutex);
            log += line;
        };
        gateway = must(Gateway::start(*engine, std::move(options)));
    }
    static void TearDownTestSuite() {
        gateway.reset();
        engine.reset();
    }

    static HttpClient client() {
        return HttpClient(must(Url::parse("http://127.0.0.1:" + std::to_string(gateway->port()))));
    }
    static HttpClient::Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }
    static HttpHeaders headers(const std::string& who) {
        return {{"Authorization", "Bearer key-of-" + who + "-0123456789"}, {"Content-Type", "application/json"}};
    }
    static HttpResponse call(const std::string& method, const std::string& path, const json& body = nullptr,
                             const std::string& who = "ann") {
        HttpClient asking = client();
        return must(asking.request(method, path, headers(who), body.is_null() ? "" : body.dump(), soon()));
    }
    static json chat(const std::string& text, const std::string& conversation = "") {
        json body{{"messages", json::array({{{"role", "user"}, {"content", text}}})}, {"temperature", 0}};
        if (!conversation.empty()) body["conversation"] = conversation;
        return body;
    }
    static json answer(const json& body, const std::string& who = "ann") {
        const HttpResponse response = call("POST", "/v1/chat/completions", body, who);
        EXPECT_EQ(response.status, 200) << response.body;
        return json::parse(response.body);
    }
    static std::string text_of(const json& reply) { return reply["choices"][0]["message"]["content"]; }

    static inline std::unique_ptr<Engine> engine;
    static inline std::unique_ptr<Gateway> gateway;
    static inline std::mutex log_mutex;
    static inline std::string log;
};

TEST_F(GatewayTest, AnswersAChat) {
    const json reply = answer(chat(fact));
    EXPECT_EQ(text_of(reply), "The code of the red box is 4817.");
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
}

TEST_F(GatewayTest, StreamsWhatItAnswersWhole) {
    json body = chat(fact);
    body["stream"] = true;
    HttpClient asking = client();
    std::string events;
    must(
        asking.stream("POST", "/v1/chat/completions", headers("ann"), body.dump(), soon(), [&](std::string_view piece) {
            events += piece;
            return true;
        }));
    std::string text;
    size_t at = 0;
    while ((at = events.find("data: {", at)) != std::string::npos) {
        const json chunk = json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6));
        text += chunk["choices"][0]["delta"].value("content", "");
        ++at;
    }
    EXPECT_EQ(text, "The code of the red box is 4817.");
    EXPECT_THAT(events, ::testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(GatewayTest, KeepsConversationsAsRounds) {
    EXPECT_EQ(call("POST", "/v1/sessions", {{"id", "box talk"}}).status, 200);
    EXPECT_EQ(call("POST", "/v1/sessions", {{"id", "box talk"}}).status, 400);
    answer(chat("The code of the red box is 4817.", "box talk"));
    EXPECT_EQ(text_of(answer(chat("What is the code of the red box?", "box talk"))),
              "The code of the red box is 4817.");
    const json info = json::parse(call("GET", "/v1/sessions/box%20talk").body);
    ASSERT_EQ(info["rounds"].size(), 2U);
    EXPECT_EQ(info["rounds"][1]["user"], "What is the code of the red box?");

    EXPECT_EQ(call("POST", "/v1/sessions/box%20talk/fork", {{"id", "fork"}}).status, 200);
    EXPECT_EQ(call("POST", "/v1/sessions/box%20talk/rewind", {{"round", 0}}).status, 200);
    EXPECT_THAT(text_of(answer(chat("What is the code of the red box?", "box talk"))),
                ::testing::Not(HasSubstr("4817")));
    EXPECT_EQ(text_of(answer(chat("What is the code of the red box?", "fork"))), "The code of the red box is 4817.");
    EXPECT_EQ(call("POST", "/v1/sessions/fork/drop", {{"rounds", {0, 1, 2}}}).status, 200);
    EXPECT_EQ(call("POST", "/v1/sessions/fork/rewind", {{"round", 5}}).status, 400);
    EXPECT_EQ(call("DELETE", "/v1/sessions/fork").status, 200);
    EXPECT_EQ(call("DELETE", "/v1/sessions/fork").status, 404);
    EXPECT_EQ(call("GET", "/v1/sessions/fork").status, 404);
}

TEST_F(GatewayTest, TenantsDoNotSeeEachOther) {
    answer(chat("The code of the red box is 4817.", "secret"));
    EXPECT_EQ(call("GET", "/v1/sessions/secret", nullptr, "bob").status, 404);
    EXPECT_THAT(call("GET", "/v1/sessions", nullptr, "bob").body, ::testing::Not(HasSubstr("secret")));
    EXPECT_THAT(text_of(answer(chat("What is the code of the red box?", "secret"), "bob")),
                ::testing::Not(HasSubstr("4817")));
}

TEST_F(GatewayTest, RefusesStrangersAndNonsense) {
    EXPECT_EQ(call("GET", "/v1/models", nullptr, "eve").status, 401);
    EXPECT_EQ(call("GET", "/nowhere").status, 404);
    EXPECT_EQ(call("GET", "/v1/chat/completions").status, 405);
    json body = chat("Hello!");
    body["model"] = "another";
    EXPECT_EQ(call("POST", "/v1/chat/completions", body).status, 404);
    body = chat("Hello!");
    body["method"] = "magic";
    EXPECT_EQ(json::parse(call("POST", "/v1/chat/completions", body).body)["error"]["param"], "method");
    std::string long_text;
    while (long_text.size() < 60'000) long_text += "It was a slow afternoon. ";
    EXPECT_THAT(call("POST", "/v1/chat/completions", chat(long_text)).body, HasSubstr("the context holds 4096"));
}

TEST_F(GatewayTest, RefusesWhatIsTooMuchAtOnce) {
    json body = chat("Hello!");
    body["max_tokens"] = 1500;
    body["ignore_eos"] = true;
    const auto end = soon();  // the turn of an earlier test may not be off the books yet
    while (engine->load().turns > 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<std::thread> clients;
    std::atomic<int> refused{0}, served{0};
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back([&] {
            const HttpResponse response = call("POST", "/v1/chat/completions", body);
            if (response.status == 429 && response.header("retry-after") != "") ++refused;
            if (response.status == 200) ++served;
        });
    }
    for (std::thread& one : clients) one.join();
    EXPECT_GE(served, 3);
    EXPECT_EQ(served + refused, 8);
    EXPECT_GT(refused, 0);
}

TEST_F(GatewayTest, AClientWhoLeavesEndsHisTurn) {
    json body = chat("Hello!");
    body["max_tokens"] = 3000;
    body["ignore_eos"] = true;
    body["stream"] = true;
    HttpClient asking = client();
    const auto left = asking.stream("POST", "/v1/chat/completions", headers("ann"), body.dump(), soon(),
                                    [](std::string_view piece) { return piece.empty(); });
    EXPECT_FALSE(left.is_ok());
    const auto end = soon();
    while (engine->load().turns > 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(engine->load().turns, 0U);
}

TEST_F(GatewayTest, SaysHowItIs) {
    EXPECT_EQ(call("GET", "/health").status, 200);
    EXPECT_EQ(call("GET", "/ready").status, 200);
    EXPECT_THAT(call("GET", "/metrics").body, HasSubstr("rondo:time_to_first_token_seconds_count"));
    EXPECT_THAT(call("GET", "/").body, HasSubstr("<!doctype html>"));
    EXPECT_EQ(call("GET", "/page/chat.js").header("content-type"), "text/javascript; charset=utf-8");
    EXPECT_EQ(call("GET", "/page/../gateway.cpp").status, 404);
    const json ids = json::parse(call("POST", "/tokenize", {{"text", "Hello!"}, {"add_special", false}}).body)["ids"];
    EXPECT_EQ(json::parse(call("POST", "/detokenize", {{"ids", ids}}).body)["text"], "Hello!");
}

TEST_F(GatewayTest, TheLogHasNoPromptAndNoKey) {
    answer(chat("My canary is called Zebedee."));
    call("GET", "/v1/models", nullptr, "zebedee-as-a-key");
    const std::lock_guard lock(log_mutex);
    EXPECT_THAT(log, HasSubstr("/v1/chat/completions"));
    EXPECT_THAT(log, HasSubstr("\"tenant\":\"ann\""));
    for (const char* canary : {"Zebedee", "zebedee", "key-of"}) EXPECT_THAT(log, ::testing::Not(HasSubstr(canary)));
}

}  // namespace
}  // namespace rondo

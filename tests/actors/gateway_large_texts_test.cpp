// Large texts and bodies from strangers: they are read apart, a few at a time, and hold up nobody.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "actors/gateway/bodies/body_fields.hpp"
#include "config/limits.hpp"
#include "tests/actors/gateway_abuse_fixture.hpp"
#include "tests/transport/http_server_fixture.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using testing::GatewayAbuse;
using ::testing::HasSubstr;
using testing::must;

/// As many values as a body may have, each under a long name, and then something wrong.
std::string body_of_keys() {
    std::string body = "{";
    for (size_t i = 0; i < limits::request_values_max - 2; ++i) {
        const std::string digits = std::to_string(i);
        body += "\"" + std::string(10 - digits.size(), '0') + digits + "\":1,";
    }
    return body + "\"model\":1}";
}

TEST_F(GatewayAbuse, ManyLongTextsAreTokenizedOrRefusedAndThePlacesGivenBack) {
    std::string text;
    while (text.size() < 1'000'000) text += "It was a slow afternoon. ";
    std::vector<std::thread> clients;
    std::atomic<int> refused{0}, served{0};
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back([&] {
            const HttpResponse response = call("POST", "/tokenize", {{"text", text}});
            if (response.status == 429 && response.header("retry-after") == "1") ++refused;
            if (response.status == 200) ++served;
        });
    }
    for (std::thread& one : clients) one.join();
    EXPECT_GE(served, 3) << "two at once, and one waits";
    EXPECT_EQ(served + refused, 8);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(call("POST", "/tokenize", {{"text", "Hello!"}}).status, 200);
}

TEST_F(GatewayAbuse, LargeBodiesHoldUpNobodyElse) {
    using Clock = std::chrono::steady_clock;
    const std::string body = body_of_keys();
    std::atomic<bool> enough{false};
    std::vector<std::thread> flood;
    std::atomic<int> answered{0};
    for (int i = 0; i < 2; ++i) {
        flood.emplace_back([&] {
            while (!enough) answered += post("/v1/chat/completions", body).status == 400;
        });
    }
    ASSERT_TRUE(becomes_true([&] { return answered > 0; }));
    const auto begun = Clock::now();
    EXPECT_TRUE(parse_body(body).is_ok());
    const auto parsing = Clock::now() - begun;  // beside the others', on a machine that may be busy
    std::vector<Clock::duration> waits;
    HttpClient asking = client();
    while (waits.size() < 41) {
        const auto asked = Clock::now();
        EXPECT_EQ(must(asking.request("GET", "/health", {}, "", soon())).status, 200);
        waits.push_back(Clock::now() - asked);
        std::this_thread::sleep_for(parsing / 10);
    }
    enough = true;
    for (std::thread& one : flood) one.join();
    std::ranges::sort(waits);
    EXPECT_LT(waits[waits.size() / 4], parsing / 4)
        << "for one in four; one body takes " << parsing.count() / 1000 << " us";
}

TEST_F(GatewayAbuse, TextsThatCouldNotFitAreNotTokenizedToBeCounted) {
    const std::string text(1'100'000, 'x');
    const json messages = json::array({{{"role", "user"}, {"content", text}}});
    for (const json& body : {json{{"text", text}}, json{{"messages", messages}}}) {
        const HttpResponse refusal = call("POST", "/tokenize", body);
        EXPECT_EQ(refusal.status, 400);
        EXPECT_EQ(json::parse(refusal.body)["error"]["code"], "context_length_exceeded");
        EXPECT_THAT(refusal.body.substr(0, 200), HasSubstr("no 1100000 bytes fit into a context of 4096 tokens"));
    }
    for (const size_t bytes : {size_t{20'000}, text.size()}) {
        const HttpResponse refusal = call("POST", "/v1/chat/completions", chat(text.substr(0, bytes)));
        EXPECT_EQ(refusal.status, 400);
        EXPECT_EQ(json::parse(refusal.body)["error"]["code"], "context_length_exceeded") << refusal.body;
    }
    EXPECT_EQ(call("POST", "/tokenize", {{"text", text.substr(100'000)}}).status, 200) << "many more tokens than fit";
}

TEST_F(GatewayAbuse, AStreamBeginsWithAsMuchOfItsPromptsAsItMayHold) {
    const auto narrow = gateway_with({.write_bytes_max = size_t{4} << 10});
    HttpClient asking(must(Url::parse("http://127.0.0.1:" + std::to_string(narrow->port()))));
    json body{{"prompt", std::string(1'500, 'a')}, {"echo", true}, {"stream", true}, {"max_tokens", 1}};
    const auto answered = [&] {
        return must(
            asking.request("POST", "/v1/completions", {{"content-type", "application/json"}}, body.dump(), soon()));
    };
    EXPECT_THAT(answered().body, HasSubstr("[DONE]"));
    body["prompt"] = std::string(3'000, 'a');
    EXPECT_EQ(answered().status, 400);
    EXPECT_THAT(answered().body, HasSubstr("2048 bytes of prompts; stream must be false"));
    body["stream"] = false;
    EXPECT_EQ(answered().status, 200);
}

}  // namespace
}  // namespace rondo

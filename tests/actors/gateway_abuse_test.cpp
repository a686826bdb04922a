// What a stranger may send to a server of ours, over HTTP and before a real engine: it is refused in words, and the
// next good request is answered as ever.

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <thread>

#include "tests/actors/gateway_abuse_fixture.hpp"
#include "tests/transport/http_server_fixture.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using testing::GatewayAbuse;
using ::testing::HasSubstr;
using testing::must;
using ::testing::Not;
using testing::question;

TEST_F(GatewayAbuse, RefusesHugeAndLyingBodiesBeforeReadingOn) {
    const std::string start = "POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n";
    const std::vector<std::pair<std::string, int>> table = {
        {start + "Content-Length: 8388609\r\n\r\n", 413},
        {start + "Content-Length: 18446744073709551615\r\n\r\n{", 413},
        {start + "Content-Length: 99999999999999999999\r\n\r\n", 400},
        {start + "Content-Length: -1\r\n\r\n", 400},
        {start + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n", 400},
        {start + "Transfer-Encoding: chunked\r\n\r\n800001\r\n", 413},
        {start + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n", 413},
        {start + "X: " + std::string(20'000, 'x'), 431},
        {start + "Expect: x\r\nContent-Length: 2\r\n\r\n", 417},
        {start + "Transfer-Encoding: gzip\r\n\r\n", 400},
    };
    for (const auto& [bytes, status] : table) {
        RawClient stranger(gateway->port());
        const RawResponse refusal = stranger.ask(bytes);
        EXPECT_EQ(refusal.status, status) << bytes.substr(0, 120);
        EXPECT_TRUE(json::parse(refusal.body)["error"]["message"].is_string()) << refusal.body;
        EXPECT_TRUE(stranger.sees_close());
    }
}

TEST_F(GatewayAbuse, ReadsNoLargeBodyOfAStranger) {
    for (const char* more : {"", "Expect: 100-continue\r\n", "Authorization: Bearer another\r\n"}) {
        RawClient stranger(gateway->port());
        const RawResponse refusal = stranger.ask("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n" +
                                                 std::string(more) + "Content-Length: 8388608\r\n\r\n");
        EXPECT_EQ(refusal.status, 401) << more;
        EXPECT_EQ(json::parse(refusal.body)["error"]["code"], "invalid_api_key") << "as where the body is small";
        EXPECT_EQ(refusal.headers.at("www-authenticate"), "Bearer");
    }
    for (const char* open : {"POST /health", "POST /", "OPTIONS /v1/models", "POST /page/page.js"}) {
        RawClient stranger(gateway->port());
        EXPECT_EQ(stranger.ask(std::string(open) + " HTTP/1.1\r\nHost: t\r\nContent-Length: 8388608\r\n\r\n").status,
                  401)
            << open;
    }
}

TEST_F(GatewayAbuse, LogsWhatIsRefusedBeforeItReachesTheGateway) {
    const RawResponse refusal =
        RawClient(gateway->port()).ask("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 8388609\r\n\r\n");
    EXPECT_EQ(refusal.status, 413);
    ASSERT_TRUE(refusal.headers.contains("x-request-id"));
    const std::lock_guard lock(log_mutex);
    const size_t at = log.find(refusal.headers.at("x-request-id"));
    ASSERT_NE(at, std::string::npos);
    const size_t begin = log.rfind('\n', at) + 1;
    const json line = json::parse(log.substr(begin, log.find('\n', at) - begin));
    EXPECT_EQ(line["status"], 413);
    EXPECT_EQ(line["outcome"], "refused");
    EXPECT_EQ(line["method"], "POST");
    EXPECT_EQ(line["path"], "/v1/completions");
    EXPECT_EQ(line["peer"], "127.0.0.1");
    EXPECT_EQ(line["bytes"], refusal.body.size());
}

TEST_F(GatewayAbuse, RefusesWhatIsNoStrictJsonWhereverItIsSent) {
    const std::string deep(1'000'000, '[');
    const std::vector<std::string> bodies = {
        "{\"messages\":" + deep,
        "{\"text\":\"\\ud800\"}",
        "{\"text\":\"\xff\"}",
        "{\"n\":NaN}",
        "{\"n\":1e400}",
        "{\"n\":1,\"n\":1}",
        "[]",
        std::string("{}\0", 3),
        "{\"n\":1} {",
        "{\"id\":\"a\nb\"}",
        "{\"a\":" + deep + "]}}",
        "{\"id\":\"\\udc00\"}",
        "{\"round\":-Infinity}",
        "{",
    };
    for (const char* path : {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/v1/sessions",
                             "/v1/sessions/x/rewind", "/v1/sessions/x/fork", "/v1/sessions/x/drop",
                             "/v1/sessions/x/warm", "/v1/sessions/x/put_away"}) {
        for (const std::string& body : bodies) {
            const HttpResponse refusal = post(path, body);
            EXPECT_EQ(refusal.status, 400) << path << ' ' << body.substr(0, 40);
            EXPECT_EQ(json::parse(refusal.body)["error"]["code"], "invalid_json") << refusal.body;
        }
    }
}

TEST_F(GatewayAbuse, RefusesAbsurdNumbersByTheNameOfTheirField) {
    const std::string messages = R"("messages":[{"role":"user","content":"Hello!"}])";
    const auto in_chat = [&](const std::string& field) { return "{" + messages + "," + field + "}"; };
    const auto in_completion = [&](const std::string& field) { return R"({"prompt":"Hello!",)" + field + "}"; };
    for (const char* number : {"-1e308", "1e308", "2147483648", "-2147483649", "9223372036854775807"}) {
        for (const char* field : {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
                                  "frequency_penalty", "max_tokens", "n", "priority", "deadline_s"}) {
            const std::string member = "\"" + std::string(field) + "\":" + number;
            for (const auto& [path, body] : {std::pair{"/v1/chat/completions", in_chat(member)},
                                             std::pair{"/v1/completions", in_completion(member)}}) {
                const HttpResponse refusal = post(path, body);
                EXPECT_EQ(refusal.status, 400) << path << ' ' << member;
                EXPECT_EQ(json::parse(refusal.body)["error"]["param"], field) << refusal.body;
            }
        }
    }
    const std::string beyond = std::to_string(inside(*engine).model().spec.vocabulary);
    const std::vector<std::array<std::string, 3>> table = {
        {"/v1/chat/completions", in_chat(R"("logit_bias":{")" + beyond + R"(":1})"), "logit_bias"},
        {"/v1/chat/completions", in_chat(R"("logit_bias":{"-1":1})"), "logit_bias"},
        {"/v1/chat/completions", in_chat(R"("logprobs":true,"top_logprobs":2147483647)"), "top_logprobs"},
        {"/v1/chat/completions", in_chat(R"("seed":1e308)"), "seed"},
        {"/v1/completions", in_completion(R"("logprobs":2147483647)"), "logprobs"},
        {"/v1/completions", R"({"prompt":[)" + beyond + "]}", "prompt"},
        {"/v1/completions", R"({"prompt":[-1]})", "prompt"},
        {"/detokenize", R"({"ids":[)" + beyond + "]}", "ids"},
        {"/detokenize", R"({"ids":[-2147483649]})", "ids"},
        {"/v1/sessions/x/rewind", R"({"round":-1})", "round"},
        {"/v1/sessions/x/rewind", R"({"round":1e308})", "round"},
        {"/v1/sessions/x/drop", R"({"rounds":[9223372036854775807]})", "rounds"},
    };
    for (const auto& [path, body, field] : table) {
        const HttpResponse refusal = post(path, body);
        EXPECT_EQ(refusal.status, 400) << path << ' ' << body;
        EXPECT_THAT(json::parse(refusal.body)["error"]["param"], ::testing::StartsWith(field)) << refusal.body;
    }
    EXPECT_EQ(inside(*engine).load().turns, 0U) << "none of it reached the engine";
}

/// Every byte but letters and digits escaped.
std::string escaped(const std::string& text) {
    std::string out;
    for (const unsigned char byte : text) {
        char hex[4];
        std::snprintf(hex, sizeof hex, "%%%02x", byte);
        out += std::isalnum(byte) != 0 ? std::string(1, static_cast<char>(byte)) : std::string(hex);
    }
    return out;
}

TEST_F(GatewayAbuse, IdsAreNamesAndNothingElse) {
    for (const std::string& id :
         {std::string("../../../etc/passwd"), std::string(".."), std::string("/"), std::string("a/fork"),
          std::string("%2e%2e"), std::string("a%2Fb"), std::string("a/b"), std::string("50%"),
          std::string("a?b#c&d=e;f"), std::string("日本 🙂"), std::string(256, 'x')}) {
        const json made = json::parse(call("POST", "/v1/sessions", {{"id", id}}).body);
        EXPECT_EQ(made["id"], id);
        const HttpResponse found = call("GET", "/v1/sessions/" + escaped(id));
        EXPECT_EQ(found.status, 200) << id;
        EXPECT_EQ(json::parse(found.body)["id"], id);
        EXPECT_EQ(call("DELETE", "/v1/sessions/" + escaped(id)).status, 200) << id;
        EXPECT_EQ(call("GET", "/v1/sessions/" + escaped(id)).status, 404) << id;
    }
    for (const std::string& id : {std::string(), std::string(257, 'x'), std::string(4096, 'x'), std::string("a\0b", 3),
                                  std::string("a\r\nb"), std::string("\x1b[2J")}) {
        EXPECT_EQ(call("POST", "/v1/sessions", {{"id", id}}).status, 400) << id;
        EXPECT_THAT(call("GET", "/v1/sessions/" + escaped(id)).status, ::testing::AnyOf(400, 404)) << id;
        EXPECT_EQ(call("POST", "/v1/chat/completions", chat("Hello!", id.empty() ? "\t" : id)).status, 400) << id;
    }
}

TEST_F(GatewayAbuse, AnIdWithAnEncodedSlashInItIsNoOtherId) {
    for (const char* id : {"a/b", "a%2Fb"}) EXPECT_EQ(call("POST", "/v1/sessions", {{"id", id}}).status, 200);
    EXPECT_EQ(call("DELETE", "/v1/sessions/a%252Fb").status, 200);
    EXPECT_EQ(call("GET", "/v1/sessions/a%252Fb").status, 404);
    EXPECT_EQ(json::parse(call("GET", "/v1/sessions/a%2Fb").body)["id"], "a/b");
    EXPECT_EQ(call("DELETE", "/v1/sessions/a%2fb").status, 200);
}

TEST_F(GatewayAbuse, ASlowReaderCostsHisTurnAndNobodyElses) {
    const auto narrow = gateway_with({.write_bytes_max = size_t{64} << 10});
    const double counted = metric("request_success_total", "abort");
    const double before = std::isnan(counted) ? 0.0 : counted;  // none was aborted so far
    RawClient reader(narrow->port(), 4096);
    json body = endless();
    body["stream"] = true;
    body["logprobs"] = true;
    body["top_logprobs"] = 20;  // some kilobytes a token, so that the kernel's buffers are full soon
    const std::string text = body.dump();
    reader.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                std::to_string(text.size()) + "\r\n\r\n" + text);
    EXPECT_EQ(reader.read_head().status, 200);
    EXPECT_EQ(text_of(answer(chat(question))), "The code of the red box is 4817.");
    EXPECT_TRUE(becomes_true([&] { return metric("request_success_total", "abort") == before + 1; }));
    EXPECT_TRUE(becomes_true([&] { return metric("kv_blocks_in_turns") == 0; }));
}

TEST_F(GatewayAbuse, ADeadlineEndsATurnOnce) {
    json body = endless();
    body["deadline_s"] = 0.02;
    const HttpResponse late = call("POST", "/v1/chat/completions", body);
    EXPECT_EQ(late.status, 504);
    EXPECT_EQ(json::parse(late.body)["error"]["code"], "timeout");
    body["stream"] = true;
    HttpClient asking = client();
    std::string events;
    const auto take = [&](std::string_view piece) {
        events += piece;
        return true;
    };
    const auto stream = asking.stream("POST", "/v1/chat/completions", headers("ann"), body.dump(), soon(), take);
    events += must(stream).body;  // when the deadline came before the first token
    EXPECT_THAT(events, HasSubstr("deadline passed"));
    EXPECT_EQ(events.find("deadline passed"), events.rfind("deadline passed"));
    EXPECT_THAT(events, Not(HasSubstr("[DONE]")));
    EXPECT_TRUE(becomes_true([&] { return metric("kv_blocks_in_turns") == 0; }));
}

TEST_F(GatewayAbuse, NothingThatWasSaidIsInMetricsErrorsOrTheLog) {
    const std::string canary = "Zebedee";
    const size_t logged = [] {
        const std::lock_guard lock(log_mutex);
        return log.size();
    }();
    std::string told;
    json body = chat("My canary is called " + canary, canary);
    answer(body);
    for (const char* field : {"n", "stop", "model", "method", "max_tokens"}) {
        json wrong = body;
        wrong[field] = json::array({1, 2, 3});
        told += call("POST", "/v1/chat/completions", wrong).body;
    }
    body["messages"][0]["role"] = canary;
    told += call("POST", "/v1/chat/completions", body).body;
    told += post("/v1/chat/completions", "{\"messages\":\"" + canary).body;
    told += post("/tokenize", json{{"text", canary}, {"add_special", canary}}.dump()).body;
    told += call("GET", "/v1/models", nullptr, canary).body;
    const HttpResponse odd = call("GET", "/v1/odd%E2%80%AE%C2%9B", nullptr);
    EXPECT_EQ(odd.status, 404);
    EXPECT_THAT(told + odd.body + call("GET", "/metrics").body, Not(HasSubstr(canary)));

    std::string lines;
    EXPECT_TRUE(becomes_true([&] {
        const std::lock_guard lock(log_mutex);
        lines = log.substr(logged);
        return lines.find("/v1/odd") != std::string::npos && lines.ends_with('\n');
    }));
    EXPECT_THAT(lines, Not(HasSubstr(canary)));
    EXPECT_TRUE(std::ranges::all_of(lines, [](char c) { return (c >= ' ' && c <= '~') || c == '\n'; }));
    for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
        EXPECT_TRUE(json::accept(lines.substr(at, lines.find('\n', at) - at)));
    }
}

TEST_F(GatewayAbuse, IsNotReadyWhileItShutsDown) {
    const auto ending = gateway_with({});
    RawClient ready(ending->port()), health(ending->port()), waiting(ending->port());
    ready.send("GET /ready HTTP/1.1\r\nHo");
    health.send("GET /health HTTP/1.1\r\nHo");
    const std::string body = endless().dump();
    waiting.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + body);
    EXPECT_TRUE(becomes_true([&] { return metric("connections", "", *ending) >= 4; }));  // these, and who asks
    std::thread draining([&] { ending->drain(test_patience); });
    EXPECT_TRUE(becomes_true([&] { return !RawClient(ending->port()).is_connected(); }));
    const RawResponse refusal = ready.ask("st: localhost\r\n\r\n");
    EXPECT_EQ(refusal.status, 503);
    EXPECT_EQ(refusal.headers.at("retry-after"), "1");
    EXPECT_THAT(refusal.body, HasSubstr("shutting down"));
    EXPECT_THAT(refusal.body, HasSubstr(R"("code":"shutting_down")"));
    EXPECT_EQ(health.ask("st: localhost\r\n\r\n").status, 200) << "it is alive until it has ended";
    // As at a second signal: the end is near only when the others have been asked, however long that took.
    constexpr std::chrono::milliseconds patience{200};  // the answer is longer than that on any machine
    const auto begun = std::chrono::steady_clock::now();
    std::thread hurrying([&] { ending->drain(patience); });
    const RawResponse last = waiting.read_response();
    EXPECT_GE(std::chrono::steady_clock::now() - begun, patience * 9 / 10) << "it was given its time";
    EXPECT_EQ(last.status, 503);
    EXPECT_THAT(last.body, HasSubstr(R"("code":"shutting_down")"));
    for (RawClient* client : {&ready, &health, &waiting}) client->close();
    for (std::thread* one : {&draining, &hurrying}) one->join();
    EXPECT_TRUE(becomes_true([&] { return inside(*engine).load().turns == 0; }));
}

}  // namespace
}  // namespace rondo

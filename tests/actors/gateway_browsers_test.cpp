// What a page in somebody's browser may make the server do.

#include "actors/gateway/browsers.hpp"
#include "tests/actors/gateway_fixture.hpp"
#include "tests/transport/http_server_fixture.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using testing::must;

ServerSettings server_with(const std::string& host, const std::string& cors_origin = "", const std::string& keys = "") {
    ServerSettings server;
    server.host = host;
    server.cors_origin = cors_origin;
    server.api_keys_file = keys;
    return server;
}

std::string code_of(const std::string& method, const std::string& host, const std::string& origin,
                    const ServerSettings& server) {
    HttpRequest request;
    request.method = method;
    if (!host.empty()) request.headers.emplace_back("host", host);
    if (!origin.empty()) request.headers.emplace_back("origin", origin);
    const auto error = foreign_page(request, server);
    return error ? error->code : "";
}

TEST(ForeignPage, MayChangeNothing) {
    const ServerSettings ours = server_with("127.0.0.1");
    const std::string host = "127.0.0.1:8080";
    for (const char* method : {"POST", "DELETE", "PUT", "PATCH"}) {
        EXPECT_EQ(code_of(method, host, "", ours), "") << "a program, not a page";
        EXPECT_EQ(code_of(method, host, "http://127.0.0.1:8080", ours), "");
        EXPECT_EQ(code_of(method, "LocalHost:8080", "https://localhost:8080", ours), "") << "behind TLS";
        for (const char* origin : {"https://evil.example", "http://127.0.0.1:8081", "http://127.0.0.1", "null",
                                   "http://localhost:8080", "127.0.0.1:8080", "http://127.0.0.1:8080.evil.example"}) {
            EXPECT_EQ(code_of(method, host, origin, ours), "foreign_origin") << origin;
        }
    }
    for (const char* method : {"GET", "HEAD", "OPTIONS"})
        EXPECT_EQ(code_of(method, host, "https://evil.example", ours), "") << "browsers keep the answer from it";
}

TEST(ForeignPage, MayActWhenItsOriginIsConfigured) {
    const ServerSettings ours = server_with("127.0.0.1", "https://chat.example");
    EXPECT_EQ(code_of("POST", "localhost", "https://chat.example", ours), "");
    for (const char* origin : {"http://chat.example", "https://chat.example:444", "https://chat.example.evil", "*"})
        EXPECT_EQ(code_of("POST", "localhost", origin, ours), "foreign_origin") << origin;
    EXPECT_EQ(code_of("POST", "localhost", "https://evil.example", server_with("127.0.0.1", "*")), "");
}

TEST(ForeignPage, MayNotReadByANameBoundToThisMachine) {
    for (const char* listening : {"127.0.0.1", "127.0.0.2", "localhost", "::1", "0.0.0.0", "::", "192.168.0.7"}) {
        const ServerSettings ours = server_with(listening);
        for (const char* host : {"", "localhost", "LOCALHOST:8080", "localhost.:8080", "rondo.localhost:8080",
                                 "127.0.0.1", "192.168.0.7:80", "[::1]", "[::1]:8080"}) {
            EXPECT_EQ(code_of("GET", host, "", ours), "") << host;
        }
        for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example",
                                 "127.0.0.1.evil.example", "notlocalhost", "[evil]", "[::1", "["}) {
            EXPECT_EQ(code_of("GET", host, "", ours), "foreign_host") << host;
            EXPECT_EQ(code_of("POST", host, "http://" + std::string(host), ours), "foreign_host") << host;
        }
    }
    for (const char* listening : {"127.0.0.1", "0.0.0.0"})
        EXPECT_EQ(code_of("GET", "name.example", "", server_with(listening, "", "keys")), "") << "it has no key";
}

TEST(ForeignPage, MayReadByANameThatIsConfigured) {
    EXPECT_EQ(code_of("GET", "rondo.example:8080", "", server_with("Rondo.example")), "");
    EXPECT_EQ(code_of("GET", "chat.example", "", server_with("0.0.0.0", "https://chat.example:444")), "");
    EXPECT_EQ(code_of("GET", "name.example", "", server_with("0.0.0.0", "*")), "foreign_host");
    ServerSettings ours = server_with("0.0.0.0");
    ours.allowed_hosts = {"gpu-box", "Rondo.example."};
    for (const char* host : {"gpu-box", "GPU-BOX:8080", "rondo.example", "rondo.example.:80"})
        EXPECT_EQ(code_of("GET", host, "", ours), "") << host;
    for (const char* host : {"gpu-box.example", "example", ".rondo.example", "evil.example"})
        EXPECT_EQ(code_of("GET", host, "", ours), "foreign_host") << host;
}

TEST(Loopback, IsWhatOnlyThisMachineReaches) {
    for (const char* host : {"127.0.0.1", "127.9.9.9", "localhost", "LocalHost", "::1"}) EXPECT_TRUE(is_loopback(host));
    for (const char* host : {"0.0.0.0", "::", "192.168.0.7", "127.evil.example", "box", "::2", ""})
        EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(AllowedFields, AreThoseAskedForIfTheyAreNamesOfFields) {
    const std::string usual = "authorization, content-type";
    for (const std::string& asked : {std::string("authorization,content-type,x-stainless-arch"),
                                     std::string("X-Stainless-OS, x_1"), std::string(1024, 'x')}) {
        EXPECT_EQ(allowed_fields(asked), asked);
    }
    for (const std::string& asked : {std::string(), std::string(1025, 'x'), std::string("x\r\nSet-Cookie: a=b"),
                                     std::string("x: y"), std::string("x;y"), std::string("\xc3\xa4")}) {
        EXPECT_EQ(allowed_fields(asked), usual);
    }
}

/// Gateways of our own before the suite's engine; the suite's has keys and no cors_origin.
class GatewayBrowsers : public testing::GatewayFixture {
protected:
    static std::unique_ptr<Gateway> open(const std::string& cors_origin) {
        Gateway::Options options;
        options.server = server_with("127.0.0.1", cors_origin);
        options.server.port = 0;
        return must(Gateway::start(*engine, std::move(options)));
    }
    static RawResponse ask(const Gateway& of, const std::string& start, const std::string& fields = "",
                           const std::string& body = "") {
        const bool names_host = fields.find("Host: ") != std::string::npos;
        return RawClient(of.port()).ask(start + " HTTP/1.1\r\n" + (names_host ? "" : "Host: localhost\r\n") + fields +
                                        "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    }
    static std::string allowed(const RawResponse& response, const std::string& what) {
        const auto found = response.headers.find("access-control-allow-" + what);
        return found == response.headers.end() ? "" : found->second;
    }
};

TEST_F(GatewayBrowsers, RefusesOtherPagesBeforeTheyDoAnything) {
    const auto ours = open("");
    const std::string evil = "Origin: https://evil.example\r\n";
    EXPECT_EQ(ask(*ours, "POST /v1/sessions", "", R"({"id":"kept"})").status, 200);
    for (const char* start : {"DELETE /v1/sessions/kept", "POST /v1/sessions/kept/fork", "POST /v1/chat/completions"}) {
        const RawResponse refusal = ask(*ours, start, evil + "Content-Type: text/plain\r\n", "{}");
        EXPECT_EQ(refusal.status, 403) << start;
        EXPECT_EQ(json::parse(refusal.body)["error"]["code"], "foreign_origin");
        EXPECT_EQ(allowed(refusal, "origin"), "");
    }
    EXPECT_EQ(ask(*ours, "GET /v1/sessions/kept").status, 200);
    const RawResponse rebound = ask(*ours, "GET /v1/sessions", "Host: evil.example\r\n");
    EXPECT_EQ(rebound.status, 403);
    EXPECT_EQ(json::parse(rebound.body)["error"]["code"], "foreign_host");
    EXPECT_THAT(rebound.body, ::testing::HasSubstr("server.allowed_hosts must list"));
    const std::string address = "127.0.0.1:" + std::to_string(ours->port());
    EXPECT_EQ(
        ask(*ours, "DELETE /v1/sessions/kept", "Host: " + address + "\r\nOrigin: http://" + address + "\r\n").status,
        200)
        << "our own page";
}

TEST_F(GatewayBrowsers, AnswersThePreflightOfOpenAisClient) {
    const std::string origin = "https://chat.example";
    const std::string fields = "authorization,content-type,x-stainless-arch,x-stainless-retry-count";
    const std::string asked = "Origin: " + origin + "\r\nAccess-Control-Request-Method: POST\r\n";
    for (const std::string& configured : {origin, std::string("*")}) {
        const auto ours = open(configured);
        const RawResponse preflight =
            ask(*ours, "OPTIONS /v1/chat/completions", asked + "Access-Control-Request-Headers: " + fields + "\r\n");
        EXPECT_EQ(preflight.status, 204);
        EXPECT_EQ(allowed(preflight, "origin"), configured);
        EXPECT_EQ(allowed(preflight, "headers"), fields);
        EXPECT_EQ(allowed(preflight, "methods"), "GET, HEAD, POST, DELETE, OPTIONS");
        const RawResponse odd = ask(*ours, "OPTIONS /v1/models", asked + "Access-Control-Request-Headers: a: b; c\r\n");
        EXPECT_EQ(allowed(odd, "headers"), "authorization, content-type");
    }
}

TEST_F(GatewayBrowsers, SaysOfEveryAnswerWhoMayReadIt) {
    const std::string origin = "https://chat.example";
    const auto ours = open(origin);
    const std::string from_there = "Origin: " + origin + "\r\n";
    const std::vector<std::pair<RawResponse, int>> answers = {
        {ask(*ours, "GET /v1/models", from_there), 200},
        {ask(*ours, "GET /nowhere", from_there), 404},
        {ask(*ours, "POST /v1/chat/completions", from_there, "{}"), 400},
        {ask(*ours, "POST /v1/sessions", "Origin: https://evil.example\r\n", "{}"), 403},
        {ask(*ours, "POST /v1/sessions", from_there + "Transfer-Encoding: gzip\r\n"), 400}};
    for (const auto& [answer, status] : answers) {
        EXPECT_EQ(answer.status, status);
        EXPECT_EQ(allowed(answer, "origin"), origin) << status;
        EXPECT_EQ(answer.headers.at("vary"), "Origin");
        EXPECT_EQ(answer.headers.at("access-control-expose-headers"), "Retry-After, X-Request-Id");
    }
    const json body = chat("Hello!");
    const std::string stream = body.dump().insert(1, R"("stream":true,"max_tokens":2,)");
    const RawResponse streamed = ask(*ours, "POST /v1/chat/completions", from_there, stream);
    EXPECT_EQ(streamed.status, 200);
    EXPECT_EQ(allowed(streamed, "origin"), origin);
    EXPECT_EQ(allowed(ask(*open(""), "GET /v1/models", from_there), "origin"), "");
    EXPECT_EQ(ask(*open(""), "OPTIONS /v1/models", from_there).status, 405) << "nothing was configured";
}

}  // namespace
}  // namespace rondo

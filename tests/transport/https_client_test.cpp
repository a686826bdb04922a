#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "tests/transport/tls_test_server.hpp"
#include "transport/http_client.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_chunk;
using testing::Named;
using testing::ScriptedServer;
using testing::TestAuthority;
using testing::TlsTestServer;
using Request = ScriptedServer::Request;
using Send = ScriptedServer::Send;

HttpClient::Deadline soon(int ms = 20'000) {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
}

std::shared_ptr<const TlsTrust> trust_in(TestAuthority& authority) {
    return TlsTrust::load(authority.file()).value();
}

ScriptedServer::Handler echo() {
    return [](const Request& request, const Send& send) {
        return send(http_answer(200, std::to_string(request.connection) + ":" + request.body));
    };
}

Result<HttpResponse> get(const std::string& url, std::shared_ptr<const TlsTrust> trust) {
    HttpClient client(Url::parse(url).value(), {}, std::move(trust));
    return client.request("GET", "/", {{"Authorization", "Bearer secret"}}, "", soon());
}

TEST(HttpsClient, AsksATrustedServerByNameAndByAddress) {
    TestAuthority authority;
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        const TlsTestServer server(authority.context({}, version), echo());
        for (const char* host : {"127.0.0.1", "localhost"}) {
            const auto response = get(server.url(host), trust_in(authority));
            ASSERT_TRUE(response) << response.error().message;
            EXPECT_EQ(response->status, 200);
        }
    }
}

TEST(HttpsClient, KeepsItsConnectionAndSendsLargeBodies) {
    TestAuthority authority;
    const TlsTestServer server(authority.context({}), echo());
    HttpClient client(Url::parse(server.url()).value(), {}, trust_in(authority));
    const std::string large(3'000'000, 'x');
    for (int i = 0; i < 3; ++i) {
        const auto response = client.request("POST", "/", {}, large, soon());
        ASSERT_TRUE(response) << response.error().message;
        EXPECT_TRUE(response->body == "0:" + large);
    }
}

TEST(HttpsClient, OpensAnotherConnectionWhereTheKeptOneWasClosed) {
    TestAuthority authority;
    const TlsTestServer server(authority.context({}), [](const Request& request, const Send& send) {
        send(http_answer(200, std::to_string(request.connection)));
        return false;
    });
    HttpClient client(Url::parse(server.url()).value(), {}, trust_in(authority));
    for (const char* connection : {"0", "1", "2"})
        EXPECT_EQ(client.request("GET", "/", {}, "", soon())->body, connection);
}

/// A server that is not trusted does not get to see a byte of the request.
TEST(HttpsClient, TellsNothingToAServerThatItDoesNotTrust) {
    TestAuthority authority, other;
    struct Case {
        Named named;
        const char* host;
        std::shared_ptr<const TlsTrust> trust;
        const char* why;
    };
    for (const Case& one : {
             Case{{}, "127.0.0.1", trust_in(other), "not trusted"},
             Case{{}, "127.0.0.1", nullptr, "not trusted"},  // the system's
             Case{{"DNS:localhost", -3600, 3600}, "127.0.0.1", trust_in(authority), "IP address mismatch"},
             Case{{"IP:127.0.0.1", -3600, 3600}, "localhost", trust_in(authority), "hostname mismatch"},
             Case{{"DNS:*.localhost,DNS:l*", -3600, 3600}, "localhost", trust_in(authority), "hostname mismatch"},
             Case{{"DNS:localhost", -7200, -3600}, "localhost", trust_in(authority), "has expired"},
             Case{{"DNS:localhost", 3600, 7200}, "localhost", trust_in(authority), "not yet valid"},
         }) {
        std::atomic<int> requests = 0;
        const TlsTestServer server(authority.context(one.named), [&](const Request&, const Send& send) {
            ++requests;
            return send(http_answer(200, ""));
        });
        const auto response = get(server.url(one.host), one.trust);
        ASSERT_FALSE(response) << one.why;
        EXPECT_EQ(response.error().code, ErrorCode::io);
        EXPECT_THAT(response.error().message, HasSubstr(one.why));
        EXPECT_THAT(response.error().message, HasSubstr(server.url(one.host)));
        EXPECT_EQ(requests, 0);
    }
}

TEST(HttpsClient, RefusesOldVersions) {
    TestAuthority authority;
    const TlsTestServer server(authority.context({}, TLS1_1_VERSION), echo());
    const auto response = get(server.url(), trust_in(authority));
    ASSERT_FALSE(response);
    EXPECT_THAT(response.error().message, HasSubstr("TLS could not be agreed on"));
}

TEST(HttpsClient, SaysThatAServerDoesNotSpeakTls) {
    const ScriptedServer server([](const Request&, const Send&) { return false; });
    TestAuthority authority;
    // It waits for the end of a line that never comes, so the deadline is what ends this.
    HttpClient client(Url::parse("https://127.0.0.1:" + std::to_string(server.port())).value(), {},
                      trust_in(authority));
    const auto response = client.request("GET", "/", {}, "", soon(200));
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::timeout);
}

/// Anybody on the way can end a connection: an answer that is as long as the connection needs the server's goodbye.
TEST(HttpsClient, AnAnswerThatWasCutOffIsAnError) {
    TestAuthority authority;
    for (const bool says_goodbye : {true, false}) {
        const TlsTestServer server(
            authority.context({}),
            [](const Request&, const Send& send) {
                send("HTTP/1.1 200 OK\r\n\r\nall of it");
                return false;
            },
            says_goodbye);
        const auto response = get(server.url(), trust_in(authority));
        ASSERT_EQ(response.is_ok(), says_goodbye);
        if (says_goodbye) {
            EXPECT_EQ(response->body, "all of it");
        } else {
            EXPECT_THAT(response.error().message, HasSubstr("cut off"));
        }
    }
}

TEST(HttpsClient, StreamsAndStopsWhileNothingArrives) {
    TestAuthority authority;
    std::promise<void> over;
    const TlsTestServer server(authority.context({}),
                               [done = over.get_future().share()](const Request&, const Send& send) {
                                   send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + http_chunk("first"));
                                   done.wait();
                                   return false;
                               });
    HttpClient client(Url::parse(server.url()).value(), {}, trust_in(authority));
    std::string text;
    const auto response = client.stream("POST", "/", {}, "", soon(), [&](std::string_view piece) {
        text += piece;
        return text.empty() || !piece.empty();
    });
    over.set_value();
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::cancelled);
    EXPECT_EQ(text, "first");
}

TEST(HttpsClient, CertificatesThatCannotBeReadAreNamed) {
    for (const char* file : {"/no/such.pem", "/etc/hostname", "/tmp"}) {
        const auto trust = TlsTrust::load(file);
        ASSERT_FALSE(trust) << file;
        EXPECT_THAT(trust.error().message, HasSubstr(std::string(file) + ": no certificates can be read there"));
        EXPECT_EQ(trust.error().message.find('\n'), std::string::npos);
    }
    EXPECT_TRUE(TlsTrust::load(""));
}

TEST(HttpsClient, SslCertFileIsTrustedWhereNoFileIsNamed) {
    TestAuthority authority;
    ::setenv("SSL_CERT_FILE", authority.file().c_str(), 1);
    const TlsTestServer server(authority.context({}), echo());
    const auto response = get(server.url(), nullptr);
    ::unsetenv("SSL_CERT_FILE");
    ASSERT_TRUE(response) << response.error().message;
}

}  // namespace
}  // namespace rondo

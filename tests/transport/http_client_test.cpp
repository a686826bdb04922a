#include "transport/http_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "tests/transport/scripted_server.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_chunk;
using ::testing::Not;
using testing::ScriptedServer;
using Request = ScriptedServer::Request;
using Send = ScriptedServer::Send;

const std::string chunked_head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

HttpClient::Deadline soon(int ms = 20'000) {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
}

HttpClient client_of(const ScriptedServer& server, const std::string& path = "", HttpClientLimits limits = {}) {
    return HttpClient(Url::parse(server.url() + path).value(), limits);
}

/// A server that gives the same bytes to every request and closes.
ScriptedServer::Handler always(std::string bytes) {
    return [bytes = std::move(bytes)](const Request&, const Send& send) {
        send(bytes);
        return false;
    };
}

/// The error of a request to a server that gives these bytes and closes.
Error error_of(const std::string& bytes, HttpClientLimits limits = {}) {
    ScriptedServer server(always(bytes));
    HttpClient client = client_of(server, "", limits);
    const auto response = client.request("GET", "/", {}, "", soon());
    EXPECT_FALSE(response) << bytes.substr(0, 200);
    return response ? Error{} : response.error();
}

TEST(HttpClient, SendsARequestAndGivesTheAnswer) {
    std::promise<Request> seen;
    ScriptedServer server([&](const Request& request, const Send& send) {
        seen.set_value(request);
        return send(http_answer(404, "no such thing", "X-Kind: Odd\r\n"));
    });
    HttpClient client = client_of(server, "/base/");
    const auto response = client.request("POST", "/things?a=b", {{"Authorization", "Bearer k"}}, "{\"a\":1}", soon());
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 404);
    EXPECT_FALSE(response->is_success());
    EXPECT_EQ(response->body, "no such thing");
    EXPECT_EQ(response->header("x-kind"), "Odd");
    EXPECT_EQ(response->header("x-other"), "");
    const Request request = seen.get_future().get();
    EXPECT_THAT(request.head, ::testing::StartsWith("POST /base/things?a=b HTTP/1.1\r\n"));
    EXPECT_THAT(request.head, HasSubstr("Host: 127.0.0.1:" + std::to_string(server.port()) + "\r\n"));
    EXPECT_THAT(request.head, HasSubstr("Authorization: Bearer k\r\n"));
    EXPECT_EQ(request.body, "{\"a\":1}");
}

TEST(HttpClient, TakesBodiesOfEveryForm) {
    const std::string until_close = "HTTP/1.1 200 OK\r\n\r\nto the end";
    const std::string chunked = chunked_head + http_chunk("to ") + http_chunk("the end") + http_chunk("");
    const std::string empty = "HTTP/1.1 204 No Content\r\n\r\n";
    for (const auto& [bytes, body] : {std::pair{until_close, "to the end"}, {chunked, "to the end"}, {empty, ""}}) {
        ScriptedServer server(always(bytes));
        HttpClient client = client_of(server);
        const auto response = client.request("GET", "/", {}, "", soon());
        ASSERT_TRUE(response) << response.error().message;
        EXPECT_EQ(response->body, body);
    }
    const std::string large(3'000'000, 'x');
    ScriptedServer server(always(http_answer(200, large)));
    HttpClient client = client_of(server);
    const auto response = client.request("POST", "/", {}, large, soon());
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->body, large);
}

TEST(HttpClient, WaitsForNoBodyBehindTheHeadersThatWereAskedForAlone) {
    ScriptedServer server(always("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
    HttpClient client = client_of(server);
    for (int i = 0; i < 2; ++i) {
        const auto response = client.request("HEAD", "/", {}, "", soon());
        ASSERT_TRUE(response) << response.error().message;
        EXPECT_EQ(response->header("content-length"), "5");
        EXPECT_EQ(response->body, "");
    }
}

TEST(HttpClient, KeepsItsConnection) {
    ScriptedServer server([](const Request& request, const Send& send) {
        return send(http_answer(200, std::to_string(request.connection)));
    });
    HttpClient client = client_of(server);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.request("GET", "/", {}, "", soon())->body, "0");
    HttpClient moved = std::move(client);
    EXPECT_EQ(moved.request("GET", "/", {}, "", soon())->body, "0");
}

TEST(HttpClient, OpensAnotherConnectionWhereTheKeptOneWasClosed) {
    ScriptedServer server([](const Request& request, const Send& send) {
        send(http_answer(200, std::to_string(request.connection)));
        return false;  // though the answer did not say so
    });
    HttpClient client = client_of(server);
    for (const char* connection : {"0", "1", "2"}) {
        const auto response = client.request("POST", "/", {}, "body", soon());
        ASSERT_TRUE(response) << response.error().message;
        EXPECT_EQ(response->body, connection);
    }
}

TEST(HttpClient, DoesNotRepeatARequestThatWasBegunToBeAnswered) {
    std::atomic<int> requests = 0;
    ScriptedServer server([&](const Request&, const Send& send) {
        if (++requests == 1) return send(http_answer(200, "whole"));
        send("HTTP/1.1 200 OK\r\nContent-Le");
        return false;
    });
    HttpClient client = client_of(server);
    ASSERT_TRUE(client.request("POST", "/", {}, "", soon()));
    EXPECT_FALSE(client.request("POST", "/", {}, "", soon()));
    EXPECT_EQ(requests, 2);
}

TEST(HttpClient, GivesPiecesAsTheyArrive) {
    std::promise<void> first_seen;
    ScriptedServer server([&](const Request&, const Send& send) {
        send(chunked_head + http_chunk("first"));
        // A client that holds the piece back waits for the second in vain.
        if (first_seen.get_future().wait_for(std::chrono::seconds(10)) != std::future_status::ready) return false;
        return send(http_chunk("second") + http_chunk(""));
    });
    HttpClient client = client_of(server);
    std::string text;
    const auto response = client.stream("POST", "/", {}, "", soon(), [&](std::string_view piece) {
        if (text.empty() && !piece.empty()) first_seen.set_value();
        text += piece;
        return true;
    });
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(text, "firstsecond");
    EXPECT_EQ(response->body, "");
}

TEST(HttpClient, KeepsTheBodyOfARefusalOutOfTheStream) {
    ScriptedServer server(always(http_answer(400, "{\"error\":\"why\"}")));
    HttpClient client = client_of(server);
    std::string text;
    const auto response = client.stream("POST", "/", {}, "", soon(), [&](std::string_view piece) {
        text += piece;
        return true;
    });
    ASSERT_TRUE(response);
    EXPECT_EQ(text, "");
    EXPECT_EQ(response->body, "{\"error\":\"why\"}");
}

TEST(HttpClient, ClosesWhenTheCallerStops) {
    std::promise<void> closed;
    ScriptedServer server([&](const Request& request, const Send& send) {
        if (request.connection > 0) return send(http_answer(200, "again"));
        send(chunked_head);
        while (send(http_chunk("more"))) {
        }
        closed.set_value();
        return false;
    });
    HttpClient client = client_of(server);
    const auto response =
        client.stream("POST", "/", {}, "", soon(), [](std::string_view piece) { return piece.empty(); });
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::cancelled);
    EXPECT_EQ(closed.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
    EXPECT_EQ(client.request("GET", "/", {}, "", soon())->body, "again");
}

TEST(HttpClient, TheCallerCanStopWhileNothingArrives) {
    std::promise<void> over;
    ScriptedServer server([done = over.get_future().share()](const Request&, const Send&) {
        done.wait();
        return false;
    });
    HttpClient client = client_of(server);
    const auto response = client.stream("POST", "/", {}, "", soon(), [](std::string_view) { return false; });
    over.set_value();
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::cancelled);
}

TEST(HttpClient, KeepsTheDeadlineInEveryState) {
    for (const std::string& sent : {std::string(), std::string("HTTP/1.1 200"), chunked_head + http_chunk("a")}) {
        std::promise<void> over;
        ScriptedServer server([&, done = over.get_future().share()](const Request& request, const Send& send) {
            if (request.head.starts_with("GET /later ")) return send(http_answer(200, "later"));
            send(sent);
            done.wait();
            return false;
        });
        HttpClient client = client_of(server);
        const auto start = std::chrono::steady_clock::now();
        const auto response = client.request("GET", "/", {}, "", soon(60));
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
        over.set_value();
        ASSERT_FALSE(response);
        EXPECT_EQ(response.error().code, ErrorCode::timeout);
        EXPECT_EQ(client.request("GET", "/later", {}, "", soon())->body, "later");
    }
}

/// Of the second request's answer nothing is left over from the first one.
TEST(HttpClient, ReadsOverInterimAnswersButNotWithoutEnd) {
    for (const int count : {8, 9}) {
        ScriptedServer server([count](const Request& request, const Send& send) {
            if (request.head.starts_with("GET /again ")) return send(http_answer(200, "again"));
            std::string interim;
            for (int i = 0; i < count; ++i) interim += "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
            send(interim);
            return send(http_answer(200, "first"));
        });
        HttpClient client = client_of(server);
        const auto response = client.request("GET", "/", {}, "", soon());
        ASSERT_EQ(response.is_ok(), count == 8);
        if (response) {
            EXPECT_EQ(response->body, "first");
        } else {
            EXPECT_THAT(response.error().message, HasSubstr("interim answers"));
        }
        EXPECT_EQ(client.request("GET", "/again", {}, "", soon())->body, "again");
    }
}

TEST(HttpClient, TheCallerCanStopWhileAHeaderDrips) {
    std::atomic<bool> drips = false;
    ScriptedServer server([&](const Request&, const Send& send) {
        send("HTTP/1.1 200 OK\r\nX: ");
        while (send("x")) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            drips = true;
        }
        return false;
    });
    HttpClient client = client_of(server);
    const auto response = client.stream("POST", "/", {}, "", soon(), [&](std::string_view) { return !drips; });
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::cancelled);
}

TEST(HttpClient, BoundsWhatAServerMaySend) {
    const HttpClientLimits limits{1000, 5000};
    const std::string large(6000, 'x');
    const std::string long_header = "HTTP/1.1 200 OK\r\nX: " + large + "\r\n\r\n";
    const std::string endless_header = "HTTP/1.1 200 OK\r\nX: " + std::string(1 << 20, 'x');
    std::string chunks = chunked_head;
    for (int i = 0; i < 100; ++i) chunks += http_chunk(large.substr(0, 100));
    for (const std::string& bytes :
         {long_header, endless_header, http_answer(200, large), chunks, "HTTP/1.1 200 OK\r\n\r\n" + large,
          std::string("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n")}) {
        EXPECT_EQ(error_of(bytes, limits).code, ErrorCode::out_of_range) << bytes.substr(0, 60);
    }
}

TEST(HttpClient, SaysWhatIsWrongWithAnAnswer) {
    EXPECT_EQ(error_of("").code, ErrorCode::io);
    EXPECT_EQ(error_of("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort").code, ErrorCode::io);
    EXPECT_EQ(error_of(chunked_head + http_chunk("a")).code, ErrorCode::io);
    EXPECT_THAT(error_of("HTTP/1.1 200 OK\r\n").message, HasSubstr("closed before"));
    for (const char* bytes : {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n",
                              "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nbroken\r\n\r\n"}) {
        EXPECT_EQ(error_of(bytes).code, ErrorCode::corrupt) << bytes;
    }
    EXPECT_EQ(error_of(chunked_head + "zz\r\n").code, ErrorCode::corrupt);
}

TEST(HttpClient, SaysThatNothingListens) {
    const int bound = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);  // so nobody else can take its port
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(bound, reinterpret_cast<const sockaddr*>(&address), size), 0);
    ASSERT_EQ(::getsockname(bound, reinterpret_cast<sockaddr*>(&address), &size), 0);
    HttpClient client(Url::parse("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port))).value());
    const auto response = client.request("GET", "/", {}, "", soon());
    ::close(bound);
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::io);
    EXPECT_THAT(response.error().message, HasSubstr("nothing listens there"));
}

TEST(HttpClient, RefusesToSendWhatWouldBreakARequest) {
    std::atomic<int> requests = 0;
    ScriptedServer server([&](const Request&, const Send& send) {
        ++requests;
        return send(http_answer(200, ""));
    });
    HttpClient client = client_of(server);
    const auto code = [&](const char* method, const char* target, HttpHeaders headers) {
        const auto response = client.request(method, target, headers, "", soon());
        if (response) return ErrorCode::internal;
        EXPECT_THAT(response.error().message, Not(HasSubstr("secret")));
        return response.error().code;
    };
    EXPECT_EQ(code("GET / HTTP/1.1\r\n", "/", {}), ErrorCode::invalid_argument);
    EXPECT_EQ(code("", "/", {}), ErrorCode::invalid_argument);
    EXPECT_EQ(code("GET", "", {}), ErrorCode::invalid_argument);
    EXPECT_EQ(code("GET", "models", {}), ErrorCode::invalid_argument);
    EXPECT_EQ(code("GET", "/a b", {}), ErrorCode::invalid_argument);
    EXPECT_EQ(code("GET", "/\r\nX: y", {}), ErrorCode::invalid_argument);
    EXPECT_EQ(code("GET", "/", {{"X\r\nY", "z"}}), ErrorCode::invalid_argument);
    EXPECT_EQ(code("GET", "/", {{"Authorization", "Bearer secret\r\nX: y"}}), ErrorCode::invalid_argument);
    EXPECT_EQ(requests, 0);
}

TEST(HttpClient, SurvivesAnyBytes) {
    std::mt19937 random(7);
    const std::string good = chunked_head + http_chunk("data: a\n\n") + http_chunk("data: b\n\n") + http_chunk("");
    for (int i = 0; i < 300; ++i) {
        std::string bytes = good;
        for (int change = 0; change < 3; ++change) {
            const size_t at = random() % bytes.size();
            if (random() % 2 == 0) bytes[at] = static_cast<char>(random());
            if (random() % 4 == 0) bytes.resize(at + 1);
        }
        ScriptedServer server(always(bytes));
        HttpClient client = client_of(server);
        const auto response = client.request("GET", "/", {}, "", soon());
        if (!response) {
            EXPECT_NE(response.error().code, ErrorCode::timeout) << i;
            EXPECT_NE(response.error().code, ErrorCode::internal) << i;
        }
    }
}

}  // namespace
}  // namespace rondo

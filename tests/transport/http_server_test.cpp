#include "transport/http_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/transport/http_server_fixture.hpp"

namespace rondo {
namespace {

std::string post(const std::string& path, const std::string& body, const std::string& fields = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + fields +
           "\r\n" + body;
}

TEST(HttpServer, AnswersOneRequestAfterAnotherOnAConnection) {
    const auto server = start_server(echo);
    RawClient client(server->port());
    for (int i = 0; i < 3; ++i) {
        const std::string body = "body " + std::to_string(i);
        const RawResponse response = client.ask(post("/x?q=1", body));
        EXPECT_EQ(response.status, 200);
        EXPECT_EQ(response.body, "POST /x?q=1 " + body);
        EXPECT_FALSE(response.headers.contains("connection"));
    }
    EXPECT_EQ(server->counts().connections, 1u);
}

TEST(HttpServer, TellsTheHandlerWhoAsks) {
    const auto server = start_server([](HttpRequest request, std::shared_ptr<HttpReply> reply) {
        reply->send(200, {}, request.peer + ' ' + std::string(request.header("user-agent")));
    });
    RawClient client(server->port());
    EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: t\r\nUser-Agent: raw\r\n\r\n").body, "127.0.0.1 raw");
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
    Replies replies;
    const auto server = start_server(keep_in(replies));
    RawClient client(server->port());
    std::string all;
    for (int i = 0; i < 200; ++i) all += get_root;
    client.send(all);
    for (int i = 0; i < 200; ++i) {
        const auto reply = replies.take().value();
        EXPECT_EQ(replies.size(), 0u) << "the next request waits for this answer";
        reply->send(200, {}, std::to_string(i));
        EXPECT_EQ(client.read_response().body, std::to_string(i));
    }
}

TEST(HttpServer, KeepsMorePipelinedBytesThanItReadsAtOnce) {
    Replies replies;
    const auto server = start_server(keep_in(replies));
    RawClient client(server->port());
    client.send(get_root);
    const auto first = replies.take().value();
    const std::string body(100'000, 'x');
    std::thread sender([&] { EXPECT_TRUE(client.send(post("/", body) + post("/", body))); });
    first->send(200, {}, "first");
    for (int i = 0; i < 2; ++i) replies.take().value()->send(200, {}, "next");
    sender.join();
    EXPECT_EQ(client.read_response().body, "first");
    EXPECT_EQ(client.read_response().body, "next");
    EXPECT_EQ(client.read_response().body, "next");
}

TEST(HttpServer, AnswersHeadWithHeadersAlone) {
    const auto server = start_server(echo);
    RawClient client(server->port());
    client.send("HEAD /x HTTP/1.1\r\nHost: t\r\n\r\n");
    const RawResponse head = client.read_response(true);
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.headers.at("content-length"), std::to_string(std::string("HEAD /x? ").size()));
    EXPECT_EQ(client.ask(get_root).body, "GET /? ") << "nothing stands between the two";
}

TEST(HttpServer, GivesNoBodyToStatusesThatHaveNone) {
    const auto server =
        start_server([](HttpRequest, std::shared_ptr<HttpReply> reply) { reply->send(204, {}, "ignored"); });
    RawClient client(server->port());
    for (int i = 0; i < 2; ++i) {
        const RawResponse response = client.ask(get_root);
        EXPECT_EQ(response.status, 204);
        EXPECT_FALSE(response.headers.contains("content-length"));
    }
}

TEST(HttpServer, AsksForTheBodyThatAwaitsIt) {
    const auto server = start_server(echo);
    RawClient client(server->port());
    for (int i = 0; i < 2; ++i) {
        client.send("POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
        EXPECT_EQ(client.read_response().status, 100);
        EXPECT_EQ(client.ask("body").body, "POST /? body");
    }
    // The body is there already, so nothing needs to be asked for.
    EXPECT_EQ(client.ask(post("/", "body", "Expect: 100-continue\r\n")).status, 200);
}

/// Before any of it comes.
TEST(HttpServer, AsksWhetherABodyMayCome) {
    HttpServer::Options options;
    options.turn_away = [](const HttpRequest& request) -> std::optional<std::string> {
        if (request.header("authorization") == "Bearer key") return {};
        return "no key";
    };
    const auto server = HttpServer::start(options, echo).value();
    const std::string begin = "POST / HTTP/1.1\r\nHost: t\r\n", large = "Content-Length: 8000000\r\n";
    for (const std::string& header :
         {large, large + "Expect: 100-continue\r\n", large + "Authorization: Bearer other\r\n",
          std::string("Transfer-Encoding: chunked\r\n")}) {
        RawClient stranger(server->port());
        const RawResponse refused = stranger.ask(begin + header + "\r\n");
        EXPECT_EQ(refused.status, 401) << header;
        EXPECT_EQ(refused.body, "no key");
    }
    EXPECT_EQ(server->counts().body_bytes, 0U);
    const std::string key = "Authorization: Bearer key\r\n";
    RawClient known(server->port());
    known.send(begin + key + "Content-Length: 5\r\n\r\n");
    EXPECT_EQ(known.ask("hello").status, 200);
    EXPECT_EQ(RawClient(server->port()).ask(get_root).status, 200) << "it has no body";
}

TEST(HttpServer, ListensOnAllAddressesOfAName) {
    const auto server = HttpServer::start({.host = "localhost", .limits = {}}, echo);
    ASSERT_TRUE(server) << server.error().message;
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    ASSERT_EQ(getaddrinfo("localhost", std::to_string((*server)->port()).c_str(), &hints, &found), 0);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
    int listening = 0;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
        const int client = ::socket(one->ai_family, SOCK_STREAM, 0);
        if (::connect(client, one->ai_addr, one->ai_addrlen) == 0)
            ++listening;
        else
            EXPECT_TRUE(errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT || errno == EBADF) << errno;
        ::close(client);
    }
    EXPECT_GE(listening, 1);
}

TEST(HttpServer, ReadsChunkedBodies) {
    const auto server = start_server(echo);
    RawClient client(server->port());
    const std::string header = "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
    EXPECT_EQ(client.ask(header + "4\r\nbody\r\n0\r\n\r\n").body, "POST /? body");
    EXPECT_EQ(client.ask(header + "0\r\n\r\n").body, "POST /? ");
}

TEST(HttpServer, RefusesABodyBeforeReadingIt) {
    Replies replies;
    const auto server = start_server(keep_in(replies), {.body_bytes_max = 1000});
    const std::string start = "POST / HTTP/1.1\r\nHost: t\r\n";
    for (const std::string& request :
         {start + "Content-Length: 1001\r\n\r\n", start + "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
          start + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n"}) {
        RawClient client(server->port());
        const RawResponse response = client.ask(request);
        EXPECT_EQ(response.status, 413);
        EXPECT_EQ(response.headers.at("connection"), "close");
        EXPECT_THAT(response.body, testing::StartsWith(R"({"error":{"message":"the body is too long)"));
        EXPECT_TRUE(client.sees_close());
    }
    EXPECT_EQ(replies.size(), 0u);
}

struct ToldRefusal {
    HttpRequest request;
    int status;
    size_t bytes;
};

TEST(HttpServer, TellsItsOwnerOfRefusals) {
    Mailbox<ToldRefusal> told;
    HttpServer::Options options{.limits = {.body_bytes_max = 4, .body_time = std::chrono::milliseconds(50)}};
    options.refused = [&](HttpRequest request, int status, size_t bytes) {
        told.put({std::move(request), status, bytes});
        return HttpHeaders{{"X-Told", std::to_string(status)}};
    };
    const auto server = std::move(HttpServer::start(options, echo)).value();
    const std::string start = "POST /a?b HTTP/1.1\r\nHost: t\r\n";
    const std::vector<std::pair<std::string, int>> table = {{start + "Content-Length: 5\r\n\r\n", 413},
                                                            {start + "Content-Length: 4\r\n\r\n12", 408},
                                                            {start + "Expect: a miracle\r\n\r\n", 417}};
    for (const auto& [bytes, status] : table) {
        RawClient client(server->port());
        const RawResponse answer = client.ask(bytes);
        const ToldRefusal refusal = told.take().value();
        EXPECT_EQ(answer.status, status);
        EXPECT_EQ(answer.headers.at("x-told"), std::to_string(status));
        EXPECT_EQ(refusal.status, status);
        EXPECT_EQ(refusal.request.method + ' ' + refusal.request.path, "POST /a");
        EXPECT_EQ(refusal.request.peer, "127.0.0.1");
        EXPECT_EQ(refusal.bytes, answer.body.size());
    }
    EXPECT_EQ(RawClient(server->port()).ask("nonsense\r\n\r\n").status, 400);
    EXPECT_EQ(told.take().value().request.method, "") << "nothing could be read of it";
    RawClient good(server->port());
    EXPECT_EQ(good.ask(get_root).status, 200);
    good.close();
    EXPECT_TRUE(becomes_true([&] { return server->counts().connections == 0; }));
    EXPECT_EQ(told.size(), 0u) << "a client that has its answer was not refused";
}

TEST(HttpServer, AnswersARefusalThoughItsOwnerThrows) {
    HttpServer::Options options;
    options.refused = [](HttpRequest, int, size_t) -> HttpHeaders { throw std::runtime_error("no memory"); };
    const auto server = std::move(HttpServer::start(options, echo)).value();
    const RawResponse answer = RawClient(server->port()).ask("nonsense\r\n\r\n");
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.headers.at("content-type"), "application/json");
}

TEST(HttpServer, LetsARefusedClientReadWhyThoughItSendsOn) {
    const auto server = start_server(echo, {.body_bytes_max = 100'000});
    RawClient client(server->port());
    client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100001\r\n\r\n");
    client.send(std::string(90'000, 'x'));
    EXPECT_EQ(client.read_response().status, 413);
    EXPECT_TRUE(client.sees_close());
    EXPECT_FALSE(client.was_reset());
}

TEST(HttpServer, CutsOffARefusedClientThatNeverStopsSending) {
    const auto server = start_server(echo, {.body_bytes_max = 1000});
    RawClient client(server->port());
    client.send("nonsense\n");
    const std::string more(100'000, 'x');
    size_t sent = 0;
    while (client.send(more)) sent += more.size();
    EXPECT_LT(sent, size_t{16} << 20) << "what the kernel holds";
    EXPECT_TRUE(becomes_true([&] { return server->counts().connections == 0; }));
}

TEST(HttpServer, HandsOverNothingOfABodyThatEndsEarly) {
    Replies replies;
    const auto server = start_server(keep_in(replies));
    for (const char* request : {"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nshort",
                                "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort"}) {
        RawClient client(server->port());
        client.send(request);
        client.half_close();
        EXPECT_EQ(client.read_to_end(), "");
    }
    EXPECT_EQ(replies.size(), 0u);
}

TEST(HttpServer, ReadsABodyLongerThanAnnouncedAsTheNextRequest) {
    const auto server = start_server(echo);
    RawClient client(server->port());
    client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nbody and more\n");
    EXPECT_EQ(client.read_response().body, "POST /? body");
    EXPECT_EQ(client.read_response().status, 400);
    EXPECT_TRUE(client.sees_close());
}

TEST(HttpServer, RefusesMalformedRequestsAndCloses) {
    const auto server = start_server(echo);
    for (const auto& [request, status] : std::vector<std::pair<std::string, int>>{
             {"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
             {"GET / HTTP/1.1\nHost: t\n\n", 400},
             {"GET /%zz HTTP/1.1\r\nHost: t\r\n\r\n", 400},
             {"GET / HTTP/1.1\r\nHost: t\r\nExpect: x\r\n\r\n", 417},
             {"GET / HTTP/1.1\r\nHost: t\r\nA: " + std::string(20'000, 'x'), 431}}) {
        RawClient client(server->port());
        const RawResponse response = client.ask(request);
        EXPECT_EQ(response.status, status) << request;
        EXPECT_EQ(response.headers.at("connection"), "close");
        EXPECT_TRUE(client.sees_close());
    }
}

TEST(HttpServer, ClosesWhenTheClientAsksForIt) {
    const auto server = start_server(echo);
    for (const char* request : {"GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
                                "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"}) {
        RawClient client(server->port());
        const RawResponse response = client.ask(request);
        EXPECT_EQ(response.body, "GET /? ");
        EXPECT_EQ(response.headers.at("connection"), "close");
        EXPECT_TRUE(client.sees_close());
    }
}

TEST(HttpServer, AnswersAClientThatHasClosedItsSide) {
    const auto server = start_server(
        [](HttpRequest, std::shared_ptr<HttpReply> reply) { reply->send(200, {}, std::string(3 << 20, 'x')); });
    RawClient client(server->port());
    client.send(get_root);
    client.half_close();
    EXPECT_TRUE(client.read_response().whole);
    EXPECT_TRUE(client.sees_close());
}

TEST(HttpServer, AnswersForAHandlerThatDoesNot) {
    const auto server = start_server([](HttpRequest request, std::shared_ptr<HttpReply>) {
        if (request.path == "/throw") throw std::runtime_error("secret");
    });
    RawClient client(server->port());
    for (const char* path : {"/drop", "/throw"}) {
        const RawResponse response = client.ask(post(path, ""));
        EXPECT_EQ(response.status, 500);
        EXPECT_EQ(response.headers.at("content-type"), "application/json");
        EXPECT_EQ(response.body,
                  "{\"error\":{\"message\":\"the request was not answered\",\"type\":\"server_error\"}}\n");
    }
}

TEST(HttpServer, AnswersForAHandlerThatThrowsAndKeepsTheReply) {
    Replies replies;
    const auto server = start_server([&](HttpRequest, std::shared_ptr<HttpReply> reply) {
        replies.put(std::move(reply));
        throw 1;
    });
    RawClient client(server->port());
    EXPECT_EQ(client.ask(get_root).status, 500);
    replies.take().value()->send(200, {}, "too late");
    EXPECT_EQ(client.ask(get_root).status, 500) << "not the late answer";
}

TEST(HttpServer, SendsTheFirstAnswerOnly) {
    const auto server = start_server([](HttpRequest, std::shared_ptr<HttpReply> reply) {
        EXPECT_FALSE(reply->write("before it has begun"));
        reply->finish();
        reply->send(200, {}, "first");
        reply->send(201, {}, "second");
        reply->begin(202, {});
        EXPECT_FALSE(reply->write("third"));
        reply->finish();
    });
    RawClient client(server->port());
    for (int i = 0; i < 2; ++i) EXPECT_EQ(client.ask(get_root).body, "first");
}

TEST(HttpServer, LetsNoHeaderValueBeginAnother) {
    const auto server = start_server([](HttpRequest, std::shared_ptr<HttpReply> reply) {
        reply->send(200, {{"X-Id", "a\r\nSet-Cookie: b"}, {"content-LENGTH", "99"}, {"Transfer-Encoding", "x"}},
                    "body");
    });
    RawClient client(server->port());
    const RawResponse response = client.ask(get_root);
    EXPECT_EQ(response.headers.at("x-id"), "a  Set-Cookie: b");
    EXPECT_FALSE(response.headers.contains("set-cookie"));
    EXPECT_FALSE(response.headers.contains("transfer-encoding"));
    EXPECT_EQ(response.body, "body");
    EXPECT_THAT(response.headers.at("date"), testing::MatchesRegex("..., .. ... .... ..:..:.. GMT"));
}

TEST(HttpServer, ServesManyClientsFromManyThreads) {
    const auto server = start_server(echo, {}, 4);
    std::vector<std::thread> clients;
    std::atomic<int> good{0};
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back([&, i] {
            RawClient client(server->port());
            for (int k = 0; k < 200; ++k) {
                const std::string body(static_cast<size_t>(i * 100 + k), 'x');
                if (client.ask(post("/", body)).body == "POST /? " + body) ++good;
            }
        });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(good, 1600);
}

TEST(HttpServer, SaysWhyItCannotListen) {
    const auto server = start_server(echo);
    const auto message = [](const std::string& host, uint16_t port, int threads) {
        auto other = HttpServer::start({.host = host, .port = port, .threads = threads, .limits = {}}, echo);
        return other.is_ok() ? std::string() : other.error().message;
    };
    const std::string taken = std::to_string(server->port());
    EXPECT_EQ(message("127.0.0.1", server->port(), 1),
              "HTTP server: cannot listen on 127.0.0.1:" + taken + ": Address already in use");
    EXPECT_EQ(message("256.0.0.1", 0, 1), "HTTP server: cannot listen on 256.0.0.1:0: no such address");
    EXPECT_EQ(message("", 0, 1), "HTTP server: host is empty, must be an address to listen on");
    EXPECT_EQ(message("127.0.0.1", 0, 0), "HTTP server: threads is 0, must be 1 to 256");
}

}  // namespace
}  // namespace rondo

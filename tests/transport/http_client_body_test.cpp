#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/transport/scripted_server.hpp"
#include "transport/http_client.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using testing::http_chunk;
using testing::ScriptedServer;
using Request = ScriptedServer::Request;
using Send = ScriptedServer::Send;

const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

HttpClient::Deadline soon() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

/// Gives the same bytes to every request: "/N" gets the first N of them by themselves, "/each" every one.
ScriptedServer::Handler cut(const std::string& bytes, bool keep) {
    return [bytes, keep](const Request& request, const Send& send) {
        const std::string where = request.head.substr(5, request.head.find(' ', 5) - 5);
        if (where != "each") {
            const size_t at = std::stoul(where);
            return send(bytes.substr(0, at)) && send(bytes.substr(at)) && keep;
        }
        for (const char byte : bytes) {
            if (!send({&byte, 1})) return false;
        }
        return keep;
    };
}

/// Every place where an answer can be cut, or a hundred of a long one; then all at once.
std::vector<std::string> places(const std::string& bytes) {
    std::vector<std::string> out = {"each"};
    for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 400) out.push_back(std::to_string(at));
    return out;
}

struct Good {
    std::string chunks, body;
};

TEST(HttpClientBody, IsRightWhereverTheAnswerIsCut) {
    const std::string long_one(20'000, 'x');
    const std::vector<Good> table = {
        {"0\r\n\r\n", ""},
        {"5\r\nhello\r\n0\r\n\r\n", "hello"},
        {"1\r\nh\r\n1\r\ne\r\n003;x=\"y\"\r\nllo\r\n000;z\r\n\r\n", "hello"},
        {"2\r\n\r\n\r\n3\r\n0\r\n\r\n0\r\n\r\n", "\r\n0\r\n"},
        {"5\r\nhello\r\n0\r\nTrailer: t\r\nContent-Length: 7\r\n\r\n", "hello"},
        {http_chunk(long_one) + http_chunk(long_one) + http_chunk(""), long_one + long_one},
    };
    for (const auto& [chunks, body] : table) {
        ScriptedServer server(cut(head + chunks, true));
        HttpClient client(Url::parse(server.url()).value());
        for (const std::string& place : places(head + chunks)) {
            const auto whole = client.request("GET", "/" + place, {}, "", soon());
            ASSERT_TRUE(whole) << whole.error().message << ", cut at " << place << " of\n" << chunks;
            EXPECT_EQ(whole->body, body) << "cut at " << place;
            std::string streamed;
            const auto stream = client.stream("GET", "/" + place, {}, "", soon(), [&](std::string_view piece) {
                streamed += piece;
                return true;
            });
            ASSERT_TRUE(stream) << stream.error().message << ", cut at " << place << " of\n" << chunks;
            EXPECT_EQ(streamed, body) << "cut at " << place;
        }
    }
}

struct Bad {
    std::string chunks;
    ErrorCode code;
};

TEST(HttpClientBody, IsAnErrorOfOneLineWhereverABadAnswerIsCut) {
    const std::string x(5000, 'x');
    const std::vector<Bad> table = {
        {"", ErrorCode::io},
        {"5\r\nhel", ErrorCode::io},
        {"3ffffff\r\nhello\r\n0\r\n\r\n", ErrorCode::io},  // a size that lies
        {"5\r\nhello\r\n", ErrorCode::io},
        {"5\r\nhello\r\n0\r\n", ErrorCode::io},
        {"0\r\n\r", ErrorCode::io},
        {"0\r\nTrailer: t\r\n", ErrorCode::io},
        {"3\r\nhello\r\n0\r\n\r\n", ErrorCode::corrupt},
        {"6\r\nhello\r\n0\r\n\r\n", ErrorCode::corrupt},
        {"\r\n\r\n", ErrorCode::corrupt},
        {"zz\r\n", ErrorCode::corrupt},
        {"-5\r\nhello\r\n", ErrorCode::corrupt},
        {"5\nhello\n0\n\n", ErrorCode::corrupt},
        {"0\r\nT: \x1b[2J\r\n\r\n", ErrorCode::corrupt},
        {"5;" + x + "\r\nhello\r\n0\r\n\r\n", ErrorCode::corrupt},
        {"0\r\nT: " + x + "\r\n\r\n", ErrorCode::corrupt},
        {std::string(5000, '0') + "\r\n\r\n", ErrorCode::corrupt},
        {"4000001\r\n", ErrorCode::out_of_range},
        {"ffffffffffffffff\r\n", ErrorCode::out_of_range},
        {"10000000000000005\r\nhello\r\n0\r\n\r\n", ErrorCode::out_of_range},
    };
    for (const auto& [chunks, code] : table) {
        ScriptedServer server(cut(head + chunks, false));
        HttpClient client(Url::parse(server.url()).value());
        for (const std::string& place : places(head + chunks)) {
            const auto response = client.request("GET", "/" + place, {}, "", soon());
            ASSERT_FALSE(response) << "cut at " << place << " of\n" << chunks.substr(0, 100);
            EXPECT_EQ(response.error().code, code) << "cut at " << place << " of\n" << chunks.substr(0, 100);
            EXPECT_EQ(response.error().message.find_first_of("\r\n\x1b"), std::string::npos);
            EXPECT_THAT(response.error().message, HasSubstr(server.url()));
        }
    }
}

/// Trailing bytes would be taken for the next answer.
TEST(HttpClientBody, AConnectionWithBytesLeftIsNotUsedAgain) {
    ScriptedServer server([](const Request& request, const Send& send) {
        const std::string body = std::to_string(request.connection);
        return send(head + http_chunk(body) + http_chunk("") + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake");
    });
    HttpClient client(Url::parse(server.url()).value());
    for (const char* connection : {"0", "1"}) EXPECT_EQ(client.request("GET", "/", {}, "", soon())->body, connection);
}

TEST(HttpClientBody, TheCallerCanStopWithinAChunk) {
    ScriptedServer server([](const Request&, const Send& send) {
        send(head + "3ffffff\r\n");
        while (send("more")) {
        }
        return false;
    });
    HttpClient client(Url::parse(server.url()).value());
    size_t bytes = 0;
    const auto response = client.stream("GET", "/", {}, "", soon(), [&](std::string_view piece) {
        bytes += piece.size();
        return bytes < 100;
    });
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace rondo

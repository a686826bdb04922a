#include "transport/http_server_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {
namespace {

using State = HttpRequestReader::State;

constexpr HttpLimits small_limits{.header_bytes_max = 256, .body_bytes_max = 32};

/// A reader that was given `bytes` in pieces of `step`, as a connection gives them.
struct Reading {
    explicit Reading(std::string_view bytes, size_t step = std::string::npos, const HttpLimits& limits = small_limits)
        : reader(limits) {
        std::string waiting;
        while (!bytes.empty() && (reader.state() == State::header || reader.state() == State::body)) {
            const size_t count = std::min(step, bytes.size());
            waiting += bytes.substr(0, count);
            bytes.remove_prefix(count);
            waiting.erase(0, reader.take(waiting));
        }
        left = waiting.size() + bytes.size();
        if (reader.state() == State::done) request = reader.release();
    }

    HttpRequestReader reader;
    HttpRequest request;
    size_t left = 0;
};

std::string with_fields(const std::string& fields, const std::string& rest = "") {
    return "POST / HTTP/1.1\r\nHost: t\r\n" + fields + "\r\n" + rest;
}

TEST(HttpRequestReader, GivesEveryPartOfARequest) {
    const Reading read(
        "PUT /a%20b/c?x=%201&y HTTP/1.1\r\nHOST: t\r\nX-Two:  a, b \r\nContent-Length: 5\r\n\r\nhellonext");
    ASSERT_EQ(read.reader.state(), State::done);
    EXPECT_EQ(read.request.method, "PUT");
    EXPECT_EQ(read.request.path, "/a b/c");
    EXPECT_EQ(read.request.query, "x=%201&y");
    EXPECT_EQ(read.request.header("host"), "t");
    EXPECT_EQ(read.request.header("x-two"), "a, b");
    EXPECT_EQ(read.request.header("absent"), "");
    EXPECT_EQ(read.request.body, "hello");
    EXPECT_EQ(read.left, 4u);
    EXPECT_TRUE(read.reader.keeps_alive());
}

TEST(HttpRequestReader, ReadsTheSameHoweverTheBytesAreCut) {
    const std::vector<std::string> requests = {
        with_fields("Content-Length: 11\r\n", "hello world"),
        with_fields("Transfer-Encoding: Chunked\r\n", "5;x=\"y\"\r\nhello\r\n006\r\n world\r\n0\r\nTrailer: t\r\n\r\n"),
        "\r\n\r\n" + with_fields("Content-Length: 11\r\n", "hello world"),
    };
    for (const std::string& bytes : requests) {
        for (size_t step = 1; step <= bytes.size(); ++step) {
            const Reading read(bytes + "GET", step);
            ASSERT_EQ(read.reader.state(), State::done) << bytes << " in pieces of " << step;
            EXPECT_EQ(read.request.body, "hello world");
            EXPECT_EQ(read.request.headers.size(), 2u) << "a trailer is no header";
            EXPECT_EQ(read.left, 3u);
        }
    }
}

// Beast 1.74 ends the process on this one, when it is built with assertions.
TEST(HttpRequestReader, ReadsAnEmptyChunkedBodyByteByByte) {
    const Reading read(with_fields("Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), 1);
    EXPECT_EQ(read.reader.state(), State::done);
    EXPECT_EQ(read.request.body, "");
}

TEST(HttpRequestReader, TellsWhoWantsToBeKept) {
    EXPECT_TRUE(Reading("GET / HTTP/1.1\r\nHost: t\r\n\r\n").reader.keeps_alive());
    EXPECT_FALSE(Reading("GET / HTTP/1.1\r\nHost: t\r\nConnection: Close\r\n\r\n").reader.keeps_alive());
    EXPECT_FALSE(Reading("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").reader.keeps_alive());
    EXPECT_FALSE(Reading("GET / HTTP/1.0\r\n\r\n").reader.is_http11());
}

TEST(HttpRequestReader, DecodesThePathButKeepsSegmentsApart) {
    const auto path_of = [](const std::string& target) {
        return Reading("GET " + target + " HTTP/1.1\r\nHost: t\r\n\r\n").request.path;
    };
    EXPECT_EQ(path_of("/v1/sessions/%C3%a4"), "/v1/sessions/\xc3\xa4");
    EXPECT_EQ(path_of("/a%2fb%2F"), "/a%2Fb%2F");
    EXPECT_EQ(path_of("/%2e%2e/x"), "/../x");
    EXPECT_EQ(path_of("/%2500"), "/%2500");
    EXPECT_EQ(path_of("/a%252fb%25"), "/a%252fb%25") << "not the same as an encoded slash";
    EXPECT_EQ(path_of("http://host:80/a?b"), "/a");
}

struct Refused {
    std::string bytes;
    int status;
};

TEST(HttpRequestReader, RefusesWhatIsMalformed) {
    const std::vector<Refused> table = {
        {"GE T / HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"(GET) / HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {" GET / HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET x HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET * HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET  HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /\xc3\xa4 HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"CONNECT host:80 HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET http://host HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: t\r\n\r\n", 400},
        {"GET / HTTP/1.1x\r\nHost: t\r\n\r\n", 400},
        {"GET / FTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /% HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /%4 HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /%zz HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /%00 HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /%0a HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET /%7f HTTP/1.1\r\nHost: t\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: t\r\nHost: u\r\n\r\n", 400},
        {with_fields("No colon\r\n"), 400},
        {with_fields(": no name\r\n"), 400},
        {with_fields("Expect: a miracle\r\n"), 417},
        {std::string("\x16\x03\x01\x02", 4), 400},  // a TLS hello
        {with_fields(std::string("A: \0\r\n", 6)), 400},
        {with_fields("A: \x1b[0m\r\n"), 400},
    };
    for (const auto& [bytes, status] : table) {
        const Reading read(bytes);
        ASSERT_EQ(read.reader.state(), State::refused) << bytes;
        EXPECT_EQ(read.reader.refusal().status, status) << bytes;
    }
}

// Servers in a chain have read each of these differently (RFC 9112, section 11.2).
TEST(HttpRequestReader, RefusesWhatCouldSmuggleARequest) {
    const std::vector<std::string> table = {
        "GET / HTTP/1.1\nHost: t\n\n",
        "GET / HTTP/1.1\r\nHost: t\n\r\n",
        "GET / HTTP/1.1\r\nHost: t\rX: y\r\n\r\n",
        with_fields("A: b\r\n c\r\n"),
        with_fields("A: b\r\n\tc\r\n"),
        with_fields("Content-Length : 3\r\n"),
        with_fields("Content-Length: 3\r\nContent-Length: 4\r\n"),
        with_fields("Content-Length: 3\r\nContent-Length: 3\r\n"),
        with_fields("Content-Length: 3, 3\r\n"),
        with_fields("Content-Length: +3\r\n"),
        with_fields("Content-Length: -3\r\n"),
        with_fields("Content-Length: 0x3\r\n"),
        with_fields("Content-Length: 3 3\r\n"),
        with_fields("Content-Length:\r\n"),
        with_fields("Content-Length: 18446744073709551616\r\n"),
        with_fields("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
        with_fields("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"),
        with_fields("Transfer-Encoding: gzip\r\nContent-Length: 3\r\n"),
        with_fields("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        with_fields("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"),
        with_fields("Transfer-Encoding: gzip, chunked\r\n"),
        with_fields("Transfer-Encoding: chunked, gzip\r\n"),
        with_fields("Transfer-Encoding: chunked;q=1\r\n"),
        with_fields("Transfer-Encoding: xchunked\r\n"),
        with_fields("Transfer-Encoding: \x0b"
                    "chunked\r\n"),
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    };
    for (const std::string& bytes : table) {
        for (const size_t step : {size_t{1}, bytes.size()}) {
            const Reading read(bytes, step);
            ASSERT_EQ(read.reader.state(), State::refused) << bytes;
            EXPECT_EQ(read.reader.refusal().status, 400) << bytes;
        }
    }
}

TEST(HttpRequestReader, RefusesMalformedChunks) {
    const std::vector<Refused> table = {
        {"x\r\n", 400},
        {"\r\n", 400},
        {"5\nhello\n0\n\n", 400},
        {"5\r\nhelloX", 400},
        {"5 \r\n", 400},
        {"-5\r\n", 400},
        {"0x5\r\n", 400},
        {"5\r\nhello\r0", 400},
        {"5;a\nb\r\n", 400},
        {"0\r\nA: \x01", 400},
        {"0\r\nA: b\rX", 400},
        {"0\r\n\rX", 400},
        {"21\r\n", 413},
        {"fffffffff\r\n", 413},
        {"ffffffffffffffffff\r\n", 413},
        {"5;" + std::string(5000, 'x'), 400},
        {"0\r\n" + std::string(5000, 'x'), 400},
        {std::string(5000, '0'), 400},
    };
    for (const auto& [bytes, status] : table) {
        const Reading read(with_fields("Transfer-Encoding: chunked\r\n", bytes));
        ASSERT_EQ(read.reader.state(), State::refused) << bytes;
        EXPECT_EQ(read.reader.refusal().status, status) << bytes;
    }
}

TEST(HttpRequestReader, BoundsHeaderAndBody) {
    const std::string start = "GET / HTTP/1.1\r\nHost: t\r\nA: ";
    const std::string fits = start + std::string(256 - start.size() - 4, 'x') + "\r\n\r\n";
    ASSERT_EQ(fits.size(), 256u);
    EXPECT_EQ(Reading(fits).reader.state(), State::done);
    EXPECT_EQ(Reading(start + 'x' + fits.substr(start.size())).reader.refusal().status, 431);
    EXPECT_EQ(Reading(start + std::string(1000, 'x')).reader.refusal().status, 431) << "before its end is seen";

    EXPECT_EQ(Reading(with_fields("Content-Length: 32\r\n", std::string(32, 'x'))).request.body.size(), 32u);
    EXPECT_EQ(Reading(with_fields("Content-Length: 33\r\n")).reader.refusal().status, 413);
    const std::string half = "10\r\n" + std::string(16, 'x') + "\r\n";
    const std::string chunked = "Transfer-Encoding: chunked\r\n";
    EXPECT_EQ(Reading(with_fields(chunked, half + half + "0\r\n\r\n")).request.body.size(), 32u);
    EXPECT_EQ(Reading(with_fields(chunked, half + half + "1\r\n")).reader.refusal().status, 413);
}

TEST(HttpRequestReader, NeverRepeatsWhatWasSentInARefusal) {
    for (const char* bytes : {"GET /%zzsecret HTTP/1.1\r\nHost: t\r\n\r\n", "secret\r\n\r\n",
                              "GET / HTTP/1.1\r\nsecret\r\n\r\n", "GET / HTTP/1.1\r\nExpect: secret\r\n\r\n"})
        EXPECT_THAT(Reading(bytes).reader.refusal().message, testing::Not(testing::HasSubstr("secret")));
}

TEST(HttpRequestReader, TakesMutatedRequestsTheSameWholeAndInPieces) {
    std::mt19937 random(20261121);
    const std::string chunked =
        with_fields("Transfer-Encoding: chunked\r\n", "5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nT: u\r\n\r\n");
    const std::string plain = "GET /a%20b?c HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nbody";
    using namespace std::string_view_literals;
    constexpr std::string_view interesting = "\r\n \t:;,%0fF\0\x7f\xff/"sv;
    for (int round = 0; round < 20'000; ++round) {
        std::string bytes = round % 2 == 0 ? chunked : plain;
        for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
            const size_t at = random() % bytes.size();
            const char c = interesting[random() % interesting.size()];
            if (random() % 3 == 0)
                bytes.erase(at, 1);
            else if (random() % 2 == 0)
                bytes[at] = c;
            else
                bytes.insert(at, 1, c);
        }
        const Reading whole(bytes);
        const Reading pieces(bytes, 1 + random() % 7);
        ASSERT_EQ(whole.reader.state(), pieces.reader.state()) << bytes;
        ASSERT_EQ(whole.request.body, pieces.request.body) << bytes;
        ASSERT_EQ(whole.reader.refusal().message, pieces.reader.refusal().message) << bytes;
    }
}

}  // namespace
}  // namespace rondo

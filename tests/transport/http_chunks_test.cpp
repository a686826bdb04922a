#include "transport/http_chunks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {
namespace {

using State = HttpChunks::State;

constexpr size_t bytes_max = 64;
constexpr size_t line_bytes_max = 4096;

struct Taken {
    State state = State::more;
    std::string body;
    size_t used = 0;
};

/// Gives `bytes` in pieces of `step`, the first of them `first` long.
Taken take(std::string_view bytes, size_t first, size_t step, size_t limit = bytes_max) {
    HttpChunks chunks(limit);
    Taken taken;
    for (size_t count = first; taken.used < bytes.size() && chunks.state() == State::more; count = step) {
        const size_t used = chunks.take(bytes.substr(taken.used, count), taken.body);
        taken.used += used;
        if (used < count) break;
    }
    taken.state = chunks.state();
    return taken;
}

Taken take(std::string_view bytes, size_t limit = bytes_max) {
    return take(bytes, bytes.size(), 1, limit);
}

struct Layout {
    std::string bytes, body;
};

TEST(HttpChunks, GiveTheSameBodyWhereverTheBytesAreCut) {
    const std::vector<Layout> layouts = {
        {"0\r\n\r\n", ""},
        {"000\r\n\r\n", ""},
        {"0;a=b\r\nTrailer: t\r\nAnother: u\r\n\r\n", ""},
        {"5\r\nhello\r\n0\r\n\r\n", "hello"},
        {"1\r\nh\r\n1\r\ne\r\n3\r\nllo\r\n0\r\n\r\n", "hello"},
        {"0005;name=\"value\"\r\nhello\r\n0\r\n\r\n", "hello"},
        {"A\r\n0123456789\r\nb\r\n0123456789A\r\n0\r\n\r\n", "01234567890123456789A"},
        {"2\r\n\r\n\r\n3\r\n0\r\n\r\n0\r\n\r\n", "\r\n0\r\n"},
    };
    for (const auto& [bytes, body] : layouts) {
        const std::string more = bytes + "HTTP/1.1";
        for (size_t first = 1; first <= more.size(); ++first) {
            for (const size_t step : {size_t{1}, more.size()}) {
                const Taken taken = take(more, first, step);
                ASSERT_EQ(taken.state, State::done) << bytes << " cut at " << first;
                EXPECT_EQ(taken.body, body) << bytes << " cut at " << first;
                EXPECT_EQ(taken.used, bytes.size()) << "what follows belongs to somebody else";
            }
        }
    }
}

TEST(HttpChunks, AreNotOverBeforeTheirEnd) {
    const std::string bytes = "5;x\r\nhello\r\n0\r\nTrailer: t\r\n\r\n";
    for (size_t count = 0; count < bytes.size(); ++count) {
        EXPECT_EQ(take(bytes.substr(0, count)).state, State::more) << count;
    }
}

TEST(HttpChunks, AreRefusedAlikeWhereverTheBytesAreCut) {
    using namespace std::string_literals;
    const std::vector<std::string> malformed = {
        "\r\n",         "x\r\n",         "-1\r\n",     "+1\r\n",         "0x1\r\n",
        " 1\r\n",       "1 \r\n",        "1\nh\n",     "5\r\nhello0",    "3\r\nhello\r\n",
        "5\r\nhello\n", "5\r\nhello\r0", "5;a\nb\r\n", "5;a\x1b[2J\r\n", "5;\0\r\n"s,
        "0\r\nT: \x7f", "0\r\nT\rx",     "0\r\n\rx",   "0\r\nT: u\n\n",  "0\r\n\r\r\n\r\n",
    };
    for (const std::string& bytes : malformed) {
        for (size_t first = 1; first <= bytes.size(); ++first) {
            EXPECT_EQ(take(bytes, first, 1).state, State::malformed) << bytes << " cut at " << first;
        }
    }
}

TEST(HttpChunks, BoundTheBodyBeforeItIsThere) {
    EXPECT_EQ(take("40\r\n").state, State::more);
    EXPECT_EQ(take("41\r\n").state, State::too_large);
    EXPECT_EQ(take("20\r\n" + std::string(32, 'x') + "\r\n20\r\n").state, State::more);
    EXPECT_EQ(take("20\r\n" + std::string(32, 'x') + "\r\n21\r\n").state, State::too_large);
    EXPECT_EQ(take("1\r\n", 0).state, State::too_large);
    EXPECT_EQ(take("0\r\n\r\n", 0).state, State::done);
    EXPECT_EQ(take("ffffffffffffffff\r\n", SIZE_MAX).state, State::more);
    EXPECT_EQ(take("10000000000000000\r\n", SIZE_MAX).state, State::too_large) << "and not 0, as 64 bits have it";
    EXPECT_EQ(take(std::string(100, 'f') + "\r\n", SIZE_MAX).state, State::too_large);
}

TEST(HttpChunks, BoundEachSizeLineAndAllTrailersTogether) {
    const auto size_line = [](size_t bytes) { return "1;" + std::string(bytes - 4, 'x') + "\r\n"; };
    EXPECT_EQ(take(size_line(line_bytes_max) + "a\r\n" + size_line(line_bytes_max)).state, State::more);
    EXPECT_EQ(take(size_line(line_bytes_max + 1)).state, State::malformed);
    EXPECT_EQ(take(std::string(line_bytes_max + 1, '0')).state, State::malformed);
    const std::string half = "T: " + std::string(line_bytes_max / 2 - 5, 'x') + "\r\n";
    EXPECT_EQ(take("0\r\n" + half + half.substr(2) + "\r\n").state, State::done);
    EXPECT_EQ(take("0\r\n" + half + half + "\r\n").state, State::malformed);
}

}  // namespace
}  // namespace rondo

#include "transport/sse_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Events = std::vector<std::pair<std::string, std::string>>;  // name, data

Events read_pieces(const std::vector<std::string_view>& pieces) {
    Events events;
    SseReader reader;
    for (const std::string_view piece : pieces) {
        const Status status =
            reader.read(piece, [&](const SseEvent& event) { events.emplace_back(event.name, event.data); });
        EXPECT_TRUE(status.is_ok());
    }
    return events;
}

TEST(SseReader, ReadsFieldsAsTheStandardHasThem) {
    EXPECT_THAT(read_pieces({"data: a\n\n"}), ElementsAre(Pair("", "a")));
    EXPECT_THAT(read_pieces({"data:a\n\ndata:  b\n\n"}), ElementsAre(Pair("", "a"), Pair("", " b")));
    EXPECT_THAT(read_pieces({"event: x\nid: 7\nretry: 9\ndata: a\ndata\ndata: b\n\n"}),
                ElementsAre(Pair("x", "a\n\nb")));
    EXPECT_THAT(read_pieces({"event: x\n\ndata: a\n\n"}), ElementsAre(Pair("", "a")));
    EXPECT_THAT(read_pieces({": a comment\n\n:\n\ndata\n\n"}), ElementsAre(Pair("", "")));
    EXPECT_THAT(read_pieces({"data: never ended\n"}), IsEmpty());
    EXPECT_THAT(read_pieces({"database: a\nDATA: b\n\n"}), IsEmpty());
}

TEST(SseReader, EventsDoNotDependOnWhereTheStreamIsCut) {
    const std::string text =
        "\xef\xbb\xbf"
        "data: one\n\n: ping\r\n\r\nevent: e\r\ndata: t\xc3\xa4w\r\ndata:o\r\n\r\rdata: three\r\rdata: \n\n\ndata: x";
    const Events whole = read_pieces({text});
    ASSERT_THAT(whole, ElementsAre(Pair("", "one"), Pair("e", "t\xc3\xa4w\no"), Pair("", "three"), Pair("", "")));
    const std::string_view view = text;
    for (size_t first = 0; first <= text.size(); ++first) {
        for (size_t second = first; second <= text.size(); ++second) {
            EXPECT_EQ(read_pieces({view.substr(0, first), view.substr(first, second - first), view.substr(second)}),
                      whole)
                << first << ", " << second;
        }
    }
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < text.size(); ++i) bytes.push_back(view.substr(i, 1));
    EXPECT_EQ(read_pieces(bytes), whole);
}

TEST(SseReader, EventsHaveABound) {
    const auto read_all = [](SseReader& reader, const std::string& line, int times) {
        for (int i = 0; i < times; ++i) {
            const Status status = reader.read(line, [](const SseEvent&) {});
            if (!status) return status;
        }
        return Status::ok();
    };
    for (const char* line : {"data: 0123456789\n", "endless", "event: 0123456789", "data\n", ":comment "}) {
        SseReader reader(1000);
        const Status status = read_all(reader, line, 2000);
        ASSERT_FALSE(status.is_ok()) << line;
        EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
        EXPECT_NE(status.error().message.find("has more than 1000 bytes, must be at most 1000"), std::string::npos);
    }
    SseReader reader(1000);
    EXPECT_TRUE(read_all(reader, "data: 0123456789\n\n: comment\n", 2000).is_ok());
}

}  // namespace
}  // namespace rondo

#include <gtest/gtest.h>

#include "cli/measure/eval/line_overlap.hpp"

namespace rondo::cli::eval {
namespace {

ChunkShape chunk_at(int64_t first_row) {
    return {.first_row = first_row, .rows = 16, .block_begin = {}};
}

std::vector<Lines> columns(std::vector<std::vector<int32_t>> by_head) {
    std::vector<Lines> lines(by_head.size());
    for (size_t head = 0; head < lines.size(); ++head) lines[head].columns = std::move(by_head[head]);
    return lines;
}

TEST(LineOverlap, CountsColumnsAtEarlierKeysThatTheRoundBeforeHadToo) {
    LineOverlap overlap;
    overlap.begin_round();
    overlap.add(0, chunk_at(0), columns({{0, 3}, {1}}));
    EXPECT_FALSE(overlap.share().has_value());  // there was no round before
    overlap.begin_round();
    overlap.add(0, chunk_at(16), columns({{0, 5, 17}, {2}}));  // 1 of 2 and 0 of 1; key 17 is of this round
    ASSERT_TRUE(overlap.share().has_value());
    EXPECT_DOUBLE_EQ(*overlap.share(), 1.0 / 3.0);
}

TEST(LineOverlap, ARoundsChunksAreOneChoice) {
    LineOverlap overlap;
    overlap.begin_round();
    overlap.add(0, chunk_at(0), columns({{0}}));
    overlap.add(0, chunk_at(16), columns({{4}}));
    overlap.add(1, chunk_at(16), columns({{9}}));
    overlap.begin_round();
    overlap.add(0, chunk_at(32), columns({{0, 4}}));
    overlap.add(1, chunk_at(32), columns({{4}}));
    overlap.add(0, chunk_at(48), columns({{33}}));  // another chunk's key, but this round's
    EXPECT_DOUBLE_EQ(*overlap.share(), 2.0 / 3.0);
}

TEST(LineOverlap, ARoundWithoutLinesIsNoneToCompareWith) {
    LineOverlap overlap;
    overlap.begin_round();
    overlap.add(0, chunk_at(0), columns({{0}}));
    overlap.begin_round();  // too short for lines
    overlap.begin_round();
    overlap.add(0, chunk_at(40), columns({{0}}));
    EXPECT_FALSE(overlap.share().has_value());
}

}  // namespace
}  // namespace rondo::cli::eval

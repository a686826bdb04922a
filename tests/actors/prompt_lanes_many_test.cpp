// Ten thousand prompts on lanes of every shape, at random.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "actors/prompt_lanes.hpp"

namespace rondo {
namespace {

using After = PromptLanes::After;

struct Shape {
    size_t lanes, for_prompts;
};

class Lanes : public ::testing::TestWithParam<Shape> {};

/// Whatever comes, each prompt leaves exactly once, all its chunks are computed on one device, and a device is given no
/// more open chunks than it can hold.
TEST_P(Lanes, TenThousandPromptsLeaveOnceEach) {
    const auto [lane_count, for_prompts] = GetParam();
    for (uint64_t seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        const auto roll = [&](uint64_t sides) { return random() % sides; };
        PromptLanes lanes(
            {.lanes = lane_count, .for_prompts = for_prompts, .beside_decode_tokens_max = 300, .open_max = 3});
        std::map<uint64_t, int64_t> missing;
        std::map<uint64_t, size_t> begun_on;
        std::vector<std::optional<PromptLanes::Piece>> busy(lane_count);
        std::vector<std::set<uint64_t>> open(lane_count);
        uint64_t came = 0, left = 0;
        const auto leave = [&](uint64_t id) {
            EXPECT_EQ(missing.erase(id), 1U);
            ++left;
        };
        while (came < 10'000 || !missing.empty()) {
            ASSERT_FALSE(HasFailure());
            const size_t lane = roll(lane_count);
            if (came < 10'000 && missing.size() < 100 && roll(4) == 0) {
                missing[++came] = 1 + static_cast<int64_t>(roll(1000));
                lanes.add(came, static_cast<int>(roll(3)), missing[came]);
            } else if (!missing.empty() && roll(10) == 0) {
                auto at = missing.lower_bound(roll(came) + 1);
                if (at == missing.end()) at = missing.begin();
                const uint64_t id = at->first;
                if (lanes.withdraw(id) == After::leaves) leave(id);
            } else if (!busy[lane]) {
                busy[lane] = lanes.begin(lane);
                if (busy[lane]) {
                    EXPECT_EQ(begun_on.emplace(busy[lane]->id, lane).first->second, lane);
                }
            } else {
                const PromptLanes::Piece piece = *std::exchange(busy[lane], std::nullopt);
                PromptLanes::Done done{.seconds = 0.001};
                done.failed = roll(20) == 0;
                done.open = !piece.drop && !done.failed && roll(2) == 0;
                if (!piece.drop && !done.open && !done.failed) {
                    done.tokens = std::min<int64_t>(missing.at(piece.id), 256);
                    missing.at(piece.id) -= done.tokens;
                    done.complete = missing.at(piece.id) == 0;
                }
                if (done.open) {
                    open[lane].insert(piece.id);
                } else {
                    open[lane].erase(piece.id);
                }
                EXPECT_LE(open[lane].size(), 3U);
                if (lanes.end(lane, done) == After::leaves) leave(piece.id);
            }
        }
        EXPECT_EQ(left, 10'000U);
        for (size_t lane = 0; lane < lane_count; ++lane) {
            EXPECT_EQ(lanes.tokens(lane), 0);
            EXPECT_FALSE(lanes.begin(lane));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Lanes,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{2, 2}, Shape{3, 2}, Shape{3, 3}));

}  // namespace
}  // namespace rondo

#include "model/attention/policies/prefill_sparsity/line_sums.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/model/sampled_attention.hpp"

namespace rondo {
namespace {

using testing::sampled_attention;
using testing::SampledAttention;

/// Every line's entries and mass, counted entry by entry.
void expect_sums(const SampledAttention& made) {
    const size_t blocks = made.block_begin.size() - 1;
    std::vector<double> mass(blocks + static_cast<size_t>(made.keys())), entries(mass.size());
    for (size_t row = 0; row < made.rows.size(); ++row) {
        for (int64_t key = 0; key <= made.key_of(row); ++key) {
            const auto band = static_cast<size_t>(made.block_of(made.key_of(row)) - made.block_of(key));
            for (const size_t line : {band, blocks + static_cast<size_t>(key)}) {
                mass[line] += made.weight(row, key);
                entries[line] += 1.0;
            }
        }
    }
    LineSums sums;
    for (int again = 0; again < 2; ++again) {
        ASSERT_TRUE(sums.add_up(made.chunk(), made.sampled()));
        ASSERT_EQ(sums.mass.size(), mass.size());
        for (size_t line = 0; line < mass.size(); ++line) {
            EXPECT_NEAR(sums.mass[line], mass[line], 1e-5) << "line " << line;
            EXPECT_EQ(sums.entries[line], entries[line]) << "line " << line;
        }
        ASSERT_EQ(sums.row_totals.size(), made.rows.size());
        for (const double total : sums.row_totals) EXPECT_NEAR(total, 1.0, 1e-5);
        EXPECT_NEAR(sums.total, made.total(), 1e-4);
    }
}

TEST(LineSums, AreThoseOfEveryEntry) {
    uint32_t seed = 0;
    for (const int sampled : {1, 2, 3, 4, 5, 8, 11, 64}) {
        for (const int width : {1, 3, 16}) {
            for (const int64_t first_row : {0, 70}) {
                SCOPED_TRACE(std::to_string(sampled) + " rows, blocks of " + std::to_string(width));
                expect_sums(sampled_attention({first_row, 90, sampled, true, width}, testing::Pattern::peaked, ++seed));
            }
        }
    }
}

TEST(LineSums, AreRefusedOfWhatIsNoNumber) {
    SampledAttention made = sampled_attention({32, 64, 6, true, 16}, testing::Pattern::peaked, 1);
    made.weights[made.weights.size() / 2 / static_cast<size_t>(made.keys()) * static_cast<size_t>(made.keys())] =
        std::numeric_limits<float>::quiet_NaN();
    LineSums sums;
    EXPECT_FALSE(sums.add_up(made.chunk(), made.sampled()));
}

}  // namespace
}  // namespace rondo

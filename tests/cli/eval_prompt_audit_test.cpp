#include <gtest/gtest.h>

#include "cli/measure/eval/prompt_audit.hpp"

namespace rondo::cli::eval {
namespace {

/// Keys 0 to 31 in two blocks; the chunk is the second, and each row of it looks at key 3, key 5 and itself.
class PromptAuditOf : public ::testing::Test {
protected:
    static constexpr int32_t rows = 16, keys = 32;

    PromptAuditOf() {
        for (int32_t row = 0; row < rows; ++row) {
            rows_.push_back(row);
            float* const weights = weights_.data() + row * keys;
            weights[3] = 0.5F;
            weights[5] = 0.25F;
            weights[16 + row] = 0.25F;
        }
        lines_.columns = {3};
        lines_.bands = {0};
    }
    void add(PromptAudit& audit, std::vector<int32_t> sampled) {
        audit.add({.first_row = 16, .rows = rows, .block_begin = block_begin_}, {.rows = rows_, .weights = weights_},
                  sampled, lines_);
    }

    std::vector<int32_t> block_begin_ = {0, 16, 32}, rows_;
    std::vector<float> weights_ = std::vector<float>(size_t{rows} * keys);
    Lines lines_;
};

TEST_F(PromptAuditOf, TellsSampledRowsFromOthers) {
    PromptAudit audit({}, 0);
    add(audit, {2, 15});
    EXPECT_DOUBLE_EQ(audit.of_sampled().value(), 0.75);
    EXPECT_DOUBLE_EQ(audit.of_others().value(), 0.75);
    lines_.dense_rows = 1;  // the last
    add(audit, {15});
    EXPECT_DOUBLE_EQ(audit.of_sampled().value(), (2 * 0.75 + 1.0) / 3);
    EXPECT_DOUBLE_EQ(audit.of_others().value(), 0.75);
    EXPECT_FALSE(audit.of_evidence().has_value());
}

TEST_F(PromptAuditOf, CountsEvidenceForTheQuestionsRows) {
    PromptAudit audit({{2, 6}}, 30);
    add(audit, {});
    EXPECT_FALSE(audit.of_sampled().has_value());
    EXPECT_DOUBLE_EQ(audit.of_evidence().value(), 0.5 / 0.75);
    lines_.dense_rows = 1;  // one of the question's two rows
    PromptAudit other({{2, 6}}, 30);
    add(other, {});
    EXPECT_DOUBLE_EQ(other.of_evidence().value(), (0.5 + 0.75) / 1.5);
}

}  // namespace
}  // namespace rondo::cli::eval

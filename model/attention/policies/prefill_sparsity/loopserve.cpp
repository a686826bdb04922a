#include "model/attention/policies/prefill_sparsity/loopserve.hpp"

#include "model/attention/policies/prefill_sparsity/dense_lines.hpp"
#include "model/attention/policies/prefill_sparsity/methods.hpp"

namespace rondo {
namespace {

constexpr int rows_of_long_chunks = 64, all_rows_max = 256;

/// Chooses columns and bands online, for each head and chunk, until they hold a share alpha of what rows spread over
/// the chunk attend to. Few rows of a short chunk miss what the others look at, so there all rows are looked at.
class LoopServe final : public PrefillSparsity {
public:
    explicit LoopServe(const PrefillAttention& settings) : settings_(settings) {}

    Sampling sampling() const override {
        if (wants_all()) return {};
        const bool by_chunk = settings_.sample_rows == 0;
        return {.rows = by_chunk ? rows_of_long_chunks : settings_.sample_rows,
                .all_up_to = by_chunk ? all_rows_max : 0,
                .spread = true,
                .blocks = settings_.blocks > 0};
    }

    void select(const ChunkShape& chunk, const SampledRows& sampled, Lines& lines) const override {
        if (wants_all()) {
            return choose_dense_lines(chunk, lines);
        } else if (settings_.overlap == PrefillAttention::Overlap::exact) {
            choose_exact_lines(chunk, sampled, settings_, lines);
        } else {
            choose_literal_lines(chunk, sampled, settings_.alpha, lines);
        }
        if (settings_.blocks > 0 && !add_best_blocks(chunk, sampled.block_scores, settings_.blocks, lines))
            choose_dense_lines(chunk, lines);
    }

private:
    /// All of the attention is every entry: lines that hold all that a sample shows could miss some of the other rows'.
    bool wants_all() const { return settings_.alpha >= 1.0; }

    const PrefillAttention settings_;
};

}  // namespace

std::unique_ptr<PrefillSparsity> make_loopserve(const PrefillAttention& settings, HeadPatterns) {
    return std::make_unique<LoopServe>(settings);
}

}  // namespace rondo

#include "model/policies/prefill_sparsity/loopserve.hpp"

#include "model/policies/prefill_sparsity/dense_lines.hpp"
#include "model/policies/prefill_sparsity/methods.hpp"

namespace rondo {
namespace {

/// Chooses columns and bands online, for each head and chunk, until they hold a share alpha of what rows spread over
/// the chunk attend to.
class LoopServe final : public PrefillSparsity {
public:
    explicit LoopServe(const PrefillAttention& settings) : settings_(settings) {}

    Sampling sampling() const override { return {.rows = wants_all() ? 0 : settings_.sample_rows, .spread = true}; }

    void select(const ChunkShape& chunk, const SampledRows& sampled, Lines& lines) const override {
        if (wants_all()) {
            choose_dense_lines(chunk, lines);
        } else if (settings_.overlap == PrefillAttention::Overlap::exact) {
            choose_exact_lines(chunk, sampled, settings_.alpha, settings_.alpha_of, lines);
        } else {
            choose_literal_lines(chunk, sampled, settings_.alpha, lines);
        }
    }

private:
    /// All of the attention is every entry: lines that hold all that a sample shows could miss some of the other rows'.
    bool wants_all() const { return settings_.alpha >= 1.0; }

    const PrefillAttention settings_;
};

}  // namespace

std::unique_ptr<PrefillSparsity> make_loopserve(const PrefillAttention& settings) {
    return std::make_unique<LoopServe>(settings);
}

}  // namespace rondo

#include "cli/measure/eval/prompt_audit.hpp"

#include <algorithm>

#include "model/attention/policies/prefill_sparsity/line_sums.hpp"

namespace rondo::cli::eval {

void PromptAudit::Held::add(double weight, bool attended) {
    total += weight;
    if (attended) held += weight;
}

std::optional<double> PromptAudit::share(Held OfHead::*part) const {
    double held = 0.0, total = 0.0;
    for (const auto& [head, of_head] : heads_) {
        held += (of_head.*part).held;
        total += (of_head.*part).total;
    }
    if (total <= 0.0) return std::nullopt;
    return held / total;
}

void PromptAudit::add(const ChunkShape& chunk, const SampledRows& all, std::span<const int32_t> sampled,
                      const Lines& lines) {
    const std::lock_guard lock(mutex_);
    OfHead& of_head = heads_[all.head];
    for (size_t r = 0; r < all.rows.size(); ++r) {
        const SampledRow row(chunk, all, r);
        const std::vector<uint8_t> attended = attended_keys(chunk, lines, all.rows[r]);
        Held& of_row = std::ranges::binary_search(sampled, all.rows[r]) ? of_head.sampled : of_head.others;
        for (size_t key = 0; key < attended.size(); ++key) of_row.add(row.weights[key], attended[key] != 0);
        if (row.key < question_) continue;
        for (const auto& [first, last] : gold_) {
            for (auto key = static_cast<size_t>(first); key < std::min(static_cast<size_t>(last), attended.size());
                 ++key)
                of_head.evidence.add(row.weights[key], attended[key] != 0);
        }
    }
}

}  // namespace rondo::cli::eval

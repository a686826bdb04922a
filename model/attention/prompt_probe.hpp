#pragma once

#include <cstdint>
#include <span>

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

/// Looks, for an evaluation, at what the chunks of a prompt attend to where lines are chosen.
class PromptProbe {
public:
    virtual ~PromptProbe() = default;

    /// A layer's choice for a chunk, head by head.
    virtual void look_at_lines(int layer, const ChunkShape& chunk, std::span<const Lines> by_head) = 0;
    /// All rows of each chunk are scored for `look_at_rows`, which takes as long as dense attention.
    virtual bool wants_rows() const { return false; }
    /// The weights of all rows of a chunk in a head, which of them were sampled, and what the head attends to. From any
    /// thread, and several at a time.
    virtual void look_at_rows(const ChunkShape& chunk, const SampledRows& all, std::span<const int32_t> sampled,
                              const Lines& lines) {
        static_cast<void>(chunk), static_cast<void>(all), static_cast<void>(sampled), static_cast<void>(lines);
    }
};

}  // namespace rondo

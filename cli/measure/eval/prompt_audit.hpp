#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo::cli::eval {

/// Key ranges [first, last) that hold the evidence.
using GoldKeys = std::vector<std::pair<int32_t, int32_t>>;

/// Which share of its rows' attention a prompt's lines hold: of the sampled rows, of the others, and of what the
/// question's rows attend to in the evidence. Safe from any thread.
class PromptAudit {
public:
    /// The question's rows begin with this key.
    PromptAudit(GoldKeys gold, int64_t question) : gold_(std::move(gold)), question_(question) {}

    void add(const ChunkShape& chunk, const SampledRows& all, std::span<const int32_t> sampled, const Lines& lines);
    /// Each a share; none where there was nothing to hold.
    std::optional<double> of_sampled() const { return share(&OfHead::sampled); }
    std::optional<double> of_others() const { return share(&OfHead::others); }
    std::optional<double> of_evidence() const { return share(&OfHead::evidence); }

private:
    struct Held {
        double held = 0.0, total = 0.0;

        void add(double weight, bool attended);
    };
    struct OfHead {
        Held sampled, others, evidence;
    };
    std::optional<double> share(Held OfHead::*part) const;

    const GoldKeys gold_;
    const int64_t question_;
    std::mutex mutex_;
    std::map<int, OfHead> heads_;  // apart, so that sums do not depend on which comes first
};

}  // namespace rondo::cli::eval

#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "config/attention_methods.hpp"
#include "config/device_roles.hpp"
#include "kernels/device.hpp"
#include "memory/kv_pool.hpp"
#include "model/attention/policies/prefill_sparsity/head_patterns.hpp"
#include "model/model.hpp"

namespace rondo {

/// What a pipeline computes with. Whoever uses any of it holds it whole, so that it goes when the last actor and the
/// last turn are gone, in whatever order that is.
struct Runtime {
    DeviceRoles roles;
    std::vector<std::unique_ptr<Device>> devices;  ///< by their places in `roles`, all of one memory space
    Model model;
    std::unique_ptr<KvPool> pool;
    uint64_t tokenizer = 0;  ///< fingerprint of the model's, where conversations are kept
    int64_t context_tokens = 0;
    std::vector<AttentionMethod> methods;    ///< that turns may ask for; the first is what they get if they do not
    std::vector<HeadPatterns> patterns;      ///< by method: of its heads, as they were read at the start
    std::vector<std::string> method_spaces;  ///< by method: names what it computes where that is not exact
    int64_t budget_tokens_max = 0;           ///< that they may ask for with one

    /// Where answers are computed, and their keys chosen.
    Device& answers_device() const { return *devices[roles.answers]; }
    /// "": the first.
    Result<size_t> method(std::string_view name) const;
    /// Some of the methods choose rounds, so that a prompt's rounds are kept apart.
    bool chooses_rounds() const { return std::ranges::any_of(methods, &AttentionMethod::chooses_rounds); }
    /// Whether a turn may ask for this budget with one of `methods`; 0 is the method's own.
    Status check_budget(size_t method, int64_t budget_tokens) const;
};

using RuntimePtr = std::shared_ptr<Runtime>;

/// Another one where any setting of the method is another: what is kept on a disk outlives them.
std::string method_space(const AttentionMethod& method, const HeadPatterns& patterns, const PipelineSettings& pipeline);

}  // namespace rondo

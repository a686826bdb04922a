#include "model/attention/step_attention.hpp"

#include <algorithm>
#include <limits>

#include "config/method_rows.hpp"
#include "model/attention/heavy_keys.hpp"
#include "model/attention/quest_pages.hpp"
#include "model/attention/shifted_window.hpp"

namespace rondo {

namespace {

/// Where the choice of keys cannot be made.
Status check(const KvPool& pool, const Device& device) {
    if (device.space().kind != DeviceKind::cpu)
        return make_error(ErrorCode::unsupported,
                          "choosing keys on a GPU: the method must be dense there; CPUs choose keys");
    for (const LayerGroup group : layer_groups) {
        constexpr size_t slots_max = std::numeric_limits<int32_t>::max();
        if (pool.shape().layers_in(group) == 0) continue;
        if (pool.blocks_total(group) > slots_max / kv_block_tokens / static_cast<size_t>(pool.atoms_each_block(group)))
            return make_error(ErrorCode::unsupported,
                              "choosing keys: the pool must hold at most 2^31 keys by layer and head; "
                              "a smaller device_kv_mib has room for fewer");
    }
    return Status::ok();
}

}  // namespace

StepAttention::Options StepAttention::options_of(const DecodeAttention& settings) {
    // As far back as queries are looked at, each turn keeps them: 21 MiB of a Qwen2-0.5B's.
    constexpr int looked_back_max = 256;
    Options options;
    options.method = make_decode_selection(settings);
    const MethodRow& row = row_of(settings.method);
    if (heeds(row, "observe"))
        options.observe_every = std::max(1, std::min(settings.reselect_every, looked_back_max) / settings.observe);
    if (options.method != nullptr && options.method->triggers().go_on()) options.lag_steps = settings.lag_steps;
    if (row.pages) options.page_budget = settings.budget_tokens;
    return options;
}

int64_t StepAttention::prompt_rows(const DecodeAttention& settings) {
    const Options options = options_of(settings);
    if (options.method == nullptr) return 1;
    const ChoiceTriggers triggers = options.method->triggers();
    if (!triggers.after_prefill && triggers.every == 0) return 1;
    const int64_t looked_at = int64_t{options.method->queries()} * options.observe_every;
    return std::max(looked_at - (triggers.after_prefill ? 0 : triggers.first), int64_t{1});
}

Result<std::unique_ptr<StepAttention>> StepAttention::create(const ModelSpec& spec, KvPool& pool, Device& device,
                                                             const Options& options) {
    std::unique_ptr<StepAttention> made;
    if (options.method == nullptr && options.page_budget == 0) return made;
    RONDO_TRY(check(pool, device));
    if (options.page_budget > 0) {
        RONDO_ASSIGN(made, QuestPages::create(spec, pool, device, options.page_budget));
        return made;
    }
    RONDO_ASSIGN(QueryRing ring,
                 QueryRing::create(spec, device, int64_t{options.method->queries()} * options.observe_every));
    if (options.method->shifts()) {
        RONDO_ASSIGN(made, ShiftedWindow::create(spec, pool, device, options, std::move(ring)));
    } else if (options.method->accumulates()) {
        made = std::make_unique<HeavyKeys>(spec, pool, device, options, std::move(ring));
    } else {
        made = std::make_unique<ChosenKeys>(spec, pool, device, options, std::move(ring));
    }
    return made;
}

Status StepAttention::keep_queries(Device& device, int layer, const Tensor& q, int64_t keys) {
    static_cast<void>(device), static_cast<void>(layer), static_cast<void>(q), static_cast<void>(keys);
    return Status::ok();
}

void StepAttention::hand_back(std::unique_ptr<Choice> choice) {
    drop(std::move(choice));
}

void StepAttention::drop(std::unique_ptr<Choice> choice) {
    choice->count_into(stats_);
}

}  // namespace rondo

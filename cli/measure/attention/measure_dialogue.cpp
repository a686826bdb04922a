#include "cli/measure/attention/measure_dialogue.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/kv_layout.hpp"
#include "model/generator.hpp"

namespace rondo::cli::attention {

namespace {

constexpr int64_t chunk_tokens_max = 256, compared_rows = 256;

/// Where chunks end: with each turn, and where a turn is longer than a chunk, so that its last chunk is full.
std::vector<size_t> chunk_ends(const DialogueTokens& dialogue, size_t chunk) {
    std::vector<size_t> turns = dialogue.turn_ends, ends;
    if (dialogue.ids.size() > turns.back()) turns.push_back(dialogue.ids.size());
    size_t begin = 0;
    for (const size_t end : turns) {
        for (size_t at = begin + (end - begin) % chunk; at < end; at += chunk) {
            if (at > begin) ends.push_back(at);
        }
        ends.push_back(end);
        begin = end;
    }
    return ends;
}

/// Figures are compared and sorted, which must not meet what is no number.
Status check_numbers(const std::vector<LayerFigures>& layers) {
    const auto is_number = [](double value) { return std::isfinite(value); };
    for (size_t i = 0; i < layers.size(); ++i) {
        const LayerFigures& layer = layers[i];
        bool sound = is_number(layer.initial_recent);
        for (const Masses* const masses : {&layer.question, &layer.answer, &layer.last_row})
            sound = sound && std::ranges::all_of(*masses, is_number);
        if (!sound)
            return make_error(ErrorCode::unsupported,
                              "the attention of layer " + std::to_string(i + 1) + " holds values that are no numbers");
    }
    return Status::ok();
}

}  // namespace

ChunkPlan plan_chunks(int layers, int heads, int64_t tokens, size_t kept_bytes_max) {
    // Of `compared_rows` rows of a prompt a chunk has its share, so what is kept of it does not grow with the prompt.
    const auto row_bytes = static_cast<int64_t>(sizeof(float)) * layers * heads;  // of a key
    const auto bytes = static_cast<int64_t>(kept_bytes_max);
    ChunkPlan plan;
    plan.chunk_tokens = std::clamp<int64_t>(bytes / (row_bytes * compared_rows) / kv_block_tokens * kv_block_tokens,
                                            kv_block_tokens, chunk_tokens_max);
    while (row_bytes * tokens / plan.key_pool > bytes) plan.key_pool *= 2;
    return plan;
}

Result<DialogueFigures> measure_dialogue(const Model& model, Device& device, const MeasureOptions& options,
                                         const DialogueTokens& dialogue, const std::function<bool(size_t)>& on_tokens) {
    const ModelSpec& spec = model.spec;
    const ChunkPlan plan = plan_chunks(spec.layers, spec.heads, std::ssize(dialogue.ids), options.kept_bytes_max);
    AttentionProbe probe({spec.layers, spec.heads, plan.key_pool}, dialogue);
    Generator::Options how;
    how.chunk_tokens = plan.chunk_tokens;
    how.kv_type = options.kv_type;
    how.kv_bytes_max = options.kv_bytes_max;
    how.context_tokens_max = std::ssize(dialogue.ids);
    // With α = 1 lines hold everything: that is dense attention, beside which a probe is shown all rows.
    how.prefill.method = PrefillAttention::Method::loopserve;
    how.prefill.alpha = 1.0;
    how.prefill.min_tokens = 0;
    how.prompt_probe = &probe;
    RONDO_ASSIGN(const auto generator, Generator::create(model, device, how));
    const std::span<const int32_t> ids(dialogue.ids);
    size_t begin = 0;
    for (const size_t end : chunk_ends(dialogue, static_cast<size_t>(plan.chunk_tokens))) {
        if (std::ranges::binary_search(dialogue.turn_ends, begin)) generator->begin_round();
        probe.begin_chunk(static_cast<int64_t>(begin), static_cast<int64_t>(end));
        RONDO_TRY(generator->prefill(ids.subspan(begin, end - begin), false));
        probe.end_chunk(device);
        begin = end;
        if (!on_tokens(end)) return make_error(ErrorCode::cancelled, "stopped");
    }
    DialogueFigures figures{probe.layers(), probe.distances()};
    RONDO_TRY(check_numbers(figures.layers));
    return figures;
}

}  // namespace rondo::cli::attention

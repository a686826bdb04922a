#pragma once

#include <functional>
#include <vector>

#include "cli/measure/attention/attention_probe.hpp"
#include "kernels/dtype.hpp"
#include "model/model.hpp"

namespace rondo::cli::attention {

struct MeasureOptions {
    DType kv_type = DType::bf16;
    size_t kv_bytes_max = 0;  ///< 0: what the dialogue needs
    /// Of the rows that are kept of a chunk, about; and of the weights that the probe is shown at a time.
    size_t kept_bytes_max = size_t{256} << 20;
};

/// How a dialogue is taken through the model, so that memory stays bounded.
struct ChunkPlan {
    int64_t chunk_tokens = 0;  ///< a turn's lines are chosen by so many of its last rows
    int64_t key_pool = 1;      ///< keys whose weights are summed before layers are compared
};
ChunkPlan plan_chunks(int layers, int heads, int64_t tokens, size_t kept_bytes_max);

struct DialogueFigures {
    std::vector<LayerFigures> layers;
    std::vector<double> distances;  ///< [layers, layers]
};

/// Takes a dialogue through the model with dense attention, as a conversation's prompts come: the last answer is given,
/// not computed. `on_tokens` hears how many tokens are done; where it says false, the error is ErrorCode::cancelled.
Result<DialogueFigures> measure_dialogue(const Model& model, Device& device, const MeasureOptions& options,
                                         const DialogueTokens& dialogue, const std::function<bool(size_t)>& on_tokens);

}  // namespace rondo::cli::attention

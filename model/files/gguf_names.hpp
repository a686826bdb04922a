#pragma once

#include <string>
#include <string_view>

namespace rondo {

/// Hugging Face's name of a GGUF tensor ("blk.3.attn_q.weight" → "model.layers.3.self_attn.q_proj.weight"); a name that
/// has no counterpart stays as it is.
std::string hf_tensor_name(std::string_view gguf_name);

}  // namespace rondo

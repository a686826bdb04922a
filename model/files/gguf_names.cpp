#include "model/files/gguf_names.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rondo {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr Pair whole_names[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

constexpr Pair layer_parts[] = {
    {"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

/// Digits without a leading zero, so that no two names mean one layer.
bool is_layer_number(std::string_view text) {
    const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    return !text.empty() && digits && (text.size() == 1 || text.front() != '0');
}

}  // namespace

std::string hf_tensor_name(std::string_view gguf_name) {
    for (const auto& [gguf, hf] : whole_names) {
        if (gguf_name == gguf) return std::string(hf);
    }
    constexpr std::string_view prefix = "blk.";
    const size_t layer_end = gguf_name.find('.', prefix.size());
    const size_t kind_begin = gguf_name.rfind('.');
    if (!gguf_name.starts_with(prefix) || layer_end == std::string_view::npos || kind_begin <= layer_end) {
        return std::string(gguf_name);
    }
    const std::string_view layer = gguf_name.substr(prefix.size(), layer_end - prefix.size());
    const std::string_view part = gguf_name.substr(layer_end + 1, kind_begin - layer_end - 1);
    const std::string_view kind = gguf_name.substr(kind_begin);  // ".weight" or ".bias"
    const auto* found = std::find_if(std::begin(layer_parts), std::end(layer_parts),
                                     [&](const Pair& pair) { return pair.first == part; });
    if (!is_layer_number(layer) || found == std::end(layer_parts) || (kind != ".weight" && kind != ".bias")) {
        return std::string(gguf_name);
    }
    return "model.layers." + std::string(layer) + "." + std::string(found->second) + std::string(kind);
}

}  // namespace rondo

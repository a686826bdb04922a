#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "kernels/dtype.hpp"

namespace rondo {

/// How positions become rotation frequencies.
struct RopeSpec {
    enum class Scaling { none, linear, llama3 };
    double theta = 10000.0;
    Scaling scaling = Scaling::none;
    double factor = 1.0;  ///< linear and llama3
    double low_frequency_factor = 1.0;
    double high_frequency_factor = 4.0;
    int64_t original_context = 8192;
    /// [head_dim/2] each frequency is divided by its own number; empty: by none. How GGUF files carry llama3 scaling.
    std::vector<double> frequency_divisors;
};

/// The shape of a decoder-only transformer, whichever file it came from. Checked against limits.hpp when read.
struct ModelSpec {
    std::string architecture;  ///< "llama", "mistral", "qwen2", "qwen3"
    int layers = 0;
    int64_t width = 0;
    int heads = 0;
    int kv_heads = 0;
    int head_dim = 0;
    int64_t ffn_width = 0;
    int64_t vocabulary = 0;
    int64_t context_tokens = 0;
    float norm_eps = 1e-6F;
    bool tied_embeddings = false;
    bool attention_bias = false;     ///< q, k, v have biases (Qwen 1.5, 2, 2.5; Llama with attention_bias)
    bool output_bias = false;        ///< o has one (Llama with attention_bias)
    bool mlp_bias = false;           ///< gate, up and down have biases (Llama with mlp_bias)
    bool qk_norm = false;            ///< per-head RMSNorm of q and k (Qwen3)
    bool paired_neighbours = false;  ///< q and k rows lie as GGUF's Llama: rotated pairs are neighbours, not halves
    int64_t sliding_window = 0;      ///< 0: none. Mistral's: no context is longer than that
    RopeSpec rope;
    std::vector<int32_t> eos_ids;  ///< any of them ends an answer
    int32_t bos_id = -1;

    /// Weights and biases, a tied table counted once.
    int64_t parameters() const;
    /// Tokens that a sequence may have. Within its window a model with sliding-window attention attends to everything,
    /// which is what is computed here.
    int64_t usable_context() const {
        return sliding_window > 0 && sliding_window < context_tokens ? sliding_window : context_tokens;
    }
    /// head_dim/2 frequencies, scaling applied.
    std::vector<double> inverse_frequency() const;
};

/// What must hold between the fields, whichever file they came from: sizes within limits.hpp, heads that divide, token
/// ids inside the vocabulary. `where` names the file in errors.
Status check_spec(const ModelSpec& spec, const std::string& where);

/// From a Hugging Face config.json (and generation_config.json, "" when absent). `where` names the file in errors.
Result<ModelSpec> spec_from_hf(const std::string& config_json, const std::string& generation_json,
                               const std::string& where);

}  // namespace rondo

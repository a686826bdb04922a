#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "model/files/safetensors.hpp"
#include "model/files/spec.hpp"
#include "model/files/spec_tensors.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

/// Starts from whole files, which chance would not find, and goes on by libFuzzer's own mutations.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, unsigned seed) {
    if (size >= 2) return LLVMFuzzerMutate(data, size, size_max);
    static const std::string wholes[] = {
        R"({"architectures":["Qwen3ForCausalLM"],"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,)"
        R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"vocab_size":100,"rms_norm_eps":1e-5,)"
        R"("max_position_embeddings":512,"use_sliding_window":true,"sliding_window":9,"max_window_layers":1,)"
        R"("eos_token_id":3})"
        "\x01"
        R"({"eos_token_id":[3,4]})",
        R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,)"
        R"("num_attention_heads":4,"vocab_size":100,"attention_bias":true,"mlp_bias":true,"rope_scaling":{)"
        R"("rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
        R"("original_max_position_embeddings":8192}})",
        R"({"metadata":{},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})",
    };
    const std::string& whole = wholes[seed % std::size(wholes)];
    const size_t copied = std::min(whole.size(), size_max);
    std::memcpy(data, whole.data(), copied);
    return copied;
}

/// config.json, a '\x01', generation_config.json; the first part is read as a shard index too.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string input(reinterpret_cast<const char*>(data), size);
    const size_t cut = input.find('\x01');
    const std::string config = input.substr(0, cut);
    const std::string generation = cut == std::string::npos ? "" : input.substr(cut + 1);
    (void)rondo::parse_safetensors_index(config, "fuzz").is_ok();
    const auto spec = rondo::spec_from_hf(config, generation, "fuzz");
    if (!spec) {
        if (spec.error().message.find('\n') != std::string::npos) std::abort();
        return 0;
    }
    for (const double frequency : spec->inverse_frequency()) {
        if (!std::isfinite(frequency)) std::abort();
    }
    if (spec->parameters() <= 0) std::abort();
    return 0;
}

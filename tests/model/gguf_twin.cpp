#include "tests/model/gguf_twin.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <stdexcept>

#include "kernels/quant.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo::golden {
namespace {

using nlohmann::json;
using testing::GgufBytes;

constexpr uint32_t gguf_f32 = 0;
constexpr uint32_t gguf_q8_0 = 8;

/// A quantized type as GGUF numbers it, and where its blocks have their f16 scale and minimum: what the values are that
/// tools/make_golden.py puts there.
struct BlockType {
    DType dtype;
    uint32_t id;
    size_t scale_at;
    double scale;
    std::optional<size_t> minimum_at;
    double minimum;
};

constexpr BlockType block_types[] = {
    {DType::q4_0, 2, 0, 0x1p-6, {}, 0},
    {DType::q4_1, 3, 0, 0x1p-6, 2, -7.5 * 0x1p-6},
    {DType::q5_0, 6, 0, 0x1p-7, {}, 0},
    {DType::q5_1, 7, 0, 0x1p-7, 2, -15.5 * 0x1p-7},
    {DType::q8_0, gguf_q8_0, 0, 0x1p-10, {}, 0},
    {DType::q2_k, 10, 80, 0x1p-7, 82, 1.5 * 0x1p-7},
    {DType::q3_k, 11, 108, 0x1p-9, {}, 0},
    {DType::q4_k, 12, 0, 0x1p-12, 2, 7.5 * 0x1p-12},
    {DType::q5_k, 13, 0, 0x1p-13, 2, 15.5 * 0x1p-13},
    {DType::q6_k, 14, 208, 0x1p-14, {}, 0},
    {DType::iq4_nl, 20, 0, 0x1p-10, {}, 0},
    {DType::iq4_xs, 23, 0, 0x1p-14, {}, 0},
};

std::string random_blocks(const BlockType& type, BitStream bits, size_t elements) {
    const DTypeTraits shape = traits(type.dtype);
    const auto block_bytes = static_cast<size_t>(shape.block_bytes);
    std::string out;
    while (out.size() < elements / static_cast<size_t>(shape.block_elements) * block_bytes)
        testing::append(out, bits.next());
    out.resize(elements / static_cast<size_t>(shape.block_elements) * block_bytes);
    const auto scale = std::bit_cast<uint16_t>(static_cast<_Float16>(type.scale));
    const auto minimum = std::bit_cast<uint16_t>(static_cast<_Float16>(type.minimum));
    for (size_t at = 0; at < out.size(); at += block_bytes) {
        std::memcpy(&out[at + type.scale_at], &scale, sizeof(scale));
        if (type.minimum_at) std::memcpy(&out[at + *type.minimum_at], &minimum, sizeof(minimum));
    }
    return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string gguf_name(std::string name) {
    static const std::pair<const char*, const char*> parts[] = {
        {"model.embed_tokens", "token_embd"},
        {"model.norm", "output_norm"},
        {"lm_head", "output"},
        {"model.layers", "blk"},
        {"input_layernorm", "attn_norm"},
        {"post_attention_layernorm", "ffn_norm"},
        {"self_attn.q_proj", "attn_q"},
        {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_norm", "attn_q_norm"},
        {"self_attn.k_norm", "attn_k_norm"},
        {"mlp.gate_proj", "ffn_gate"},
        {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"},
    };
    for (const auto& [from, to] : parts) name = replaced(std::move(name), from, to);
    return name;
}

/// Row (head, half j, i) goes to (head, i, j).
std::vector<float> with_pairs_as_neighbours(const HostTensor& tensor, int64_t head_dim) {
    const auto columns = static_cast<int64_t>(tensor.values.size()) / tensor.shape[0];
    std::vector<float> out(tensor.values.size());
    for (int64_t row = 0; row < tensor.shape[0]; ++row) {
        const int64_t head = row / head_dim, j = row % head_dim / (head_dim / 2), i = row % (head_dim / 2);
        const int64_t to = head * head_dim + 2 * i + j;
        std::copy_n(tensor.values.begin() + row * columns, columns, out.begin() + to * columns);
    }
    return out;
}

std::string f32_bytes(std::span<const float> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

/// What llama3 scaling divides each frequency by.
std::vector<float> llama3_divisors(const json& config) {
    const json& scaling = config.at("rope_scaling");
    const double theta = config.value("rope_theta", 10000.0), factor = scaling.at("factor");
    const double low = scaling.at("low_freq_factor"), high = scaling.at("high_freq_factor");
    const double context = scaling.at("original_max_position_embeddings");
    const int64_t size = config.at("head_dim");
    std::vector<float> out;
    for (int64_t i = 0; i < size; i += 2) {
        const double wavelength =
            2 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / static_cast<double>(size));
        const double smooth = std::clamp((context / wavelength - low) / (high - low), 0.0, 1.0);
        out.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / factor + smooth)));
    }
    return out;
}

GgufBytes metadata(const json& config, const std::string& architecture) {
    GgufBytes out;
    const auto u32 = [&](const char* key, const char* name) {
        out.u32(architecture + key, config.at(name).get<uint32_t>());
    };
    out.string("general.architecture", architecture);
    u32(".block_count", "num_hidden_layers");
    u32(".context_length", "max_position_embeddings");
    u32(".embedding_length", "hidden_size");
    u32(".feed_forward_length", "intermediate_size");
    u32(".attention.head_count", "num_attention_heads");
    u32(".attention.head_count_kv", "num_key_value_heads");
    u32(".attention.key_length", "head_dim");
    u32(".attention.value_length", "head_dim");
    u32(".rope.dimension_count", "head_dim");
    out.f32(architecture + ".attention.layer_norm_rms_epsilon", config.at("rms_norm_eps"));
    out.f32(architecture + ".rope.freq_base", config.value("rope_theta", 10000.0F));
    const json scaling = config.value("rope_scaling", json());
    if (scaling.is_object() && scaling.value("type", "") == "linear") {
        out.string(architecture + ".rope.scaling.type", "linear");
        out.f32(architecture + ".rope.scaling.factor", scaling.at("factor"));
    }
    return out;
}

}  // namespace

std::string quantize_q8_0(std::span<const float> values) {
    if (values.size() % 32 != 0) throw std::runtime_error("Q8_0 needs rows of a multiple of 32");
    std::string out;
    for (; !values.empty(); values = values.subspan(32)) {
        float largest = 0.0F;
        for (const float value : values.first(32)) largest = std::max(largest, std::abs(value));
        const auto scale = static_cast<_Float16>(largest / 127.0F);
        testing::append(out, std::bit_cast<uint16_t>(scale));
        for (const float value : values.first(32)) {
            const float code = largest == 0.0F ? 0.0F : std::round(value / (largest / 127.0F));
            testing::append(out, static_cast<int8_t>(code));
        }
    }
    return out;
}

std::string gguf_of_blocks(const Case& model, DType matrices, bool dequantized) {
    const auto* type = std::find_if(std::begin(block_types), std::end(block_types),
                                    [&](const BlockType& known) { return known.dtype == matrices; });
    const json config = json::parse(model.config_json);
    GgufBytes out = metadata(config, config.at("model_type"));
    for (const HostTensor& tensor : tensors(model)) {
        const std::vector<uint64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
        if (shape.size() == 1) {
            out.tensor(gguf_name(tensor.name), shape, gguf_f32, f32_bytes(tensor.values));
            continue;
        }
        const std::string blocks = random_blocks(*type, BitStream(model.seed, tensor.name), tensor.values.size());
        if (!dequantized) {
            out.tensor(gguf_name(tensor.name), shape, type->id, blocks);
            continue;
        }
        std::vector<float> values(tensor.values.size());
        dequantize_row(matrices, reinterpret_cast<const std::byte*>(blocks.data()), values.data(),
                       static_cast<int64_t>(values.size()));
        out.tensor(gguf_name(tensor.name), shape, gguf_f32, f32_bytes(values));
    }
    return out.file();
}

std::string gguf_twin(const Case& model, DType matrices) {
    const json config = json::parse(model.config_json);
    std::string architecture = config.at("model_type");
    if (architecture == "mistral") architecture = "llama";
    GgufBytes out = metadata(config, architecture);
    const int64_t head_dim = config.at("head_dim");
    const json scaling = config.value("rope_scaling", json());
    if (scaling.is_object() && scaling.value("rope_type", "") == "llama3") {
        const std::vector<float> divisors = llama3_divisors(config);
        out.tensor("rope_freqs.weight", {divisors.size()}, gguf_f32, f32_bytes(divisors));
    }
    for (const HostTensor& tensor : tensors(model)) {
        const bool rotated =
            tensor.name.find("q_proj") != std::string::npos || tensor.name.find("k_proj") != std::string::npos;
        const bool permuted = architecture == "llama" && rotated;
        const std::vector<float> values = permuted ? with_pairs_as_neighbours(tensor, head_dim) : tensor.values;
        const bool quantized = matrices == DType::q8_0 && tensor.shape.size() == 2;
        const std::vector<uint64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
        out.tensor(gguf_name(tensor.name), shape, quantized ? gguf_q8_0 : gguf_f32,
                   quantized ? quantize_q8_0(values) : f32_bytes(values));
    }
    return out.file();
}

}  // namespace rondo::golden

#include "tests/model/golden_models.hpp"

#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace rondo::golden {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

uint64_t fnv1a64(std::string_view text) {
    uint64_t value = 0xCBF29CE484222325;
    for (const char byte : text) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
    return value;
}

uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

/// The largest power of two whose square times `columns` is at most 4: dot products keep the size of their input.
float scale_of(int64_t columns) {
    float scale = 1.0F;
    while (scale * scale * static_cast<float>(columns) > 4.0F) scale /= 2.0F;
    return scale;
}

HostTensor make_tensor(uint64_t seed, std::string name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    float offset = 0.0F;
    float scale = 1.0F;
    if (name.ends_with("norm.weight")) {
        offset = 1.0F;
        scale = 0.25F;
    } else if (name.ends_with(".bias")) {
        scale = 0.25F;
    } else if (name != "model.embed_tokens.weight") {
        scale = scale_of(shape.back());
    }
    HostTensor tensor{std::move(name), std::move(shape), {}};
    tensor.values.reserve(static_cast<size_t>(count));
    BitStream bits(seed, tensor.name);
    for (int64_t i = 0; i < count; ++i) {
        const float u = static_cast<float>(bits.next() >> 40) / 8388608.0F - 1.0F;
        tensor.values.push_back(offset + u * scale);
    }
    return tensor;
}

void add_layer(const json& config, const std::string& prefix, uint64_t seed, std::vector<HostTensor>& out) {
    const std::string kind = config.at("model_type");
    const int64_t width = config.at("hidden_size");
    const int64_t ffn = config.at("intermediate_size");
    const int64_t size = config.at("head_dim");
    const int64_t queries = config.at("num_attention_heads").get<int64_t>() * size;
    const int64_t keys = config.at("num_key_value_heads").get<int64_t>() * size;
    const bool attention_bias = config.value("attention_bias", false);
    const bool qkv_bias = attention_bias || kind == "qwen2";
    const bool mlp_bias = config.value("mlp_bias", false);

    const auto vector = [&](const std::string& name, int64_t length) {
        out.push_back(make_tensor(seed, prefix + name, {length}));
    };
    const auto linear = [&](const std::string& name, int64_t outputs, int64_t inputs, bool bias) {
        out.push_back(make_tensor(seed, prefix + name + ".weight", {outputs, inputs}));
        if (bias) vector(name + ".bias", outputs);
    };
    vector("input_layernorm.weight", width);
    vector("post_attention_layernorm.weight", width);
    if (kind == "qwen3") {
        vector("self_attn.q_norm.weight", size);
        vector("self_attn.k_norm.weight", size);
    }
    linear("self_attn.q_proj", queries, width, qkv_bias);
    linear("self_attn.k_proj", keys, width, qkv_bias);
    linear("self_attn.v_proj", keys, width, qkv_bias);
    linear("self_attn.o_proj", width, queries, attention_bias);
    linear("mlp.gate_proj", ffn, width, mlp_bias);
    linear("mlp.up_proj", ffn, width, mlp_bias);
    linear("mlp.down_proj", width, ffn, mlp_bias);
}

void append(std::vector<std::byte>& out, const void* data, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    out.insert(out.end(), begin, begin + bytes);
}

/// Rounded to nearest, ties to even.
uint16_t to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

void write_safetensors(const fs::path& path, const std::vector<HostTensor>& tensors, DType dtype) {
    const char* type = dtype == DType::f32 ? "F32" : dtype == DType::bf16 ? "BF16" : "F16";
    ordered_json header;
    std::vector<std::byte> data;
    for (const HostTensor& tensor : tensors) {
        const size_t begin = data.size();
        const std::vector<std::byte> bytes = encode(tensor.values, dtype);
        append(data, bytes.data(), bytes.size());
        header[tensor.name] = {{"dtype", type}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    const uint64_t length = text.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << text;
    file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
    if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

BitStream::BitStream(uint64_t seed, std::string_view tensor) : state_(seed + fnv1a64(tensor)) {}

uint64_t BitStream::next() {
    state_ += 0x9E3779B97F4A7C15;
    return mix(state_);
}

std::vector<Case> read_cases(const std::string& architecture) {
    const char* const elsewhere = std::getenv("RONDO_GOLDEN_MODELS");  // on a machine without the sources
    const std::string folder = elsewhere ? elsewhere : RONDO_SOURCE_DIR "/tests/fixtures/golden";
    const std::string path = folder + "/" + architecture + ".json";
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    std::vector<Case> cases;
    const json fixture = json::parse(file);
    for (const json& entry : fixture.at("cases")) {
        Case model;
        model.name = entry.at("name");
        model.config_json = entry.at("config").dump();
        model.seed = entry.at("seed");
        model.vocabulary = entry.at("config").at("vocab_size");
        model.ids = entry.at("tokens").get<std::vector<int32_t>>();
        model.rows = entry.at("rows").get<std::vector<int64_t>>();
        model.f32 = entry.at("f32").get<std::vector<float>>();
        model.bf16 = entry.at("bf16").get<std::vector<float>>();
        cases.push_back(std::move(model));
    }
    return cases;
}

Case read_case(const std::string& name) {
    for (Case& model : read_cases(name.substr(0, name.find('_')))) {
        if (model.name == name) return std::move(model);
    }
    throw std::runtime_error("no golden case " + name);
}

std::vector<Case> read_all_cases() {
    std::vector<Case> all;
    for (const char* architecture : {"llama", "mistral", "qwen2", "qwen3"}) {
        for (Case& model : read_cases(architecture)) all.push_back(std::move(model));
    }
    return all;
}

Case with_layers(Case model, int layers) {
    json config = json::parse(model.config_json);
    config["num_hidden_layers"] = layers;
    model.config_json = config.dump();
    return model;
}

std::vector<HostTensor> tensors(const Case& model) {
    const json config = json::parse(model.config_json);
    const int64_t width = config.at("hidden_size");
    std::vector<HostTensor> out;
    out.push_back(make_tensor(model.seed, "model.embed_tokens.weight", {model.vocabulary, width}));
    for (int layer = 0; layer < config.at("num_hidden_layers"); ++layer) {
        add_layer(config, "model.layers." + std::to_string(layer) + ".", model.seed, out);
    }
    out.push_back(make_tensor(model.seed, "model.norm.weight", {width}));
    if (!config.at("tie_word_embeddings").get<bool>()) {
        out.push_back(make_tensor(model.seed, "lm_head.weight", {model.vocabulary, width}));
    }
    return out;
}

std::vector<std::byte> encode(std::span<const float> values, DType dtype) {
    std::vector<std::byte> out;
    out.reserve(bytes_of(dtype, static_cast<int64_t>(values.size())));
    for (const float value : values) {
        if (dtype == DType::f32) {
            append(out, &value, sizeof(value));
        } else {
            const auto half = static_cast<_Float16>(value);
            const uint16_t bits = dtype == DType::bf16 ? to_bf16(value) : std::bit_cast<uint16_t>(half);
            append(out, &bits, sizeof(bits));
        }
    }
    return out;
}

Folder::Folder(const Case& model, DType dtype) {
    std::string pattern = (fs::temp_directory_path() / "rondo-golden-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a directory like " + pattern);
    path_ = pattern;
    std::ofstream(path_ / "config.json") << model.config_json;
    write_safetensors(path_ / "model.safetensors", tensors(model), dtype);
}

Folder::~Folder() {
    std::error_code ignored;  // a leftover in the temporary directory harms no test
    fs::remove_all(path_, ignored);
}

double relative_error(std::span<const float> actual, std::span<const float> reference) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (actual.size() != reference.size()) return infinity;
    double difference = 0.0;
    double norm = 0.0;
    for (size_t i = 0; i < actual.size(); ++i) {
        if (!std::isfinite(actual[i])) return infinity;
        difference += std::pow(static_cast<double>(actual[i]) - reference[i], 2);
        norm += std::pow(static_cast<double>(reference[i]), 2);
    }
    return std::sqrt(difference / norm);
}

}  // namespace rondo::golden

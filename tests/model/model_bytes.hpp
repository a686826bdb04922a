#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/files/spec.hpp"
#include "model/files/spec_tensors.hpp"

/// Model files made in memory for tests, right ones and wrong ones.
namespace rondo::testing {

template <class T>
void append(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

/// A safetensors file of this header and this many bytes of data (0, 1, 2 … 250, 0 …).
inline std::string safetensors_file(const std::string& header, size_t data_bytes) {
    std::string out;
    append(out, static_cast<uint64_t>(header.size()));
    out += header;
    for (size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i % 251);
    return out;
}

/// A model of two layers that a test writes in no time.
inline constexpr const char* tiny_config =
    R"({"architectures":["LlamaForCausalLM"],"hidden_size":8,"intermediate_size":12,"num_hidden_layers":2,)"
    R"("num_attention_heads":2,"num_key_value_heads":1,"vocab_size":10,"eos_token_id":3})";

inline ModelSpec tiny_spec() {
    return *spec_from_hf(tiny_config, "", "config.json");
}

/// The tensors a spec needs, in BF16, all zero.
inline std::string safetensors_of(const std::vector<SpecTensor>& tensors) {
    nlohmann::json header = nlohmann::json::object();
    size_t end = 0;
    for (const SpecTensor& tensor : tensors) {
        const size_t begin = end;
        end += static_cast<size_t>(tensor.elements()) * 2;
        header[tensor.name] = {{"dtype", "BF16"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    }
    std::string out;
    append(out, static_cast<uint64_t>(header.dump().size()));
    return out + header.dump() + std::string(end, '\0');
}

/// Writes GGUF files entry by entry. Counts are patched in `file`, unless a test wants them to lie.
class GgufBytes {
public:
    explicit GgufBytes(uint32_t version = 3) : version_(version) {}

    static std::string text(const std::string& value) {
        std::string out;
        append(out, static_cast<uint64_t>(value.size()));
        return out + value;
    }

    /// A metadata entry of a type with its payload as it stands in the file.
    GgufBytes& raw(const std::string& key, uint32_t type, const std::string& payload) {
        metadata_ += text(key);
        append(metadata_, type);
        metadata_ += payload;
        ++entries_;
        return *this;
    }
    GgufBytes& u32(const std::string& key, uint32_t value) { return number(key, 4, value); }
    GgufBytes& f32(const std::string& key, float value) { return number(key, 6, value); }
    GgufBytes& boolean(const std::string& key, bool value) { return number(key, 7, static_cast<uint8_t>(value)); }
    GgufBytes& string(const std::string& key, const std::string& value) { return raw(key, 8, text(value)); }
    GgufBytes& strings(const std::string& key, const std::vector<std::string>& values) {
        std::string payload = array_head(8, values.size());
        for (const std::string& value : values) payload += text(value);
        return raw(key, 9, payload);
    }
    template <class T>
    GgufBytes& numbers(const std::string& key, uint32_t element, const std::vector<T>& values) {
        std::string payload = array_head(element, values.size());
        for (const T value : values) append(payload, value);
        return raw(key, 9, payload);
    }
    template <class T>
    GgufBytes& number(const std::string& key, uint32_t type, T value) {
        std::string payload;
        append(payload, value);
        return raw(key, type, payload);
    }
    static std::string array_head(uint32_t element, uint64_t count) {
        std::string out;
        append(out, element);
        append(out, count);
        return out;
    }

    /// `shape` as the file has it: innermost first.
    GgufBytes& tensor_at(const std::string& name, const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset) {
        infos_ += text(name);
        append(infos_, static_cast<uint32_t>(shape.size()));
        for (const uint64_t size : shape) append(infos_, size);
        append(infos_, type);
        append(infos_, offset);
        ++tensors_;
        return *this;
    }
    /// Places the tensor behind those before it.
    GgufBytes& tensor(const std::string& name, const std::vector<uint64_t>& shape, uint32_t type,
                      const std::string& data) {
        tensor_at(name, shape, type, data_.size());
        data_ += data;
        data_.resize((data_.size() + 31) / 32 * 32);
        return *this;
    }
    GgufBytes& data(size_t bytes) {
        data_.resize(bytes);
        return *this;
    }
    GgufBytes& lie_about_counts(uint64_t tensors, uint64_t entries) {
        tensors_ = tensors;
        entries_ = entries;
        return *this;
    }

    /// The part before the data, not yet padded.
    std::string head() const {
        std::string out = "GGUF";
        append(out, version_);
        append(out, tensors_);
        append(out, entries_);
        return out + metadata_ + infos_;
    }
    std::string file() const {
        std::string out = head();
        if (!infos_.empty()) out.resize((out.size() + 31) / 32 * 32);
        return out + data_;
    }

private:
    uint32_t version_;
    uint64_t tensors_ = 0;
    uint64_t entries_ = 0;
    std::string metadata_, infos_, data_;
};

/// The metadata of a two-layer GGUF model: width 64, 4 heads sharing 2 of size 16, feed-forward 96, 5 tokens.
inline GgufBytes gguf_metadata(const std::string& architecture,
                               const std::vector<std::string>& tokens = {"a", "b", "ab", "<|im_end|>", "<|endoftext|>"},
                               const std::vector<std::string>& merges = {"a b"}) {
    GgufBytes out;
    const std::string prefix = architecture + ".";
    out.string("general.architecture", architecture);
    out.u32(prefix + "block_count", 2).u32(prefix + "context_length", 512).u32(prefix + "embedding_length", 64);
    out.u32(prefix + "feed_forward_length", 96).u32(prefix + "attention.head_count", 4);
    out.u32(prefix + "attention.head_count_kv", 2).f32(prefix + "attention.layer_norm_rms_epsilon", 1e-5F);
    out.f32(prefix + "rope.freq_base", 50000.0F);
    out.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "qwen2");
    out.strings("tokenizer.ggml.tokens", tokens);
    out.numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 3, 3});
    out.strings("tokenizer.ggml.merges", merges);
    out.u32("tokenizer.ggml.bos_token_id", 4).u32("tokenizer.ggml.eos_token_id", 3);
    out.string("tokenizer.chat_template", "{{ messages }}");
    return out;
}

/// Its layers' tensors in F32, all zero, without biases or an output matrix. `shape` is the file's: innermost first.
inline void add_gguf_tensors(GgufBytes& out) {
    const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape) {
        out.tensor(name, shape, 0, std::string(4 * shape[0] * (shape.size() > 1 ? shape[1] : 1), '\0'));
    };
    add("token_embd.weight", {64, 5});
    for (const std::string layer : {"blk.0.", "blk.1."}) {
        add(layer + "attn_norm.weight", {64});
        add(layer + "attn_q.weight", {64, 64});
        add(layer + "attn_k.weight", {64, 32});
        add(layer + "attn_v.weight", {64, 32});
        add(layer + "attn_output.weight", {64, 64});
        add(layer + "ffn_norm.weight", {64});
        add(layer + "ffn_gate.weight", {64, 96});
        add(layer + "ffn_up.weight", {64, 96});
        add(layer + "ffn_down.weight", {96, 64});
    }
    add("output_norm.weight", {64});
}

/// A folder that is gone when the test ends.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "rondo-model-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    void write(const std::string& name, const std::string& content) const {
        std::ofstream(path_ / name, std::ios::binary) << content;
    }

private:
    std::filesystem::path path_;
};

}  // namespace rondo::testing

#include "model/gguf_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"

namespace rondo {
namespace {

constexpr size_t text_bytes_max = 256;  // of names and types

Error unsupported(const GgufFile& file, const std::string& what) {
    return make_error(ErrorCode::unsupported, file.where() + ": " + what);
}

/// Refuses files that are no dense language model, by what they say of themselves.
Status check_kind(const GgufFile& file, const std::string& architecture) {
    RONDO_ASSIGN(const std::string type, file.text("general.type", text_bytes_max, "model"));
    if (type == "adapter") {
        return unsupported(file, "an adapter (LoRA), not a model; merge it into its base model and give that file");
    }
    if (type == "mmproj" || architecture == "clip") {
        return unsupported(file, "the image or sound part of a model (mmproj); give the language model's own file");
    }
    if (type == "imatrix") return unsupported(file, "an importance matrix, not a model; give the model's own file");
    RONDO_ASSIGN(const int64_t experts, file.integer(architecture + ".expert_count", 0, UINT32_MAX, 0));
    if (experts == 0) return {};
    return unsupported(file, "a mixture of experts (" + architecture + ".expert_count is " + std::to_string(experts) +
                                 "), which is not supported; take a dense llama, qwen2 or qwen3 model");
}

Status read_sizes(const GgufFile& file, const std::string& prefix, ModelSpec& spec) {
    RONDO_ASSIGN(const int64_t layers, file.integer(prefix + "block_count", 1, limits::layers_max));
    RONDO_ASSIGN(spec.width, file.integer(prefix + "embedding_length", 1, limits::model_width_max));
    RONDO_ASSIGN(spec.ffn_width, file.integer(prefix + "feed_forward_length", 1, limits::model_width_max));
    RONDO_ASSIGN(const int64_t heads, file.integer(prefix + "attention.head_count", 1, limits::heads_max));
    RONDO_ASSIGN(const int64_t kv_heads, file.integer(prefix + "attention.head_count_kv", 1, limits::heads_max, heads));
    const std::string key_length = prefix + "attention.key_length";
    if (file.find(key_length) == nullptr && spec.width % heads != 0) {
        return make_error(ErrorCode::corrupt, file.where() + ": " + std::to_string(heads) +
                                                  " heads do not divide width " + std::to_string(spec.width) +
                                                  " and there is no " + key_length);
    }
    RONDO_ASSIGN(const int64_t head_dim, file.integer(key_length, 2, limits::head_size_max, spec.width / heads));
    // One head size serves keys, values and RoPE here.
    RONDO_TRY(file.integer(prefix + "attention.value_length", head_dim, head_dim, head_dim));
    RONDO_TRY(file.integer(prefix + "rope.dimension_count", head_dim, head_dim, head_dim));
    RONDO_ASSIGN(spec.context_tokens, file.integer(prefix + "context_length", 1, limits::context_tokens_max));
    RONDO_ASSIGN(spec.sliding_window,
                 file.integer(prefix + "attention.sliding_window", 0, limits::context_tokens_max, 0));
    RONDO_ASSIGN(const double eps, file.real(prefix + "attention.layer_norm_rms_epsilon", 1e-12, 1e-1));
    spec.layers = static_cast<int>(layers);
    spec.heads = static_cast<int>(heads);
    spec.kv_heads = static_cast<int>(kv_heads);
    spec.head_dim = static_cast<int>(head_dim);
    spec.norm_eps = static_cast<float>(eps);
    return {};
}

/// rope_freqs.weight: what each frequency is divided by. Llama 3.1's scaling arrives this way.
Status read_frequency_divisors(const GgufFile& file, ModelSpec& spec) {
    const FileTensor* tensor = file.find_tensor("rope_freqs.weight");
    if (tensor == nullptr) return {};
    const auto count = static_cast<size_t>(spec.head_dim / 2);
    const Error wrong = make_error(ErrorCode::corrupt, file.where() + ": tensor 'rope_freqs.weight' must be " +
                                                           std::to_string(count) + " positive F32 numbers");
    if (!tensor->usable || tensor->dtype != DType::f32 || tensor->bytes != count * sizeof(float)) return wrong;
    std::vector<float> divisors(count);
    std::memcpy(divisors.data(), tensor->data, tensor->bytes);
    for (const float divisor : divisors) {
        if (!std::isfinite(divisor) || divisor < 1e-6F) return wrong;
    }
    spec.rope.frequency_divisors.assign(divisors.begin(), divisors.end());
    return {};
}

Status read_rope(const GgufFile& file, const std::string& prefix, ModelSpec& spec) {
    RONDO_ASSIGN(spec.rope.theta, file.real(prefix + "rope.freq_base", 1, 1e15, 10000.0));
    // Older files write the factor alone, under a name of its own.
    RONDO_ASSIGN(const double old_factor, file.real(prefix + "rope.scale_linear", 1, 1e6, 1.0));
    // A factor without a type is linear, as llama.cpp reads it.
    const bool scaled = old_factor > 1 || file.find(prefix + "rope.scaling.factor") != nullptr;
    RONDO_ASSIGN(const std::string type,
                 file.text(prefix + "rope.scaling.type", text_bytes_max, scaled ? "linear" : "none"));
    if (type != "none" && type != "linear") {
        return unsupported(file, prefix + "rope.scaling.type " + in_quotes(type) +
                                     " is not supported; none, linear and the tensor rope_freqs.weight are");
    }
    if (type == "linear") {
        spec.rope.scaling = RopeSpec::Scaling::linear;
        RONDO_ASSIGN(spec.rope.factor, file.real(prefix + "rope.scaling.factor", 1, 1e6, old_factor));
    }
    return read_frequency_divisors(file, spec);
}

/// GGUF states neither ties nor biases: the tensors that are there do.
Status read_switches(const GgufFile& file, const std::string& prefix, ModelSpec& spec) {
    const auto has = [&](const char* name) { return file.find_tensor(name) != nullptr; };
    spec.tied_embeddings = !has("lm_head.weight");
    spec.attention_bias = has("model.layers.0.self_attn.q_proj.bias");
    spec.output_bias = has("model.layers.0.self_attn.o_proj.bias");
    spec.mlp_bias = has("model.layers.0.mlp.gate_proj.bias");
    spec.qk_norm = spec.architecture == "qwen3";
    spec.paired_neighbours = spec.architecture == "llama";
    const FileTensor* embedding = file.find_tensor("model.embed_tokens.weight");
    const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
    std::optional<int64_t> vocabulary;
    if (tokens != nullptr && tokens->type == GgufType::array && tokens->count <= limits::vocabulary_max) {
        vocabulary = static_cast<int64_t>(tokens->count);
    }
    // The table may have more rows than there are tokens: padded for the hardware.
    if (embedding != nullptr) vocabulary = embedding->shape.front();
    RONDO_ASSIGN(spec.vocabulary, file.integer(prefix + "vocab_size", 1, limits::vocabulary_max, vocabulary));
    return {};
}

constexpr int32_t normal = 1, control = 3, user_defined = 4;

/// These end a turn in the chat formats of some family, whatever else a file says of them.
bool is_ender(std::string_view token) {
    constexpr std::string_view enders[] = {
        "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",    "<|end_of_text|>",   "<|end|>",
        "<EOT>",      "_<EOT>",        "[EOT]",      "<end_of_turn>", "<end_of_utterance>"};
    return std::ranges::count(enders, token) > 0;
}

/// The stated end tokens, and those that end a turn: a GGUF file names one end token where generation_config.json lists
/// several.
void collect_eos(const GgufVocabulary& vocabulary, int64_t eot, int64_t eom, ModelSpec& spec) {
    const auto add = [&](int64_t id) {
        const auto narrow = static_cast<int32_t>(id);
        if (id >= 0 && std::find(spec.eos_ids.begin(), spec.eos_ids.end(), narrow) == spec.eos_ids.end()) {
            spec.eos_ids.push_back(narrow);
        }
    };
    add(vocabulary.eos_id);
    add(eot);
    add(eom);
    for (size_t i = 0; i < vocabulary.tokens.size() && i < vocabulary.types.size(); ++i)
        if (vocabulary.types[i] == control && is_ender(vocabulary.tokens[i])) add(static_cast<int64_t>(i));
}

Error lengths_differ(const GgufFile& file, const char* what, size_t count, size_t tokens) {
    return make_error(ErrorCode::corrupt, file.where() + ": " + std::to_string(count) + " " + what + " for " +
                                              std::to_string(tokens) + " tokens");
}

/// `fallback` where the file does not say.
Result<int32_t> token_id(const GgufFile& file, std::string_view key, size_t tokens, int32_t fallback) {
    const auto most = tokens == 0 ? int64_t{INT32_MAX} : static_cast<int64_t>(tokens) - 1;
    // Some converters write the unsigned -1 for "none".
    const auto none = file.integer(key, UINT32_MAX, UINT32_MAX);
    if (none) return -1;
    RONDO_ASSIGN(const int64_t id, file.integer(key, -1, most, fallback <= most ? fallback : -1));
    return static_cast<int32_t>(id);
}

/// Whether texts begin with BOS where the file does not say, as llama.cpp has it: those of SentencePiece vocabularies
/// do, and of byte-level ones Llama 3's and Mistral's.
bool opens_with_bos(const GgufVocabulary& vocabulary) {
    constexpr std::string_view openers[] = {"llama3", "llama-v3", "llama-bpe", "tekken"};
    if (vocabulary.model == "llama") return true;
    return vocabulary.model == "gpt2" && vocabulary.bos_id >= 0 &&
           std::find(std::begin(openers), std::end(openers), vocabulary.pre) != std::end(openers);
}

/// Of files from before converters named it (May 2024).
std::string usual_pretokenizer(const GgufVocabulary& vocabulary, std::string_view architecture) {
    constexpr size_t llama3_tokens = 128256;
    if (vocabulary.model != "gpt2") return {};
    if (architecture == "qwen2" || architecture == "qwen3") return "qwen2";
    return architecture == "llama" && vocabulary.tokens.size() == llama3_tokens ? "llama-bpe" : "";
}

}  // namespace

Result<GgufVocabulary> vocabulary_from_gguf(const GgufFile& file) {
    constexpr size_t count_max = limits::vocabulary_max;
    GgufVocabulary out;
    RONDO_ASSIGN(out.model, file.text("tokenizer.ggml.model", text_bytes_max, ""));
    RONDO_ASSIGN(out.pre, file.text("tokenizer.ggml.pre", text_bytes_max, ""));
    RONDO_ASSIGN(out.tokens, file.texts("tokenizer.ggml.tokens", count_max));
    RONDO_ASSIGN(out.types, file.integers("tokenizer.ggml.token_type", count_max));
    RONDO_ASSIGN(out.scores, file.reals("tokenizer.ggml.scores", count_max));
    RONDO_ASSIGN(out.merges, file.texts("tokenizer.ggml.merges", count_max));
    const size_t tokens = out.tokens.size();
    if (out.pre.empty()) {
        RONDO_ASSIGN(const std::string architecture, file.text("general.architecture", text_bytes_max, ""));
        out.pre = usual_pretokenizer(out, architecture);
    }
    // Some converters took them for words, which would be printed, and never end an answer.
    for (size_t i = 0; i < tokens && i < out.types.size(); ++i)
        if ((out.types[i] == normal || out.types[i] == user_defined) && is_ender(out.tokens[i])) out.types[i] = control;
    if (!out.types.empty() && out.types.size() != tokens) {
        return lengths_differ(file, "token types", out.types.size(), tokens);
    }
    if (!out.scores.empty() && out.scores.size() != tokens) {
        return lengths_differ(file, "token scores", out.scores.size(), tokens);
    }
    // SentencePiece's own ids, as llama.cpp has it.
    const bool pieces = out.model == "llama";
    RONDO_ASSIGN(out.bos_id, token_id(file, "tokenizer.ggml.bos_token_id", tokens, pieces ? 1 : -1));
    RONDO_ASSIGN(out.eos_id, token_id(file, "tokenizer.ggml.eos_token_id", tokens, pieces ? 2 : -1));
    RONDO_ASSIGN(out.unknown_id, token_id(file, "tokenizer.ggml.unknown_token_id", tokens, pieces ? 0 : -1));
    RONDO_ASSIGN(out.add_bos, file.boolean("tokenizer.ggml.add_bos_token", opens_with_bos(out)));
    RONDO_ASSIGN(out.add_eos, file.boolean("tokenizer.ggml.add_eos_token", false));
    RONDO_ASSIGN(out.add_space_prefix, file.boolean("tokenizer.ggml.add_space_prefix", true));
    return out;
}

Result<std::string> chat_template_from_gguf(const GgufFile& file) {
    return file.text("tokenizer.chat_template", limits::template_bytes_max, "");
}

Result<ModelSpec> spec_from_gguf(const GgufFile& file) {
    ModelSpec spec;
    RONDO_ASSIGN(spec.architecture, file.text("general.architecture", text_bytes_max, ""));
    RONDO_TRY(check_kind(file, spec.architecture));
    if (spec.architecture != "llama" && spec.architecture != "qwen2" && spec.architecture != "qwen3") {
        return unsupported(
            file, "architecture " + in_quotes(spec.architecture) + " is not supported; llama, qwen2 and qwen3 are");
    }
    const std::string prefix = spec.architecture + ".";
    RONDO_TRY(read_sizes(file, prefix, spec));
    RONDO_TRY(read_rope(file, prefix, spec));
    RONDO_TRY(read_switches(file, prefix, spec));
    RONDO_ASSIGN(const GgufVocabulary vocabulary, vocabulary_from_gguf(file));
    RONDO_ASSIGN(const int32_t eot, token_id(file, "tokenizer.ggml.eot_token_id", vocabulary.tokens.size(), -1));
    RONDO_ASSIGN(const int32_t eom, token_id(file, "tokenizer.ggml.eom_token_id", vocabulary.tokens.size(), -1));
    spec.bos_id = vocabulary.bos_id;
    collect_eos(vocabulary, eot, eom, spec);
    RONDO_TRY(check_spec(spec, file.where()));
    return spec;
}

}  // namespace rondo

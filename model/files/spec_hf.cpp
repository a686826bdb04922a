#include <algorithm>
#include <iterator>
#include <string_view>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/spec.hpp"
#include "model/files/strict_json.hpp"

namespace rondo {
namespace {

using Nulls = JsonFields::Nulls;

/// What the architectures do not say in config.json but in their code, and the defaults of keys that are absent.
struct Architecture {
    std::string_view class_name;
    std::string_view model_type;  // also the spec's name for it
    int64_t kv_heads_default;     // 0: as many as heads
    int64_t context_default;
    int64_t sliding_window_default;
    int64_t head_dim_default;   // 0: width / heads
    bool reads_attention_bias;  // for q, k, v and o alike
    bool always_qkv_bias;
    bool reads_mlp_bias;
    bool has_window_switch;  // use_sliding_window
    bool qk_norm;
    int32_t bos_default, eos_default;  // -1: none
};

constexpr Architecture architectures[] = {
    {"LlamaForCausalLM", "llama", 0, 2048, 0, 0, true, false, true, false, false, 1, 2},
    {"MistralForCausalLM", "mistral", 8, 131072, 4096, 0, false, false, false, false, false, 1, 2},
    {"Qwen2ForCausalLM", "qwen2", 32, 32768, 4096, 0, false, true, false, true, false, -1, -1},
    {"Qwen3ForCausalLM", "qwen3", 32, 32768, 4096, 128, true, false, false, true, true, -1, -1},
};

Result<const Architecture*> architecture_of(const JsonFields& fields, const std::string& where) {
    std::string name;
    const auto* listed = fields.find("architectures");
    if (listed != nullptr) {
        if (!listed->is_array() || listed->empty() || !listed->front().is_string()) {
            return fields.wrong("architectures", "a list of class names");
        }
        name = listed->front().get<std::string>();
    } else {
        RONDO_ASSIGN(name, fields.text("model_type", ""));
    }
    for (const Architecture& known : architectures) {
        if (name == (listed != nullptr ? known.class_name : known.model_type)) return &known;
    }
    return make_error(ErrorCode::unsupported,
                      where + ": architecture " + in_quotes(name) +
                          " is not supported; LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and "
                          "Qwen3ForCausalLM are");
}

/// Keys by which configurations of several families count their experts.
Status refuse_experts(const JsonFields& fields, const std::string& where) {
    for (const char* key : {"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"}) {
        const auto* count = fields.find(key);
        if (count == nullptr || !count->is_number() || count->get<double>() <= 1) continue;
        return make_error(ErrorCode::unsupported, where + ": a mixture of experts (" + key + " is " + count->dump() +
                                                      "), which is not supported; take a dense Llama, Mistral, Qwen2 "
                                                      "or Qwen3 model");
    }
    return {};
}

/// Keys that would change the forward pass in a way this engine does not compute.
Status refuse_variants(const JsonFields& fields, const std::string& where) {
    RONDO_ASSIGN(const std::string activation, fields.text("hidden_act", "silu"));
    if (activation != "silu") {
        return make_error(ErrorCode::unsupported,
                          where + ": hidden_act " + in_quotes(activation) + " is not supported; silu is");
    }
    if (const auto* quantized = fields.find("quantization_config"); quantized != nullptr) {
        std::string method;
        if (quantized->is_object() && quantized->contains("quant_method") && quantized->at("quant_method").is_string())
            method = " by " + in_quotes(quantized->at("quant_method").get<std::string>());
        return make_error(ErrorCode::unsupported, where + ": weights quantized" + method +
                                                      " (quantization_config) are not supported; take the F32, F16 or "
                                                      "BF16 safetensors or a GGUF file of the model");
    }
    RONDO_ASSIGN(const double rotated, fields.real("partial_rotary_factor", 0, 1, 1));
    if (rotated != 1) {
        return make_error(ErrorCode::unsupported, where + ": partial_rotary_factor is not supported; 1 is");
    }
    return {};
}

/// Absent, it is what the architecture's class says; null is a value of its own: as many as there are heads.
Result<int64_t> read_kv_heads(const JsonFields& fields, const nlohmann::json& config, const Architecture& architecture,
                              int64_t heads) {
    constexpr const char* key = "num_key_value_heads";
    if (config.contains(key) && fields.find(key) == nullptr) return heads;
    const int64_t of_class = architecture.kv_heads_default > 0 ? architecture.kv_heads_default : heads;
    return fields.integer(key, 1, limits::heads_max, of_class);
}

/// Where the class has no number of its own, null is as good as absent: the width is divided among the heads.
Result<int64_t> read_head_dim(const JsonFields& fields, const Architecture& architecture, int64_t width,
                              int64_t heads) {
    if (architecture.head_dim_default == 0 && fields.find("head_dim") == nullptr) {
        if (width % heads != 0) return fields.wrong("hidden_size", "a multiple of num_attention_heads");
        return width / heads;
    }
    return fields.integer("head_dim", 2, limits::head_size_max, architecture.head_dim_default);
}

Status read_sizes(const JsonFields& fields, const nlohmann::json& config, const Architecture& architecture,
                  ModelSpec& spec) {
    RONDO_ASSIGN(const int64_t layers, fields.integer("num_hidden_layers", 1, limits::layers_max));
    RONDO_ASSIGN(spec.width, fields.integer("hidden_size", 1, limits::model_width_max));
    RONDO_ASSIGN(const int64_t heads, fields.integer("num_attention_heads", 1, limits::heads_max));
    RONDO_ASSIGN(const int64_t kv_heads, read_kv_heads(fields, config, architecture, heads));
    RONDO_ASSIGN(const int64_t head_dim, read_head_dim(fields, architecture, spec.width, heads));
    RONDO_ASSIGN(spec.ffn_width, fields.integer("intermediate_size", 1, limits::model_width_max));
    RONDO_ASSIGN(spec.vocabulary, fields.integer("vocab_size", 1, limits::vocabulary_max));
    RONDO_ASSIGN(spec.context_tokens, fields.integer("max_position_embeddings", 1, limits::context_tokens_max,
                                                     architecture.context_default));
    RONDO_ASSIGN(const double eps, fields.real("rms_norm_eps", 1e-12, 1e-1, 1e-6));
    spec.layers = static_cast<int>(layers);
    spec.heads = static_cast<int>(heads);
    spec.kv_heads = static_cast<int>(kv_heads);
    spec.head_dim = static_cast<int>(head_dim);
    spec.norm_eps = static_cast<float>(eps);
    return {};
}

Status read_switches(const JsonFields& fields, const Architecture& architecture, ModelSpec& spec) {
    spec.qk_norm = architecture.qk_norm;
    spec.attention_bias = architecture.always_qkv_bias;
    RONDO_ASSIGN(spec.tied_embeddings, fields.boolean("tie_word_embeddings", false));
    if (architecture.reads_attention_bias) {
        RONDO_ASSIGN(spec.attention_bias, fields.boolean("attention_bias", false));
        spec.output_bias = spec.attention_bias;
    }
    if (architecture.reads_mlp_bias) {
        RONDO_ASSIGN(spec.mlp_bias, fields.boolean("mlp_bias", false));
    }
    return {};
}

Status read_sliding_window(const JsonFields& fields, const nlohmann::json& config, const Architecture& architecture,
                           ModelSpec& spec) {
    if (architecture.sliding_window_default == 0) return {};
    if (architecture.has_window_switch) {
        RONDO_ASSIGN(const bool used, fields.boolean("use_sliding_window", false));
        if (!used) return {};
        // Layers below max_window_layers attend to everything, so a window may be switched on and apply nowhere.
        RONDO_ASSIGN(const int64_t whole_layers, fields.integer("max_window_layers", 0, INT32_MAX, 28));
        if (whole_layers >= spec.layers) return {};
    }
    // Here null is a value of its own: no window.
    const auto written = config.find("sliding_window");
    if (written != config.end() && written->is_null()) return {};
    RONDO_ASSIGN(spec.sliding_window,
                 fields.integer("sliding_window", 1, limits::context_tokens_max, architecture.sliding_window_default));
    return {};
}

Status read_scaling(const JsonFields& fields, const std::string& where, const std::string& key, RopeSpec& rope) {
    RONDO_ASSIGN(std::string type, fields.text("type", "default"));
    RONDO_ASSIGN(type, fields.text("rope_type", type));
    if (type == "default") return {};
    if (type != "linear" && type != "llama3") {
        return make_error(ErrorCode::unsupported, where + ": " + key + " of type " + in_quotes(type) +
                                                      " is not supported; default, linear and llama3 are");
    }
    RONDO_ASSIGN(rope.factor, fields.real("factor", 1, 1e6));
    if (type == "linear") {
        rope.scaling = RopeSpec::Scaling::linear;
        return {};
    }
    rope.scaling = RopeSpec::Scaling::llama3;
    RONDO_ASSIGN(rope.low_frequency_factor, fields.real("low_freq_factor", 1e-3, 1e6));
    RONDO_ASSIGN(rope.high_frequency_factor, fields.real("high_freq_factor", 1e-3, 1e6));
    RONDO_ASSIGN(rope.original_context,
                 fields.integer("original_max_position_embeddings", 1, limits::context_tokens_max));
    if (rope.high_frequency_factor <= rope.low_frequency_factor) {
        return fields.wrong("high_freq_factor", "greater than low_freq_factor");
    }
    return {};
}

/// rope_theta and rope_scaling, or both inside rope_parameters as newer files have them.
Status read_rope(const JsonFields& fields, const std::string& where, ModelSpec& spec) {
    constexpr double theta_max = 1e15;
    RONDO_ASSIGN(spec.rope.theta, fields.real("rope_theta", 1, theta_max, 10000.0));
    for (const std::string key : {"rope_scaling", "rope_parameters"}) {
        const auto* object = fields.find(key);
        if (object == nullptr) continue;
        if (!object->is_object()) return fields.wrong(key, "an object");
        const JsonFields nested(*object, where, key + ".", Nulls::refused);
        spec.rope.scaling = RopeSpec::Scaling::none;
        RONDO_TRY(read_scaling(nested, where, key, spec.rope));
        RONDO_ASSIGN(spec.rope.theta, nested.real("rope_theta", 1, theta_max, spec.rope.theta));
        RONDO_ASSIGN(const double rotated, nested.real("partial_rotary_factor", 0, 1, 1));
        if (rotated != 1) {
            return make_error(ErrorCode::unsupported,
                              where + ": " + key + ".partial_rotary_factor is not supported; 1 is");
        }
    }
    return {};
}

/// Adds the ids of eos_token_id, a number or a list of numbers, that are not there yet.
Status read_eos(const JsonFields& fields, ModelSpec& spec) {
    constexpr size_t ids_max = 64;
    const auto* value = fields.find("eos_token_id");
    if (value == nullptr) return {};
    const auto ids = value->is_array() ? *value : nlohmann::json::array({*value});
    const Error wrong = fields.wrong("eos_token_id", "a token id below " + std::to_string(spec.vocabulary) +
                                                         " or a list of up to " + std::to_string(ids_max));
    if (ids.size() > ids_max) return wrong;
    for (const auto& item : ids) {
        if (!item.is_number_unsigned() || item.get<uint64_t>() >= static_cast<uint64_t>(spec.vocabulary)) return wrong;
        const auto id = item.get<int32_t>();
        if (std::find(spec.eos_ids.begin(), spec.eos_ids.end(), id) == spec.eos_ids.end()) spec.eos_ids.push_back(id);
    }
    return {};
}

}  // namespace

Result<ModelSpec> spec_from_hf(const std::string& config_json, const std::string& generation_json,
                               const std::string& where) {
    RONDO_ASSIGN(const auto config, parse_json_object(config_json, where));
    // Null is refused but for the keys that Hugging Face itself writes so; those are looked for by `find`.
    const JsonFields fields(config, where, "", Nulls::refused);
    RONDO_TRY(refuse_experts(fields, where));  // whose architectures would be refused without the reason
    RONDO_ASSIGN(const Architecture* architecture, architecture_of(fields, where));
    ModelSpec spec;
    spec.architecture = architecture->model_type;
    RONDO_TRY(refuse_variants(fields, where));
    RONDO_TRY(read_sizes(fields, config, *architecture, spec));
    RONDO_TRY(read_switches(fields, *architecture, spec));
    RONDO_TRY(read_sliding_window(fields, config, *architecture, spec));
    RONDO_TRY(read_rope(fields, where, spec));
    // Null is "none"; a key that is not there has the class's default.
    const auto default_of = [&](const char* key, int32_t id) {
        return !config.contains(key) && id < spec.vocabulary ? id : -1;
    };
    spec.bos_id = default_of("bos_token_id", architecture->bos_default);
    if (fields.find("bos_token_id") != nullptr) {
        RONDO_ASSIGN(const int64_t bos, fields.integer("bos_token_id", 0, spec.vocabulary - 1));
        spec.bos_id = static_cast<int32_t>(bos);
    }
    RONDO_TRY(read_eos(fields, spec));
    if (!generation_json.empty()) {
        const std::string generation_where = where + " (generation_config.json)";
        RONDO_ASSIGN(const auto generation, parse_json_object(generation_json, generation_where));
        RONDO_TRY(read_eos(JsonFields(generation, generation_where), spec));
    }
    if (const int32_t eos = default_of("eos_token_id", architecture->eos_default); spec.eos_ids.empty() && eos >= 0)
        spec.eos_ids.push_back(eos);
    RONDO_TRY(check_spec(spec, where));
    return spec;
}

}  // namespace rondo

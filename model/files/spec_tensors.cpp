#include "model/files/spec_tensors.hpp"

#include <string_view>
#include <unordered_set>
#include <utility>

#include "config/in_quotes.hpp"

namespace rondo {
namespace {

std::string shown(const std::vector<int64_t>& shape) {
    std::string out = "[";
    for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
    return out + "]";
}

void add_layer(const ModelSpec& spec, int layer, std::vector<SpecTensor>& out) {
    using Kind = SpecTensor::Kind;
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const int64_t q_width = int64_t{spec.heads} * spec.head_dim;
    const int64_t kv_width = int64_t{spec.kv_heads} * spec.head_dim;
    const auto norm = [&](const char* name, int64_t width) {
        out.push_back({prefix + name + ".weight", Kind::norm, {width}});
    };
    const auto linear = [&](const char* name, int64_t outputs, int64_t inputs, bool bias) {
        out.push_back({prefix + name + ".weight", Kind::matrix, {outputs, inputs}});
        if (bias) out.push_back({prefix + name + ".bias", Kind::bias, {outputs}});
    };
    norm("input_layernorm", spec.width);
    linear("self_attn.q_proj", q_width, spec.width, spec.attention_bias);
    linear("self_attn.k_proj", kv_width, spec.width, spec.attention_bias);
    linear("self_attn.v_proj", kv_width, spec.width, spec.attention_bias);
    if (spec.qk_norm) {
        norm("self_attn.q_norm", spec.head_dim);
        norm("self_attn.k_norm", spec.head_dim);
    }
    linear("self_attn.o_proj", spec.width, q_width, spec.output_bias);
    norm("post_attention_layernorm", spec.width);
    linear("mlp.gate_proj", spec.ffn_width, spec.width, spec.mlp_bias);
    linear("mlp.up_proj", spec.ffn_width, spec.width, spec.mlp_bias);
    linear("mlp.down_proj", spec.width, spec.ffn_width, spec.mlp_bias);
}

Status check_tensor(const SpecTensor& wanted, const WeightsFile& weights, const std::string& where) {
    const std::string label = where + ": tensor " + in_quotes(wanted.name);
    const FileTensor* tensor = weights.find(wanted.name);
    if (tensor == nullptr) {
        return make_error(ErrorCode::not_found,
                          label + " is missing; the model needs it with shape " + shown(wanted.shape));
    }
    if (tensor->shape != wanted.shape) {
        return make_error(ErrorCode::corrupt,
                          label + " has shape " + shown(tensor->shape) + "; the model needs " + shown(wanted.shape));
    }
    const bool floats_only = wanted.kind != SpecTensor::Kind::matrix;
    if (!tensor->usable || (floats_only && is_quantized(tensor->dtype))) {
        return make_error(ErrorCode::unsupported, label + " has type " + in_quotes(tensor->file_type) + "; " +
                                                      (floats_only ? "F32, F16 and BF16 are supported here"
                                                                   : "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
                                                                     "Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL and IQ4_XS "
                                                                     "are supported"));
    }
    return {};
}

bool is_passed_over(std::string_view name, const ModelSpec& spec) {
    return name.ends_with(".rotary_emb.inv_freq") || name == "rope_freqs.weight" ||
           (spec.tied_embeddings && name == "lm_head.weight");
}

}  // namespace

std::vector<SpecTensor> spec_tensors(const ModelSpec& spec) {
    using Kind = SpecTensor::Kind;
    std::vector<SpecTensor> out;
    out.push_back({"model.embed_tokens.weight", Kind::matrix, {spec.vocabulary, spec.width}});
    for (int layer = 0; layer < spec.layers; ++layer) add_layer(spec, layer, out);
    out.push_back({"model.norm.weight", Kind::norm, {spec.width}});
    if (!spec.tied_embeddings) out.push_back({"lm_head.weight", Kind::matrix, {spec.vocabulary, spec.width}});
    return out;
}

Status check_weights(const ModelSpec& spec, const WeightsFile& weights, const std::string& where) {
    const std::vector<SpecTensor> wanted = spec_tensors(spec);
    std::unordered_set<std::string_view> names;
    for (const SpecTensor& tensor : wanted) {
        RONDO_TRY(check_tensor(tensor, weights, where));
        names.insert(tensor.name);
    }
    for (const FileTensor& tensor : weights.tensors()) {
        if (names.contains(tensor.name) || is_passed_over(tensor.name, spec)) continue;
        return make_error(ErrorCode::unsupported, where + ": tensor " + in_quotes(tensor.name) + " has no place in a " +
                                                      spec.architecture + " model of " + std::to_string(spec.layers) +
                                                      " layers as its configuration describes it");
    }
    return {};
}

}  // namespace rondo

#include "model/files/spec.hpp"

#include <cmath>
#include <numbers>

#include "config/limits.hpp"
#include "model/files/spec_tensors.hpp"

namespace rondo {
namespace {

/// Llama 3.1's scaling: wavelengths the original context holds often enough stay, those it never holds whole are
/// stretched by the factor, and those between are blended.
double llama3_scaled(const RopeSpec& rope, double frequency) {
    const double turns = static_cast<double>(rope.original_context) * frequency / (2.0 * std::numbers::pi);
    if (turns > rope.high_frequency_factor) return frequency;
    if (turns < rope.low_frequency_factor) return frequency / rope.factor;
    const double kept = (turns - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
    return (1.0 - kept) * frequency / rope.factor + kept * frequency;
}

struct Bounded {
    const char* name;
    int64_t value;
    int64_t most;
};

}  // namespace

std::vector<double> ModelSpec::inverse_frequency() const {
    std::vector<double> out(static_cast<size_t>(head_dim / 2));
    for (size_t i = 0; i < out.size(); ++i) {
        double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / head_dim);
        if (rope.scaling == RopeSpec::Scaling::linear) frequency /= rope.factor;
        if (rope.scaling == RopeSpec::Scaling::llama3) frequency = llama3_scaled(rope, frequency);
        if (i < rope.frequency_divisors.size()) frequency /= rope.frequency_divisors[i];
        out[i] = frequency;
    }
    return out;
}

int64_t ModelSpec::parameters() const {
    int64_t total = 0;
    for (const SpecTensor& tensor : spec_tensors(*this)) total += tensor.elements();
    return total;
}

Status check_spec(const ModelSpec& spec, const std::string& where) {
    const Bounded sizes[] = {
        {"number of layers", spec.layers, limits::layers_max},
        {"width", spec.width, limits::model_width_max},
        {"number of heads", spec.heads, limits::heads_max},
        {"number of key-value heads", spec.kv_heads, limits::heads_max},
        {"head size", spec.head_dim, limits::head_size_max},
        {"feed-forward width", spec.ffn_width, limits::model_width_max},
        {"vocabulary", spec.vocabulary, limits::vocabulary_max},
        {"context", spec.context_tokens, limits::context_tokens_max},
    };
    for (const Bounded& size : sizes) {
        if (size.value >= 1 && size.value <= size.most) continue;
        return make_error(ErrorCode::out_of_range, where + ": the " + size.name + " is " + std::to_string(size.value) +
                                                       "; it must be from 1 to " + std::to_string(size.most));
    }
    if (spec.heads % spec.kv_heads != 0) {
        return make_error(ErrorCode::invalid_argument, where + ": " + std::to_string(spec.heads) +
                                                           " heads cannot share " + std::to_string(spec.kv_heads) +
                                                           " key-value heads; the first must be a multiple");
    }
    if (spec.head_dim % 2 != 0) {
        return make_error(ErrorCode::invalid_argument,
                          where + ": the head size is " + std::to_string(spec.head_dim) + "; it must be even");
    }
    std::vector<int32_t> ids = spec.eos_ids;
    if (spec.bos_id >= 0) ids.push_back(spec.bos_id);
    for (const int32_t id : ids) {
        if (id >= 0 && id < spec.vocabulary) continue;
        return make_error(ErrorCode::invalid_argument, where + ": special token id " + std::to_string(id) +
                                                           " is not below the vocabulary, " +
                                                           std::to_string(spec.vocabulary));
    }
    return {};
}

}  // namespace rondo

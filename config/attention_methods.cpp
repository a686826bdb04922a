#include "config/attention_methods.hpp"

#include <algorithm>

#include "config/setting_keys.hpp"
#include "config/yaml_tree.hpp"

namespace rondo {

namespace {

bool has(MethodSlot slot, std::string_view method) {
    return std::ranges::count(names_of_methods(slot), method) > 0;
}

template <class Method>
Method named(MethodSlot slot, std::string_view name) {
    const auto names = names_of_methods(slot);
    return static_cast<Method>(std::ranges::find(names, name) - names.begin());
}

std::string_view name_of(MethodSlot slot, int method) {
    return names_of_methods(slot)[static_cast<size_t>(method)];
}

/// "loopserve" for what the preset fills in, "snapkv" where one phase is dense, else "a_shape+snapkv".
std::string name_of(const AttentionMethod& method) {
    using Prefill = PrefillAttention::Method;
    using Decode = DecodeAttention::Method;
    if (method.is_dense()) return "dense";
    if (method.prefill.method == Prefill::loopserve && method.decode.method == Decode::progressive) return "loopserve";
    const std::string prompt(name_of(MethodSlot::prefill, static_cast<int>(method.prefill.method)));
    const std::string answer(name_of(MethodSlot::decode, static_cast<int>(method.decode.method)));
    if (method.prefill.method == Prefill::dense) return answer;
    // "loopserve" alone says both phases.
    if (method.decode.method == Decode::dense && method.prefill.method != Prefill::loopserve) return prompt;
    return prompt + "+" + answer;
}

/// The method that `name` alone stands for: a preset sets both phases, one phase's method leaves the other dense.
AttentionMethod with(AttentionMethod method, const std::string& name) {
    method.name = name;
    if (has(MethodSlot::preset, name)) {
        Settings preset;
        preset.preset = name;
        apply_preset(preset);
        method.prefill.method = preset.pipeline.prefill.attention.method;
        method.decode.method = preset.pipeline.decode.attention.method;
    } else if (has(MethodSlot::prefill, name)) {
        method.prefill.method = named<PrefillAttention::Method>(MethodSlot::prefill, name);
        method.decode.method = DecodeAttention::Method::dense;
    } else {
        method.prefill.method = PrefillAttention::Method::dense;
        method.decode.method = named<DecodeAttention::Method>(MethodSlot::decode, name);
    }
    return method;
}

}  // namespace

Result<std::string> method_key(std::string_view method) {
    if (has(MethodSlot::preset, method)) return std::string("preset");
    if (has(MethodSlot::prefill, method)) return std::string("pipeline.prefill.attention.method");
    if (has(MethodSlot::decode, method)) return std::string("pipeline.decode.attention.method");
    return make_error(ErrorCode::unsupported,
                      "--method " + shown(method) + ": must be " + listed(names_of_methods(MethodSlot::any)));
}

Result<std::vector<std::string>> method_settings(std::string_view method) {
    RONDO_TRY(method_key(method));
    const AttentionMethod made = with({}, std::string(method));
    return std::vector{"pipeline.prefill.attention.method=" +
                           std::string(name_of(MethodSlot::prefill, static_cast<int>(made.prefill.method))),
                       "pipeline.decode.attention.method=" +
                           std::string(name_of(MethodSlot::decode, static_cast<int>(made.decode.method)))};
}

bool has_budget(const DecodeAttention& decode) {
    return decode.method != DecodeAttention::Method::dense;
}

std::vector<AttentionMethod> attention_methods(const PipelineSettings& pipeline) {
    AttentionMethod configured{"", pipeline.prefill.attention, pipeline.decode.attention};
    configured.name = name_of(configured);
    std::vector<AttentionMethod> all{configured};
    const auto add = [&](const std::string& name) {
        if (std::ranges::count(all, name, &AttentionMethod::name) == 0) all.push_back(with(configured, name));
    };
    add("dense");
    for (const std::string& name : pipeline.methods) add(name);
    return all;
}

}  // namespace rondo

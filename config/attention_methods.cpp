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

/// The preset that fills in both phases' methods, and this one of rounds; "": there is none.
std::string preset_of(const AttentionMethod& method, RoundSettings::Method rounds) {
    for (const Preset& preset : presets)
        if (method.prefill.method == preset.prefill && method.decode.method == preset.decode && preset.rounds == rounds)
            return std::string(preset.name);
    return {};
}

/// "loopserve" for what the preset fills in, "snapkv" where one phase is dense, else "a_shape+snapkv".
std::string name_of_phases(const AttentionMethod& method) {
    if (std::string preset = preset_of(method, RoundSettings::Method::none); !preset.empty()) return preset;
    const std::string prompt(row_of(method.prefill.method).name), answer(row_of(method.decode.method).name);
    if (method.prefill.method == PrefillAttention::Method::dense) return answer;
    // A preset's name alone says both phases.
    if (method.decode.method == DecodeAttention::Method::dense && !has(MethodSlot::preset, prompt)) return prompt;
    return prompt + "+" + answer;
}

std::string name_of(const AttentionMethod& method) {
    if (std::string preset = preset_of(method, method.rounds.method); !preset.empty()) return preset;
    const std::string phases = name_of_phases(method), rounds(row_of(method.rounds.method).name);
    if (!method.chooses_rounds()) return phases;
    return phases == presets[0].name ? rounds : phases + "+" + rounds;
}

/// The method that `name` alone stands for: a preset sets both phases, one phase's method leaves the other dense. Where
/// it is none of rounds, all of them are attended to.
AttentionMethod with(AttentionMethod method, const std::string& name) {
    method.name = name;
    method.rounds.method = RoundSettings::Method::none;
    if (has(MethodSlot::rounds, name)) {
        method.prefill.method = PrefillAttention::Method::dense;
        method.decode.method = DecodeAttention::Method::dense;
        method.rounds.method = named<RoundSettings::Method>(MethodSlot::rounds, name);
    } else if (has(MethodSlot::preset, name)) {
        Settings preset;
        preset.preset = name;
        apply_preset(preset);
        method.prefill.method = preset.pipeline.prefill.attention.method;
        method.decode.method = preset.pipeline.decode.attention.method;
        method.rounds.method = preset.pipeline.rounds.method;
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
    if (has(MethodSlot::rounds, method) && method != row_of(RoundSettings::Method::none).name)
        return std::string("pipeline.rounds.method");
    return make_error(ErrorCode::unsupported,
                      "--method " + shown(method) + ": must be " + listed(names_of_methods(MethodSlot::any)));
}

Result<std::vector<std::string>> method_settings(std::string_view method) {
    RONDO_TRY(method_key(method));
    const AttentionMethod made = with({}, std::string(method));
    return std::vector{"pipeline.prefill.attention.method=" + std::string(row_of(made.prefill.method).name),
                       "pipeline.decode.attention.method=" + std::string(row_of(made.decode.method).name),
                       "pipeline.rounds.method=" + std::string(row_of(made.rounds.method).name)};
}

bool has_budget(const DecodeAttention& decode) {
    return decode.method != DecodeAttention::Method::dense;
}

std::vector<AttentionMethod> attention_methods(const PipelineSettings& pipeline) {
    AttentionMethod configured{"", pipeline.prefill.attention, pipeline.decode.attention, pipeline.rounds};
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

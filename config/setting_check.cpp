#include "config/setting_check.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <type_traits>

#include "config/limits.hpp"
#include "config/method_names.hpp"
#include "config/yaml_tree.hpp"

namespace rondo {

namespace {

template <class Value>
constexpr bool is_choice = std::is_enum_v<Value> || std::is_same_v<Value, bool>;

/// An enum's value is its name's place among the names.
template <class Choice>
requires is_choice<Choice>
bool allows(const SettingKey& key, Choice value) {
    const auto place = static_cast<int64_t>(value);
    return place >= 0 && place < std::ssize(key.names);
}

template <class Value>
std::string described(const Value& value) {
    if constexpr (std::is_same_v<Value, std::string>) {
        return shown(value);
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
        return value.size() == 1 ? "[" + shown(value[0]) + "]" : "a list of " + std::to_string(value.size());
    } else if constexpr (std::is_same_v<Value, double>) {
        std::array<char, 32> text{};
        return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
    } else {
        return std::to_string(static_cast<int64_t>(value));
    }
}

std::optional<WrongSetting> wrong_names(const Settings& settings) {
    const std::vector<DeviceSettings>& devices = settings.devices;
    if (devices.empty() || devices.size() > limits::devices_max)
        return WrongSetting{"devices", "are " + std::to_string(devices.size()) + ", must be 1 to " +
                                           std::to_string(limits::devices_max)};
    for (auto device = devices.begin(); device != devices.end(); ++device) {
        if (!is_word(device->name))
            return WrongSetting{"devices",
                                "one is called " + shown(device->name) + ", must be 1 to 32 letters, digits, _ or -"};
        if (std::find_if(devices.begin(), device, [&](const auto& one) { return one.name == device->name; }) != device)
            return WrongSetting{"devices." + device->name, "is there twice, must be there once"};
    }
    return std::nullopt;
}

std::optional<WrongSetting> wrong_value(const SettingKey& key, const std::string& path, const SettingSlot& slot) {
    return std::visit(
        [&](const auto* value) -> std::optional<WrongSetting> {
            if (allows(key, *value)) return std::nullopt;
            return WrongSetting{path, "is " + described(*value) + ", must be " + key.expects()};
        },
        slot);
}

std::optional<WrongSetting> wrong_values(const Settings& settings) {
    constexpr std::string_view of_each = "devices.*";
    Settings copy = settings;  // slots are for writing
    for (const SettingKey& key : setting_keys()) {
        if (!key.path.starts_with(of_each)) {
            if (auto wrong = wrong_value(key, std::string(key.path), key.slot(copy, ""))) return wrong;
            continue;
        }
        for (const DeviceSettings& device : settings.devices) {
            const std::string path = "devices." + device.name + std::string(key.path.substr(of_each.size()));
            if (auto wrong = wrong_value(key, path, key.slot(copy, device.name))) return wrong;
        }
    }
    return std::nullopt;
}

std::optional<WrongSetting> wrong_devices(const Settings& settings) {
    for (const DeviceSettings& device : settings.devices) {
        const bool is_cpu = device.kind == DeviceSettings::Kind::cpu;
        const int idle = is_cpu ? device.ordinal : device.threads;
        if (idle != 0)
            return WrongSetting{
                "devices." + device.name + (is_cpu ? ".ordinal" : ".threads"),
                "is " + std::to_string(idle) + ", must be 0 where kind is " + (is_cpu ? "cpu" : "cuda")};
    }
    for (const DeviceSettings& device : settings.devices) {
        if (device.kind == DeviceSettings::Kind::cuda && device.bf16 != DeviceSettings::Bf16::measured)
            return WrongSetting{"devices." + device.name + ".bf16", "must be measured where kind is cuda"};
    }
    return std::nullopt;
}

std::optional<WrongSetting> wrong_attention(const PipelineSettings& pipeline) {
    const PrefillAttention& lines = pipeline.prefill.attention;
    const bool literal = lines.overlap == PrefillAttention::Overlap::literal;
    if (literal && lines.alpha_of == PrefillAttention::AlphaOf::each_row)
        return WrongSetting{"pipeline.prefill.attention.alpha_of", "is each_row, must be sum where overlap is literal"};
    for (const auto& [name, keys] :
         {std::pair("first_keys", lines.first_keys), std::pair("near_keys", lines.near_keys)}) {
        if (literal && keys > 0)
            return WrongSetting{std::string("pipeline.prefill.attention.") + name,
                                "is " + std::to_string(keys) + ", must be 0 where overlap is literal"};
    }
    const DecodeAttention& chosen = pipeline.decode.attention;
    if (chosen.lag_steps >= chosen.reselect_every)
        return WrongSetting{"pipeline.decode.attention.lag_steps", "is " + std::to_string(chosen.lag_steps) +
                                                                       ", must be below reselect_every, which is " +
                                                                       std::to_string(chosen.reselect_every)};
    const MethodRow& answers = row_of(chosen.method);
    const bool answers_go = chosen.method == DecodeAttention::Method::dense || answers.when == ChoosesWhen::again;
    if (!answers_go && pipeline.rounds.method != RoundSettings::Method::none)
        return WrongSetting{"pipeline.rounds.method",
                            "is " + std::string(row_of(pipeline.rounds.method).name) +
                                ", must be none where answers do not choose keys again and again (" +
                                std::string(answers.name) + ")"};
    return std::nullopt;
}

/// Whether a GPU can compute what a name of `pipeline.methods` stands for.
bool is_for_gpus(const std::string& method) {
    const auto rounds = names_of_methods(MethodSlot::rounds);
    return method == presets[0].name || std::ranges::count(rounds, method) > 0;
}

/// What GPUs cannot compute yet is refused here, and not by each request.
std::optional<WrongSetting> wrong_methods(const PipelineSettings& pipeline) {
    constexpr const char* methods = "pipeline.methods";
    for (const auto& [path, dense] : {std::pair("pipeline.prefill.attention.method",
                                                pipeline.prefill.attention.method == PrefillAttention::Method::dense),
                                      std::pair("pipeline.decode.attention.method",
                                                pipeline.decode.attention.method == DecodeAttention::Method::dense),
                                      std::pair(methods, std::ranges::all_of(pipeline.methods, is_for_gpus))}) {
        if (dense) continue;
        const char* const may_be = path == methods ? "dense or of rounds" : "dense";
        return WrongSetting{path, std::string("must be ") + may_be + " on a GPU; CPUs have the others"};
    }
    return std::nullopt;
}

}  // namespace

bool is_word(std::string_view name) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return !name.empty() && name.size() <= 32 && name.find_first_not_of(allowed) == std::string_view::npos;
}

bool allows(const SettingKey& key, int value) {
    return value >= key.low && value <= key.high;
}

bool allows(const SettingKey&, double value) {
    return value > 0.0 && value <= 1.0;
}

bool allows(const SettingKey& key, const std::string& value) {
    return key.valid != nullptr ? key.valid(value) : std::ranges::count(key.names, value) > 0;
}

bool allows(const SettingKey& key, const std::vector<std::string>& value) {
    if (!key.list) return value.size() == 1;
    return std::ssize(value) >= key.low &&
           std::ranges::all_of(value, [&](const std::string& one) { return allows(key, one); });
}

std::optional<WrongSetting> wrong_together(const Settings& settings) {
    if (auto wrong = wrong_devices(settings)) return wrong;
    if (auto wrong = wrong_attention(settings.pipeline)) return wrong;
    if (const Result<DeviceRoles, WrongSetting> roles = device_roles(settings); !roles) return roles.error();
    const bool on_cpu = settings.device(settings.pipeline.decode.on[0])->kind == DeviceSettings::Kind::cpu;
    return on_cpu ? std::nullopt : wrong_methods(settings.pipeline);
}

Status check_settings(const Settings& settings) {
    std::optional<WrongSetting> wrong = wrong_names(settings);
    if (!wrong) wrong = wrong_values(settings);
    if (!wrong) wrong = wrong_together(settings);
    if (!wrong) return {};
    return make_error(ErrorCode::invalid_argument, "settings: " + wrong->path + ": " + wrong->what);
}

}  // namespace rondo

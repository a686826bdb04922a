#include "config/device_roles.hpp"

#include <algorithm>

#include "config/did_you_mean.hpp"
#include "config/setting_keys.hpp"
#include "config/yaml_tree.hpp"

namespace rondo {

namespace {

constexpr const char* prompts_path = "pipeline.prefill.on";
constexpr const char* answers_path = "pipeline.decode.on";

std::string in_brackets(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return "[" + text + "]";
}

/// Whether a device of the settings is called so; else what it must be.
std::string objection(const Settings& settings, const std::string& name) {
    if (settings.device(name) != nullptr) return {};
    std::vector<std::string_view> names;
    for (const DeviceSettings& device : settings.devices) names.push_back(device.name);
    return "is [" + shown(name) + "], must name one of devices: " + listed(names) + did_you_mean(name, names);
}

/// CPU devices do, and those of one GPU.
bool share_memory(const DeviceSettings& a, const DeviceSettings& b) {
    return a.kind == b.kind && (a.kind == DeviceSettings::Kind::cpu || a.ordinal == b.ordinal);
}

}  // namespace

bool DeviceRoles::has(std::string_view name) const {
    return std::ranges::find(names, name) != names.end();
}

Result<DeviceRoles, WrongSetting> device_roles(const Settings& settings) {
    const std::vector<std::string>&prompts = settings.pipeline.prefill.on, &answers = settings.pipeline.decode.on;
    if (prompts.empty()) return WrongSetting{prompts_path, "is empty, must name a device"};
    if (answers.size() != 1) return WrongSetting{answers_path, "is " + in_brackets(answers) + ", must name one device"};
    for (const auto& [path, on] : {std::pair(prompts_path, &prompts), std::pair(answers_path, &answers)})
        for (const std::string& name : *on)
            if (const std::string why = objection(settings, name); !why.empty()) return WrongSetting{path, why};
    for (auto name = prompts.begin(); name != prompts.end(); ++name)
        if (std::find(prompts.begin(), name, *name) != name)
            return WrongSetting{prompts_path, "names " + *name + " twice, must name each device once"};
    const DeviceSettings& first = *settings.device(prompts[0]);
    if (std::ranges::any_of(prompts, [&](const auto& name) { return !share_memory(first, *settings.device(name)); }))
        return WrongSetting{prompts_path,
                            "is " + in_brackets(prompts) + ", must be CPU devices, which share memory, or one GPU"};
    DeviceRoles roles{prompts, prompts.size(), 0};
    roles.answers = static_cast<size_t>(std::ranges::find(prompts, answers[0]) - prompts.begin());
    if (roles.answers < roles.prompts) return roles;
    if (!share_memory(first, *settings.device(answers[0])))
        return WrongSetting{answers_path, "is " + in_brackets(answers) + ", must be a device of pipeline.prefill.on, " +
                                              in_brackets(prompts) +
                                              ", or all must be CPU devices, which share memory"};
    roles.names.push_back(answers[0]);
    return roles;
}

Result<DeviceRoles> checked_device_roles(const Settings& settings) {
    Result<DeviceRoles, WrongSetting> roles = device_roles(settings);
    if (roles) return std::move(roles).value();
    return make_error(ErrorCode::invalid_argument, roles.error().path + ": " + roles.error().what);
}

}  // namespace rondo

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/setting_keys.hpp"

namespace rondo::testing {

/// Settings with one key that has another value.
struct ChangedKey {
    std::string name;  ///< below the phase's attention
    Settings settings;
};

/// Each key of a phase ("pipeline.decode.attention."), but its method and its budget, with several values.
inline std::vector<ChangedKey> changed_keys(std::string_view phase, const std::vector<std::string>& base) {
    std::vector<ChangedKey> all;
    for (const SettingKey& key : setting_keys()) {
        if (!key.path.starts_with(phase)) continue;
        const std::string name(key.path.substr(phase.size()));
        if (name == "method" || name == "budget_tokens") continue;
        std::vector<std::string> values = {"0", "1", "2", "5", "0.3"};
        values.insert(values.end(), key.names.begin(), key.names.end());
        for (const std::string& value : values) {
            std::vector<std::string> overrides = base;
            overrides.push_back(std::string(key.path) + "=" + value);
            const auto settings = settings_from_yaml("", "test", overrides);
            if (settings) all.push_back({name, *settings});  // else it is no value of this key
        }
    }
    return all;
}

}  // namespace rondo::testing

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/device_roles.hpp"
#include "config/setting_keys.hpp"

namespace rondo {

/// Whether a key may have this value: one list of limits for files, command lines and hosts.
bool allows(const SettingKey& key, int value);
bool allows(const SettingKey& key, double value);
bool allows(const SettingKey& key, const std::string& value);
bool allows(const SettingKey& key, const std::vector<std::string>& value);

/// What a device may be called, and what an error may show without quotes.
bool is_word(std::string_view name);

/// What concerns several keys: settings that would do nothing, and devices that are not there. Each key's own value
/// must be right already.
std::optional<WrongSetting> wrong_together(const Settings& settings);

}  // namespace rondo

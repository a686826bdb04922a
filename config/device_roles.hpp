#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "config/settings.hpp"

namespace rondo {

/// Which devices a pipeline computes with, and what each of them does. A device has one place, whatever it does.
struct DeviceRoles {
    std::vector<std::string> names;  ///< as `devices` calls them: those of prompts, then that of answers if it is none
    size_t prompts = 1;              ///< so many, the first ones, compute prompts
    size_t answers = 0;              ///< the place of the one that computes answers

    bool has(std::string_view name) const;
};

/// What is wrong with a setting: its path, and what it is and must be.
struct WrongSetting {
    std::string path, what;
};

/// What pipeline.prefill.on and pipeline.decode.on say.
Result<DeviceRoles, WrongSetting> device_roles(const Settings& settings);
/// The same for settings that nobody has checked.
Result<DeviceRoles> checked_device_roles(const Settings& settings);

}  // namespace rondo

#pragma once

#include <string>
#include <string_view>

#include "config/settings.hpp"

namespace rondo {

/// All keys that begin so, with their values, a line each: equal texts are equal settings.
std::string setting_values(const Settings& settings, std::string_view begin);

}  // namespace rondo

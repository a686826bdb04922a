#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rondo {

/// "; did you mean X?" where one of the names is near to what was given, else nothing.
std::string did_you_mean(std::string_view given, std::span<const std::string_view> names);

}  // namespace rondo

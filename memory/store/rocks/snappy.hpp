#pragma once

#include <string>
#include <string_view>

#include "config/result.hpp"

namespace rondo {

/// What Snappy has compressed. `corrupt` where it is no whole piece of that.
Result<std::string> expand_snappy(std::string_view packed);

}  // namespace rondo

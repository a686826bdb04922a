#pragma once

#include <string>
#include <string_view>

#include "config/result.hpp"

namespace rondo {

/// What a user may call a conversation: 1 to 200 characters of printable UTF-8, and not spaces alone.
bool is_title(std::string_view text);
Status check_title(std::string_view text);
/// The title of a conversation that nobody gave one: the beginning of the first line that says something.
std::string title_of(std::string_view message);

}  // namespace rondo

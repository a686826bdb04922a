#pragma once

#include <string>
#include <string_view>

#include "config/result.hpp"

namespace rondo {

/// Whether a template finds this name without anybody's doing: the conversation, the special tokens, functions. No
/// request may put something else in its place.
bool is_reserved_variable(std::string_view name);

/// What a request gives a template beside the conversation, as a JSON object's text ("" for nothing): small, flat
/// enough, and none of the reserved names. An error says which name or bound.
Status check_template_variables(std::string_view json);

}  // namespace rondo

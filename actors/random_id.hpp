#pragma once

#include <string>
#include <string_view>

namespace rondo {

/// Unlike any other, as far as chance goes, over restarts too. From any thread.
std::string random_id(std::string_view prefix);

}  // namespace rondo

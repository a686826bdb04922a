#pragma once

#include <string_view>

namespace rondo::cli::eval {

/// In what a method chooses otherwise than its authors' published code does; empty where nothing was found, and for
/// methods without authors.
std::string_view deviation_of(std::string_view method);

}  // namespace rondo::cli::eval

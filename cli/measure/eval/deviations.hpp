#pragma once

#include <string_view>

namespace rondo::cli::eval {

/// How a method's choices differ from those of its authors' published code. Empty where no difference was found, and
/// for methods without authors.
std::string_view deviation_of(std::string_view method);

}  // namespace rondo::cli::eval

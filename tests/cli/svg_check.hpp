#pragma once

#include <string_view>

namespace rondo::testing {

/// A drawing that every reader of XML takes: elements are closed in turn, attributes are quoted and stand once, no
/// text is taken for markup, and every coordinate is a number.
void expect_sound_svg(std::string_view svg);

}  // namespace rondo::testing

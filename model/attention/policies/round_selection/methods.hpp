#pragma once

#include "model/attention/policies/round_selection/round_selection.hpp"

/// The maker of each row, make_NAME, which the method's file defines.
namespace rondo {

#define RONDO_METHOD(method, ...) std::unique_ptr<RoundSelection> make_##method(const RoundSettings& settings);
#include "config/round_methods.inc"

}  // namespace rondo

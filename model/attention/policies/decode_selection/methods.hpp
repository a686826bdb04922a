#pragma once

#include <memory>

#include "model/attention/policies/decode_selection/decode_selection.hpp"

/// The maker of each row, make_NAME, which the method's file defines.
namespace rondo {

#define RONDO_METHOD(method, ...) std::unique_ptr<DecodeSelection> make_##method(const DecodeAttention& settings);
#include "config/decode_methods.inc"

}  // namespace rondo

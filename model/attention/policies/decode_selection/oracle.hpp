#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "model/attention/policies/decode_selection/decode_selection.hpp"

namespace rondo {

/// A control for an evaluation that knows where the answer stands: the keys of the ranges [first, last) of `gold`, and
/// the most recent ones until the budget is full. Gold beyond the budget, in the order given, and beyond the keys there
/// are is left out.
std::unique_ptr<DecodeSelection> make_oracle_selection(const DecodeAttention& settings,
                                                       std::vector<std::pair<int32_t, int32_t>> gold);

}  // namespace rondo

#pragma once

#include "model/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

/// The first keys and the nearest `bands` blocks of every row, which A-shape and Tri-shape share. Both are meant for
/// 128 first keys and 3968 near ones; here the keys grow with the window at that rate, but are never fewer than 4.
void add_local_window(const ChunkShape& chunk, int64_t bands, Lines& lines);

/// The width of the window that the methods were made for.
inline constexpr double local_window_keys = 3968.0;

}  // namespace rondo

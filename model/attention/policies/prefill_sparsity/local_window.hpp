#pragma once

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

/// The first keys and the nearest `bands` blocks of every row, which A-shape and Tri-shape share. Both are meant for
/// 128 first keys and 3968 near ones; here the keys grow with the window at that rate, but are never fewer than 4.
void add_local_window(const ChunkShape& chunk, int64_t bands, Lines& lines);

/// Bands that hold the `keys` keys right before a row and its own, also of a row that is its block's first.
int64_t bands_of_window(int64_t keys);

/// The width of the window that the methods were made for.
inline constexpr double local_window_keys = 3968.0;

}  // namespace rondo

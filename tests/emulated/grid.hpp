#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tests/emulated/block.hpp"

namespace rondo::emulated {

/// Runs a kernel, block after block, on the calling thread; shared memory is NaN before each. Gives the first fault, in
/// one line. One kernel at a time runs in the process; others wait.
std::optional<std::string> run_grid(const Shape& shape, const std::function<void()>& kernel);

/// Of threads and blocks, from now on. The seed is a random order's.
void set_order(Order order, unsigned seed = 1);
/// What RONDO_EMULATED_ORDER says, as at first: forward, reverse, random or random:SEED.
void reset_order();

}  // namespace rondo::emulated

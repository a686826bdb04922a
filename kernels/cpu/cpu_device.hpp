#pragma once

#include <memory>

#include "config/result.hpp"
#include "kernels/device.hpp"

namespace rondo {

/// A CPU device of `threads` threads (0: one per core this process may use), with its own thread pool, so several can
/// live in one process without sharing anything but memory.
Result<std::unique_ptr<Device>> make_cpu_device(int threads);

}  // namespace rondo

#pragma once

#include <memory>

#include "config/result.hpp"
#include "kernels/backend.hpp"
#include "kernels/device.hpp"

namespace rondo {

/// A CPU device of `threads` threads (0: one per core this process may use), with a thread pool of its own. Several can
/// live in one process and share nothing but memory. Refuses a way to multiply bf16 that the processor has not.
Result<std::unique_ptr<Device>> make_cpu_device(int threads, Bf16Way bf16);

}  // namespace rondo

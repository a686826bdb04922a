#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"

namespace rondo {

struct DeviceOptions {
    DeviceKind kind = DeviceKind::cpu;
    int ordinal = 0;  ///< of a GPU
    int threads = 0;  ///< of a CPU device; 0: all the machine has
};

/// Reads "cpu", "cpu:THREADS", "cuda" or "cuda:ORDINAL".
Result<DeviceOptions> parse_device(std::string_view text);

/// Opens a device, or says in one line why there is none (no driver, not built with CUDA, ordinal out of range).
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

/// GPUs that can be opened here: 0 without a driver or without CUDA in the build.
int cuda_device_count();

}  // namespace rondo

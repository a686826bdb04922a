#pragma once

#include <memory>

#include "config/result.hpp"
#include "kernels/device.hpp"

namespace rondo {

/// Opens GPU `ordinal`. It needs a driver, compute capability 8.0 or more, and cuBLASLt where the loader finds it.
Result<std::unique_ptr<Device>> make_cuda_device(int ordinal);

/// GPUs the driver shows; 0 without a driver.
int count_cuda_devices();

}  // namespace rondo

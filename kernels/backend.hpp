#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "config/settings.hpp"
#include "kernels/device.hpp"

namespace rondo {

/// How a CPU multiplies bf16: with AMX tiles, with AVX-512's products of pairs, or in f32 with weights widened on their
/// way to the registers. Which is fastest differs from processor to processor, so it is measured.
enum class Bf16Way { measured, tiles, pairs, floats };

struct DeviceOptions {
    DeviceKind kind = DeviceKind::cpu;
    int ordinal = 0;                   ///< of a GPU
    int threads = 0;                   ///< of a CPU device; 0: all cores this process may use
    Bf16Way bf16 = Bf16Way::measured;  ///< of a CPU device
};

/// Reads "cpu", "cpu:THREADS", "cuda" or "cuda:ORDINAL".
Result<DeviceOptions> parse_device(std::string_view text);

/// What a pipeline file says of a device.
DeviceOptions device_options(const DeviceSettings& settings);

/// Opens a device, or says in one line why there is none (no driver, not built with CUDA, ordinal out of range).
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

/// GPUs that can be opened here: 0 without a driver or without CUDA in the build.
int cuda_device_count();

}  // namespace rondo

#include "kernels/backend.hpp"

#include <charconv>

#include "kernels/cpu/cpu_device.hpp"
#ifdef RONDO_HAS_CUDA
#include "kernels/cuda/cuda_device.hpp"
#endif

namespace rondo {
namespace {

constexpr int threads_max = 1024;
constexpr int ordinal_max = 63;  // as in a pipeline file

/// A number in [least, most] and nothing else.
bool read_number(std::string_view text, int least, int most, int& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() && number >= least && number <= most;
}

}  // namespace

Result<DeviceOptions> parse_device(std::string_view text) {
    const size_t colon = text.find(':');
    const std::string_view kind = text.substr(0, colon);
    DeviceOptions options;
    bool valid = kind == "cpu" || kind == "cuda";
    if (kind == "cuda") options.kind = DeviceKind::cuda;
    if (valid && colon != std::string_view::npos) {
        const std::string_view number = text.substr(colon + 1);
        valid = options.kind == DeviceKind::cpu ? read_number(number, 1, threads_max, options.threads)
                                                : read_number(number, 0, ordinal_max, options.ordinal);
    }
    if (valid) return options;
    return make_error(ErrorCode::invalid_argument, "device is \"" + std::string(text) +
                                                       "\", must be cpu, cpu:THREADS (1 to " +
                                                       std::to_string(threads_max) + "), cuda or cuda:ORDINAL (0 to " +
                                                       std::to_string(ordinal_max) + ")");
}

DeviceOptions device_options(const DeviceSettings& settings) {
    DeviceOptions options;
    options.kind = settings.kind == DeviceSettings::Kind::cuda ? DeviceKind::cuda : DeviceKind::cpu;
    options.ordinal = settings.ordinal;
    options.threads = settings.threads;
    switch (settings.bf16) {
        case DeviceSettings::Bf16::measured:
            options.bf16 = Bf16Way::measured;
            break;
        case DeviceSettings::Bf16::tiles:
            options.bf16 = Bf16Way::tiles;
            break;
        case DeviceSettings::Bf16::pairs:
            options.bf16 = Bf16Way::pairs;
            break;
        case DeviceSettings::Bf16::floats:
            options.bf16 = Bf16Way::floats;
            break;
    }
    return options;
}

#ifdef RONDO_HAS_CUDA

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
    return options.kind == DeviceKind::cpu ? make_cpu_device(options.threads, options.bf16)
                                           : make_cuda_device(options.ordinal);
}

int cuda_device_count() {
    return count_cuda_devices();
}

#else

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
    if (options.kind == DeviceKind::cpu) return make_cpu_device(options.threads, options.bf16);
    return make_error(ErrorCode::unsupported,
                      "device cuda:" + std::to_string(options.ordinal) +
                          ": this build has no CUDA; build where nvcc is, or use the device cpu");
}

int cuda_device_count() {
    return 0;
}

#endif

}  // namespace rondo

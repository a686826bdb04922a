#include "model/weights_memory.hpp"

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "config/checked.hpp"
#include "model/files/spec_tensors.hpp"

namespace rondo {

size_t packed_bytes(const ModelSpec& spec, const WeightsFile& file, const Ops& ops) {
    std::unordered_map<std::string_view, const FileTensor*> by_name;  // `find` would have random weights made
    for (const FileTensor& tensor : file.tensors()) by_name[tensor.name] = &tensor;
    size_t total = 0;
    for (const SpecTensor& wanted : spec_tensors(spec)) {
        const auto found = by_name.find(wanted.name);
        if (found == by_name.end()) continue;
        const FileTensor& tensor = *found->second;
        size_t bytes = 0;
        if (wanted.kind == SpecTensor::Kind::matrix) {
            const HostMatrix matrix{nullptr, tensor.dtype, tensor.shape[0], tensor.shape[1], {}};
            if (const auto packed = ops.packed_bytes({&matrix, 1})) bytes = *packed;
        } else {
            bytes = bytes_of(DType::f32, tensor.shape[0]);
        }
        total = checked_add(total, bytes).value_or(SIZE_MAX);
    }
    return total;
}

Status check_weights_memory(size_t weights_bytes, size_t kv_bytes, size_t machine_bytes, const std::string& where) {
    const auto mib = [](size_t bytes) { return std::to_string(bytes >> 20); };
    if (checked_add(weights_bytes, kv_bytes).value_or(SIZE_MAX) <= machine_bytes) return Status::ok();
    const std::string what = where + ": the weights take " + mib(weights_bytes) + " MiB";
    const std::string least = "at most the machine's memory, " + mib(machine_bytes) + " MiB";
    if (kv_bytes == 0) return make_error(ErrorCode::out_of_memory, what + "; they must take " + least);
    return make_error(ErrorCode::out_of_memory,
                      what + ", and memory.device_kv_mib is " + mib(kv_bytes) + "; together they must be " + least);
}

}  // namespace rondo

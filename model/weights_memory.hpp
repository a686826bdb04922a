#pragma once

#include <cstddef>
#include <string>

#include "config/result.hpp"
#include "kernels/ops.hpp"
#include "model/files/spec.hpp"
#include "model/files/weights_file.hpp"

namespace rondo {

/// The bytes of a model's weights once they are packed, by what the headers of its files say. No tensor is read. What
/// cannot be packed counts as nothing here, because loading refuses it by name.
size_t packed_bytes(const ModelSpec& spec, const WeightsFile& file, const Ops& ops);

/// Refuses weights that cannot lie in the machine's memory, with a KV pool of `kv_bytes` beside them (0: none that is
/// sure to fill). Pages of mapped files do not count: the kernel takes them back.
Status check_weights_memory(size_t weights_bytes, size_t kv_bytes, size_t machine_bytes, const std::string& where);

}  // namespace rondo

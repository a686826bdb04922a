#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/result.hpp"
#include "model/files/spec.hpp"
#include "model/files/weights_file.hpp"

namespace rondo {

/// Weights for any spec without a file, for benchmarks and tests: matrices and biases about normal with deviation 0.02,
/// norms 1. The same spec, seed and type give the same bytes on every machine. A tensor's bytes are made when will_need
/// or find asks for it and given back at done_with, so loading holds one copy of the model and not two. Safe to share
/// between threads. `dtype` is f32 or bf16; `where` names the model in errors.
Result<std::unique_ptr<WeightsFile>> random_weights(const ModelSpec& spec, uint64_t seed, DType dtype,
                                                    const std::string& where);

}  // namespace rondo

#pragma once

#include "memory/store/record_header.hpp"
#include "model/model_files.hpp"

namespace rondo {

/// Stands for everything about a model that its keys and values depend on: what its configuration says, and all bytes
/// of its weights, or the seed that they are made from. Reads every weight once.
StoreName fingerprint_of(const ModelFiles& files, const WeightsChoice& choice);

}  // namespace rondo

#pragma once

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

/// The maker of each row, make_NAME, which the method's file defines. `patterns` are MInference's.
namespace rondo {

#define RONDO_METHOD(method, ...) \
    std::unique_ptr<PrefillSparsity> make_##method(const PrefillAttention& settings, HeadPatterns patterns);
#include "config/prefill_methods.inc"

}  // namespace rondo

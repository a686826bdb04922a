#pragma once

#include "config/result.hpp"

namespace rondo::cpu {

/// What the kernels under a target attribute need of the machine (and of its operating system). Where all are false,
/// the portable kernels run, which choose among their own targets by Highway's dispatch.
struct CpuFeatures {
    bool avx512 = false;  ///< F, BW, VL and DQ
    bool avx512_bf16 = false;
    bool avx512_vnni = false;
    bool amx_bf16 = false;  ///< the tiles may be used by every thread of this process
    bool operator==(const CpuFeatures&) const = default;
};

/// The three tiers that a user sees. `avx512` has the base set only: a kernel that wants bf16 or VNNI asks for them.
/// `amx` implies avx512 and avx512_bf16.
enum class CpuTier { portable, avx512, amx };

/// Detected once, at the first call, then lowered to what the environment variable RONDO_CPU names: portable, avx2,
/// avx512, or amx, which leaves it alone.
const CpuFeatures& cpu_features();
/// Whether RONDO_CPU names one of these, or nothing.
Status check_cpu_variable();
CpuTier cpu_tier();

/// Sets the features, each limited to what the machine has. For tests, while no kernel is running.
void override_cpu_features_for_test(const CpuFeatures& features);

}  // namespace rondo::cpu

#pragma once

#include <cublasLt.h>

#include "config/result.hpp"

namespace rondo::cuda {

/// The functions of cuBLASLt that are used here, looked up when the first GPU is opened. The library is half a
/// gigabyte, and exists as a shared object only. A program linked to it would not start where it is missing; this one
/// needs it only where there is a GPU.
struct CublasLt {
    decltype(&::cublasLtCreate) create = nullptr;
    decltype(&::cublasLtDestroy) destroy = nullptr;
    decltype(&::cublasLtGetStatusString) status_string = nullptr;
    decltype(&::cublasLtMatmulDescCreate) operation_create = nullptr;
    decltype(&::cublasLtMatmulDescDestroy) operation_destroy = nullptr;
    decltype(&::cublasLtMatmulDescSetAttribute) operation_set = nullptr;
    decltype(&::cublasLtMatrixLayoutCreate) layout_create = nullptr;
    decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
    decltype(&::cublasLtMatmulPreferenceCreate) preference_create = nullptr;
    decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
    decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
    decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
    decltype(&::cublasLtMatmul) matmul = nullptr;

    /// Loads the library once a process and keeps it; says where it looked when it is not there.
    static Result<const CublasLt*> load();
};

}  // namespace rondo::cuda

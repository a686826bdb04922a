#include "kernels/cuda/cublas_lt.hpp"

#include <dlfcn.h>

#include <string>

// A literal, so that tools/gpu_check.sh finds the path in a program, and by it the library that the program takes.
#define RONDO_TEXT(number) #number
#define RONDO_SONAME(major) "libcublasLt.so." RONDO_TEXT(major)

namespace rondo::cuda {
namespace {

constexpr const char* soname = RONDO_SONAME(CUBLAS_VER_MAJOR);
constexpr const char* in_toolkit = "/usr/local/cuda/lib64/" RONDO_SONAME(CUBLAS_VER_MAJOR);

template <class Function>
bool look_up(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

Result<CublasLt> load_once() {
    void* library = nullptr;
    for (const char* const name : {soname, in_toolkit}) {
        if (library == nullptr) library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    }
    if (library == nullptr) {
        return make_error(ErrorCode::device,
                          std::string(soname) +
                              " is neither on the loader's path nor in /usr/local/cuda/lib64; LD_LIBRARY_PATH "
                              "must name its folder");
    }
    CublasLt found;
    const bool complete = look_up(library, "cublasLtCreate", found.create) &&
                          look_up(library, "cublasLtDestroy", found.destroy) &&
                          look_up(library, "cublasLtGetStatusString", found.status_string) &&
                          look_up(library, "cublasLtMatmulDescCreate", found.operation_create) &&
                          look_up(library, "cublasLtMatmulDescDestroy", found.operation_destroy) &&
                          look_up(library, "cublasLtMatmulDescSetAttribute", found.operation_set) &&
                          look_up(library, "cublasLtMatrixLayoutCreate", found.layout_create) &&
                          look_up(library, "cublasLtMatrixLayoutDestroy", found.layout_destroy) &&
                          look_up(library, "cublasLtMatmulPreferenceCreate", found.preference_create) &&
                          look_up(library, "cublasLtMatmulPreferenceDestroy", found.preference_destroy) &&
                          look_up(library, "cublasLtMatmulPreferenceSetAttribute", found.preference_set) &&
                          look_up(library, "cublasLtMatmulAlgoGetHeuristic", found.heuristic) &&
                          look_up(library, "cublasLtMatmul", found.matmul);
    if (!complete)
        return make_error(ErrorCode::device, std::string(soname) + " lacks a function; it is not NVIDIA's library");
    return found;
}

}  // namespace

Result<const CublasLt*> CublasLt::load() {
    static const Result<CublasLt> loaded = load_once();
    if (!loaded.is_ok()) return loaded.error();
    return &loaded.value();
}

}  // namespace rondo::cuda

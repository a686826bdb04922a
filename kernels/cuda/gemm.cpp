#include "kernels/cuda/gemm.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <tuple>

#include "kernels/cuda/cublas_lt.hpp"
#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/device_memory.hpp"

namespace rondo::cuda {
namespace {

constexpr size_t workspace_bytes = size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr size_t plans_max = 4096;

cudaDataType_t data_type(DType type) {
    return type == DType::f32 ? CUDA_R_32F : type == DType::bf16 ? CUDA_R_16BF : CUDA_R_16F;
}

/// The largest power of two up to 256 that divides the address: what an algorithm may assume of it.
uint32_t alignment_of(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    return uint32_t{1} << std::min(8, std::countr_zero(address));
}

/// All that the choice of an algorithm depends on.
using Shape = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, DType, DType, bool, uint32_t, uint32_t, uint32_t>;

Shape shape_of(const Product& p) {
    return {p.m,
            p.n,
            p.k,
            p.x_stride,
            p.out_stride,
            p.type,
            p.out_type,
            p.accumulate,
            alignment_of(p.x),
            alignment_of(p.w),
            alignment_of(p.out)};
}

/// cuBLASLt thinks in columns, so it is asked for outᵀ[n, m] = w[n, k] · xᵀ[k, m]: what is row-major here is its
/// transpose there. w is read as a [k, n] matrix and transposed, x as [k, m], out as [n, m].
struct Plan {
    explicit Plan(const CublasLt& library) : lt(library) {}
    ~Plan() {
        if (preference != nullptr) (void)lt.preference_destroy(preference);
        for (cublasLtMatrixLayout_t layout : {w, x, out}) {
            if (layout != nullptr) (void)lt.layout_destroy(layout);
        }
        if (operation != nullptr) (void)lt.operation_destroy(operation);
    }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;

    const CublasLt& lt;
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t w = nullptr;
    cublasLtMatrixLayout_t x = nullptr;
    cublasLtMatrixLayout_t out = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    bool usable = false;
};

class CublasGemm final : public Gemm {
public:
    CublasGemm(int ordinal, const CublasLt& library) : ordinal_(ordinal), lt_(library) {}
    ~CublasGemm() override {
        plans_.clear();
        if (handle_ != nullptr) (void)lt_.destroy(handle_);
    }
    CublasGemm(const CublasGemm&) = delete;
    CublasGemm& operator=(const CublasGemm&) = delete;

    Status open() {
        RONDO_TRY(cuda_status(cudaSetDevice(ordinal_), ordinal_, "selecting the GPU"));
        RONDO_TRY(check(lt_.create(&handle_), "opening cuBLASLt"));
        RONDO_ASSIGN(workspace_, allocate_on_gpu(ordinal_, workspace_bytes));
        return {};
    }

    Result<bool> multiply(const Product& p, cudaStream_t stream) override {
        RONDO_TRY(cuda_status(cudaSetDevice(ordinal_), ordinal_, "selecting the GPU"));
        RONDO_ASSIGN(const Plan* plan, plan_for(p));
        if (!plan->usable) return false;
        const float alpha = 1.0F;
        const float beta = p.accumulate ? 1.0F : 0.0F;
        const cublasStatus_t status =
            lt_.matmul(handle_, plan->operation, &alpha, p.w, plan->w, p.x, plan->x, &beta, p.out, plan->out, p.out,
                       plan->out, &plan->algorithm, workspace_.data(), workspace_.bytes(), stream);
        if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
        RONDO_TRY(check(status, "matmul"));
        return true;
    }

private:
    Result<const Plan*> plan_for(const Product& p) {
        const Shape shape = shape_of(p);
        if (const auto found = plans_.find(shape); found != plans_.end()) return found->second.get();
        auto plan = std::make_unique<Plan>(lt_);
        RONDO_TRY(describe(p, *plan));
        RONDO_TRY(choose(p, *plan));
        if (plans_.size() >= plans_max) plans_.clear();
        return plans_.emplace(shape, std::move(plan)).first->second.get();
    }

    Status describe(const Product& p, Plan& plan) {
        const cudaDataType_t type = data_type(p.type);
        const auto m = static_cast<uint64_t>(p.m);
        const auto n = static_cast<uint64_t>(p.n);
        const auto k = static_cast<uint64_t>(p.k);
        const cublasOperation_t transpose = CUBLAS_OP_T;
        RONDO_TRY(check(lt_.operation_create(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "matmul"));
        RONDO_TRY(check(lt_.operation_set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose),
                        "matmul"));
        RONDO_TRY(check(lt_.layout_create(&plan.w, type, k, n, p.k), "matmul"));
        RONDO_TRY(check(lt_.layout_create(&plan.x, type, k, m, p.x_stride), "matmul"));
        return check(lt_.layout_create(&plan.out, data_type(p.out_type), n, m, p.out_stride), "matmul");
    }

    Status choose(const Product& p, Plan& plan) {
        RONDO_TRY(check(lt_.preference_create(&plan.preference), "matmul"));
        // No product is split along k: what the library finds for some splits has been reported to leave the last
        // numbers out (facebookexperimental/triton, pull request 2767), and the parts would be rounded in between.
        const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE;
        const uint64_t bytes = workspace_.bytes();
        RONDO_TRY(prefer(plan, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes));
        RONDO_TRY(prefer(plan, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
        RONDO_TRY(prefer(plan, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.w)));
        RONDO_TRY(prefer(plan, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.x)));
        RONDO_TRY(prefer(plan, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.out)));
        RONDO_TRY(prefer(plan, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.out)));
        cublasLtMatmulHeuristicResult_t result{};
        int found = 0;
        const cublasStatus_t status = lt_.heuristic(handle_, plan.operation, plan.w, plan.x, plan.out, plan.out,
                                                    plan.preference, 1, &result, &found);
        // "Not supported" is an answer: the caller has a kernel that takes any shape.
        if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
        RONDO_TRY(check(status, "matmul"));
        plan.usable = found > 0 && result.state == CUBLAS_STATUS_SUCCESS;
        plan.algorithm = result.algo;
        return {};
    }

    template <class Value>
    Status prefer(Plan& plan, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
        return check(lt_.preference_set(plan.preference, attribute, &value, sizeof value), "matmul");
    }

    Status check(cublasStatus_t status, const char* doing) const {
        if (status == CUBLAS_STATUS_SUCCESS) return {};
        return make_error(code_of(status), "cuda:" + std::to_string(ordinal_) + ": " + doing +
                                               " failed in cuBLASLt: " + lt_.status_string(status));
    }

    /// What the library refuses leaves the GPU as it was.
    static ErrorCode code_of(cublasStatus_t status) {
        switch (status) {
            case CUBLAS_STATUS_ALLOC_FAILED:
                return ErrorCode::out_of_memory;
            case CUBLAS_STATUS_NOT_SUPPORTED:
            case CUBLAS_STATUS_INVALID_VALUE:
            case CUBLAS_STATUS_ARCH_MISMATCH:
                return ErrorCode::internal;
            default:
                return ErrorCode::device;
        }
    }

    const int ordinal_;
    const CublasLt& lt_;
    cublasLtHandle_t handle_ = nullptr;
    Buffer workspace_;
    std::map<Shape, std::unique_ptr<Plan>> plans_;
};

/// Where the library is not there: kernels of our own take every product, slower.
class NoGemm final : public Gemm {
public:
    Result<bool> multiply(const Product&, cudaStream_t) override { return false; }
};

}  // namespace

Status Gemm::available() {
    return CublasLt::load().status();
}

Result<std::unique_ptr<Gemm>> Gemm::create(int ordinal) {
    const Result<const CublasLt*> library = CublasLt::load();
    if (!library) return std::unique_ptr<Gemm>(std::make_unique<NoGemm>());
    auto gemm = std::make_unique<CublasGemm>(ordinal, **library);
    RONDO_TRY(gemm->open());
    return std::unique_ptr<Gemm>(std::move(gemm));
}

}  // namespace rondo::cuda

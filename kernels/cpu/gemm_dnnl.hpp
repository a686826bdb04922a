#pragma once

#include <cstdint>
#include <memory>

#include "config/result.hpp"
#include "kernels/cpu/product_out.hpp"
#include "kernels/cpu/scratch.hpp"

namespace rondo::cpu {

/// oneDNN on the calling thread alone: the pool hands out panels, so its own threads stay unused. Keeps the primitives
/// it has built, by shape. One per pool thread.
class DnnlGemm {
public:
    DnnlGemm();
    ~DnnlGemm();

    /// x [rows, K padded] (dense) by a panel of bf16 pairs [K padded / 2][64][2].
    Status bf16_panel(const uint16_t* x, int64_t rows, const uint16_t* panel, int64_t columns_padded,
                      const ProductOut& out);

private:
    struct Library;
    std::unique_ptr<Library> library_;
    Scratch sums_;
};

}  // namespace rondo::cpu

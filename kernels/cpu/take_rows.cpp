#include "kernels/cpu/take_rows.hpp"

#include <cassert>
#include <cstring>

namespace rondo::cpu {

void take_rows_rows(const Tensor& out, const Tensor& x, const int32_t* rows, int64_t row_begin, int64_t row_end) {
    assert(out.dtype == x.dtype && out.columns == x.columns && !is_quantized(x.dtype));
    const size_t bytes = bytes_of(x.dtype, x.columns);
    for (int64_t i = row_begin; i < row_end; ++i) {
        if (rows[i] < 0) continue;
        assert(rows[i] < x.rows);
        std::memcpy(out.row<std::byte>(i), x.row<const std::byte>(rows[i]), bytes);
    }
}

}  // namespace rondo::cpu

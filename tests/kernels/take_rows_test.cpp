#include "tests/kernels/op_fixture.hpp"

namespace rondo::test {
namespace {

class TakeRows : public OpTest {};
RONDO_ON_EVERY_DEVICE(TakeRows);

TEST_P(TakeRows, CopiesTheNamedRowsBitForBit) {
    const std::vector<int32_t> rows = {4, 0, 4, 10, 7};
    for (DType type : activation_types) {
        for (int64_t columns : {1, 17, 896}) {
            const Matrix x = rounded(random_matrix(11, columns, 41), type);
            const Tensor out = poisoned(type, std::ssize(rows), columns, 1);
            expect_ok(ops().take_rows(out, upload(x, type), upload(rows)));
            expect_equal(out, reference::take_rows(x, rows));
        }
    }
}

}  // namespace
}  // namespace rondo::test

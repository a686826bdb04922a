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

TEST_P(TakeRows, NegativeIndicesLeaveTheirRowsAlone) {
    const Matrix x = random_matrix(3, 40, 42);
    const Matrix before = random_matrix(4, 40, 43);
    const Tensor out = upload(before, DType::f32);
    expect_ok(ops().take_rows(out, upload(x, DType::f32), upload(std::vector<int32_t>{-1, 2, -7, 0})));
    expect_equal(out.slice_rows(0, 1), before.slice_rows(0, 1));
    expect_equal(out.slice_rows(1, 1), x.slice_rows(2, 1));
    expect_equal(out.slice_rows(2, 1), before.slice_rows(2, 1));
    expect_equal(out.slice_rows(3, 1), x.slice_rows(0, 1));
}

}  // namespace
}  // namespace rondo::test

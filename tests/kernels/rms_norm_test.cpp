#include "tests/kernels/op_fixture.hpp"

namespace rondo::test {
namespace {

class RmsNorm : public OpTest {};
RONDO_ON_EVERY_DEVICE(RmsNorm);

constexpr float eps = 1e-6F;
/// f32 sums of 1024 squares, then two products: well under 2^-20 in all.
constexpr double tolerance = 1e-6;

TEST_P(RmsNorm, MatchesTheReferenceForEveryTypeAndWidth) {
    for (DType from : activation_types) {
        for (DType to : activation_types) {
            for (int64_t columns : {1, 3, 16, 31, 128, 896, 1027, 5000}) {
                SCOPED_TRACE(testing::Message() << traits(from).name << " to " << traits(to).name << ", " << columns);
                const Matrix x = rounded(random_matrix(5, columns, 1), from);
                const Matrix weight = random_matrix(1, columns, 2);
                const Tensor out = poisoned(to, 5, columns);
                expect_ok(ops().rms_norm(out, upload(x, from), upload_floats(weight), eps));
                expect_near(out, reference::rms_norm(x, weight, eps), tolerance);
            }
        }
    }
}

TEST_P(RmsNorm, WorksInPlaceOnASliceOfColumns) {
    const Matrix wide = random_matrix(4, 100, 3);
    const Matrix weight = random_matrix(1, 37, 4);
    const Tensor tensor = upload(wide, DType::f32);
    const Tensor slice = tensor.slice_columns(5, 37);
    expect_ok(ops().rms_norm(slice, slice, upload_floats(weight), eps));
    expect_near(slice, reference::rms_norm(wide.slice_columns(5, 37), weight, eps), tolerance);
    expect_equal(tensor.slice_columns(0, 5), wide.slice_columns(0, 5));
    expect_equal(tensor.slice_columns(42, 58), wide.slice_columns(42, 58));
}

TEST_P(RmsNorm, KeepsItsPrecisionFarFromOne) {
    const Matrix weight = random_matrix(1, 301, 5);
    for (double spread : {1e-4, 1e4, 1e10}) {
        const Matrix x = random_matrix(2, 301, 6, spread);
        const Tensor out = poisoned(DType::f32, 2, 301);
        expect_ok(ops().rms_norm(out, upload(x, DType::f32), upload_floats(weight), eps));
        expect_near(out, reference::rms_norm(x, weight, eps), tolerance);
    }
}

/// Qwen3's norm of each head of q and of k, which lie beside each other in one row.
TEST_P(RmsNorm, HeadNormTakesEachHeadByItselfInPlace) {
    for (DType type : activation_types) {
        for (int heads : {1, 3, 14}) {
            for (int d : {16, 64, 80, 128}) {
                SCOPED_TRACE(testing::Message() << traits(type).name << ", " << heads << " heads of " << d);
                const Matrix fused = rounded(random_matrix(5, heads * d + 2 * d, 9, 3.0), type);
                const Matrix weight = random_matrix(1, d, 10);
                const Tensor tensor = upload(fused, type);
                expect_ok(ops().head_norm(tensor.slice_columns(d, heads * d), upload_floats(weight), heads, eps));
                expect_equal(tensor.slice_columns(0, d), fused.slice_columns(0, d));
                expect_equal(tensor.slice_columns(d + heads * d, d), fused.slice_columns(d + heads * d, d));
                for (int h = 1; h <= heads; ++h) {
                    expect_near(tensor.slice_columns(h * d, d),
                                reference::rms_norm(fused.slice_columns(h * d, d), weight, eps), tolerance);
                }
            }
        }
    }
}

TEST_P(RmsNorm, ARowDependsOnNothingButItself) {
    const Matrix x = random_matrix(9, 77, 7);
    const float* weight = upload_floats(random_matrix(1, 77, 8));
    const Tensor together = poisoned(DType::f32, 9, 77);
    const Tensor alone = poisoned(DType::f32, 9, 77, 8);
    const Tensor input = upload(x, DType::f32);
    expect_ok(ops().rms_norm(together, input, weight, eps));
    for (int64_t r = 0; r < 9; ++r) {
        expect_ok(ops().rms_norm(alone.slice_rows(r, 1), input.slice_rows(r, 1), weight, eps));
    }
    EXPECT_EQ(download_bytes(together), download_bytes(alone));
}

}  // namespace
}  // namespace rondo::test

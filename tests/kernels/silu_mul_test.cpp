#include <cmath>
#include <limits>

#include "tests/kernels/op_fixture.hpp"

namespace rondo::test {
namespace {

class SiluMul : public OpTest {};
RONDO_ON_EVERY_DEVICE(SiluMul);

/// An exponential within 2 ulp, a sum, a quotient and two products.
constexpr double tolerance = 5e-7;

TEST_P(SiluMul, MatchesTheReferenceForEveryTypeAndWidth) {
    for (DType from : activation_types) {
        for (DType to : activation_types) {
            for (int64_t columns : {1, 7, 16, 33, 129, 4864}) {
                SCOPED_TRACE(testing::Message() << traits(from).name << " to " << traits(to).name << ", " << columns);
                const Matrix x = rounded(random_matrix(3, 2 * columns, 21, 3.0), from);
                const Tensor out = poisoned(to, 3, columns);
                expect_ok(ops().silu_mul(out, upload(x, from)));
                expect_near(out, reference::silu_mul(x), tolerance);
            }
        }
    }
}

/// Each element by itself: a norm would hide the small ones behind the large.
TEST_P(SiluMul, KeepsItsRelativePrecisionFromTheSmallestToTheLargestGate) {
    std::vector<double> gates;
    for (double gate = -86.5; gate < 120.0; gate += 0.37) gates.push_back(static_cast<float>(gate));
    for (double gate : {-1e-30, 1e-30, -1e-7, 3e38}) gates.push_back(static_cast<float>(gate));
    const int64_t columns = std::ssize(gates);
    Matrix x(1, 2 * columns);
    for (int64_t c = 0; c < columns; ++c) {
        x.at(0, c) = gates[static_cast<size_t>(c)];
        x.at(0, columns + c) = 1.0;
    }
    const Tensor out = poisoned(DType::f32, 1, columns);
    expect_ok(ops().silu_mul(out, upload(x, DType::f32)));
    const Matrix expected = reference::silu_mul(x);
    const Matrix got = download(out);
    for (int64_t c = 0; c < columns; ++c) {
        EXPECT_NEAR(got.at(0, c) / expected.at(0, c), 1.0, tolerance) << "gate " << x.at(0, c);
    }
}

TEST_P(SiluMul, VanishesForVeryNegativeGatesAndShowsNan) {
    Matrix x(1, 8);
    x.values = {-100.0, -1e4, -3e38, std::numeric_limits<double>::quiet_NaN(), 1.0, 1.0, 1.0, 1.0};
    const Tensor out = poisoned(DType::f32, 1, 4);
    expect_ok(ops().silu_mul(out, upload(x, DType::f32)));
    const Matrix got = download(out);
    for (int64_t c = 0; c < 3; ++c) EXPECT_NEAR(got.at(0, c), 0.0, 1e-35);
    EXPECT_TRUE(std::isnan(got.at(0, 3)));
}

TEST_P(SiluMul, ARowDependsOnNothingButItself) {
    const Tensor input = upload(random_matrix(7, 2 * 45, 22), DType::f32);
    const Tensor together = poisoned(DType::f32, 7, 45);
    const Tensor alone = poisoned(DType::f32, 7, 45, 8);
    expect_ok(ops().silu_mul(together, input));
    for (int64_t r = 0; r < 7; ++r) expect_ok(ops().silu_mul(alone.slice_rows(r, 1), input.slice_rows(r, 1)));
    EXPECT_EQ(download_bytes(together), download_bytes(alone));
}

}  // namespace
}  // namespace rondo::test

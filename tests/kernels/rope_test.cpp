#include <cmath>

#include "tests/kernels/op_fixture.hpp"

namespace rondo::test {
namespace {

class Rope : public OpTest {};
RONDO_ON_EVERY_DEVICE(Rope);

std::vector<double> inverse_frequencies(int head_dim, double base) {
    std::vector<double> out;
    for (int i = 0; i < head_dim; i += 2) out.push_back(std::pow(base, -static_cast<double>(i) / head_dim));
    return out;
}

TEST_P(Rope, AnglesAreExactAtEveryPosition) {
    const std::vector<int32_t> positions = {0, 1, 2, 63, 4097, 131071, 1000003};
    for (int d : {2, 16, 64, 96, 128}) {
        const std::vector<double> frequencies = inverse_frequencies(d, 1e6);
        const Tensor out = poisoned(DType::f32, std::ssize(positions), d);
        expect_ok(ops().rope_angles(out, upload(positions), upload(frequencies)));
        // One rounding to f32 and what double loses of an angle of 10^6: nothing here.
        expect_near(out, reference::rope_angles(positions, frequencies), 1e-7);
    }
}

TEST_P(Rope, RotatesEveryHeadInPlace) {
    const std::vector<int32_t> positions = {0, 5, 6, 1000, 70000};
    for (DType type : activation_types) {
        for (int d : {2, 16, 32, 64, 96, 128}) {
            for (int heads : {1, 3, 14}) {
                SCOPED_TRACE(testing::Message() << traits(type).name << ", heads " << heads << " of " << d);
                const Matrix angles =
                    rounded(reference::rope_angles(positions, inverse_frequencies(d, 10000.0)), DType::f32);
                const Matrix x = rounded(random_matrix(5, heads * d, 11), type);
                const Tensor tensor = upload(x, type);
                expect_ok(ops().rope(tensor, upload(angles, DType::f32), heads));
                // Two products and a sum, each rounded once.
                expect_near(tensor, reference::rope(x, angles, heads), 2e-7);
            }
        }
    }
}

TEST_P(Rope, LeavesTheColumnsBesideItsSliceAlone) {
    const Matrix fused = random_matrix(3, 5 * 32, 12);  // q (2 heads) | k (2 heads) | v
    const Matrix angles =
        rounded(reference::rope_angles(std::vector<int32_t>{7, 8, 9}, inverse_frequencies(32, 10000.0)), DType::f32);
    const Tensor tensor = upload(fused, DType::f32);
    expect_ok(ops().rope(tensor.slice_columns(64, 64), upload(angles, DType::f32), 2));
    expect_equal(tensor.slice_columns(0, 64), fused.slice_columns(0, 64));
    expect_near(tensor.slice_columns(64, 64), reference::rope(fused.slice_columns(64, 64), angles, 2), 2e-7);
    expect_equal(tensor.slice_columns(128, 32), fused.slice_columns(128, 32));
}

}  // namespace
}  // namespace rondo::test

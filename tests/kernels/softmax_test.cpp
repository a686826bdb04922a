#include <cmath>
#include <limits>

#include "tests/kernels/op_fixture.hpp"

namespace rondo::test {
namespace {

class Softmax : public OpTest {};
RONDO_ON_EVERY_DEVICE(Softmax);

/// The difference to the maximum is rounded to f32 before the exponential: for scores of some tens that is 1e-6 of each
/// weight; the exponential and the division add less.
constexpr double tolerance = 1e-6;
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_P(Softmax, MatchesTheReferenceForEveryWidth) {
    for (int64_t columns : {1, 2, 15, 16, 17, 100, 1025, 151936}) {
        for (double spread : {0.1, 10.0}) {
            SCOPED_TRACE(testing::Message() << columns << " columns, spread " << spread);
            const Matrix x = random_matrix(3, columns, 31, spread);
            const Tensor out = poisoned(DType::f32, 3, columns);
            expect_ok(ops().softmax(out, upload(x, DType::f32)));
            expect_near(out, reference::softmax(x), tolerance);
        }
    }
}

TEST_P(Softmax, WorksInPlace) {
    const Matrix x = random_matrix(6, 333, 32, 5.0);
    const Tensor tensor = upload(x, DType::f32);
    expect_ok(ops().softmax(tensor, tensor));
    expect_near(tensor, reference::softmax(x), tolerance);
}

TEST_P(Softmax, SharesSumToOneWhateverTheOffset) {
    for (double offset : {-1e30, -1e4, 0.0, 1e4, 1e30}) {
        Matrix x = random_matrix(2, 1000, 33);
        for (double& value : x.values) value = static_cast<float>(value + offset);
        const Tensor out = poisoned(DType::f32, 2, 1000);
        expect_ok(ops().softmax(out, upload(x, DType::f32)));
        const Matrix got = download(out);
        for (int64_t r = 0; r < 2; ++r) {
            double sum = 0.0;
            for (int64_t c = 0; c < 1000; ++c) sum += got.at(r, c);
            EXPECT_NEAR(sum, 1.0, tolerance) << "offset " << offset;
        }
    }
}

TEST_P(Softmax, GivesNothingToMinusInfinityAndToScoresFarBelow) {
    Matrix x = random_matrix(1, 50, 34);
    for (int64_t c : {0, 7, 15, 16, 49}) x.at(0, c) = -infinity;
    x.at(0, 20) = -200.0;
    x.at(0, 21) = -1e30;
    const Tensor out = poisoned(DType::f32, 1, 50);
    expect_ok(ops().softmax(out, upload(x, DType::f32)));
    expect_near(out, reference::softmax(x), tolerance);
    const Matrix got = download(out);
    for (int64_t c : {0, 7, 15, 16, 49, 20, 21}) EXPECT_EQ(got.at(0, c), 0.0) << "column " << c;
}

TEST_P(Softmax, ANanSpoilsItsWholeRowAndNoOther) {
    for (int64_t column : {0, 3, 32, 39}) {
        Matrix x = random_matrix(2, 40, 35);
        x.at(0, column) = std::nan("");
        const Tensor out = poisoned(DType::f32, 2, 40);
        expect_ok(ops().softmax(out, upload(x, DType::f32)));
        for (double value : download(out.slice_rows(0, 1)).values) EXPECT_TRUE(std::isnan(value));
        expect_near(out.slice_rows(1, 1), reference::softmax(x.slice_rows(1, 1)), tolerance);
    }
}

}  // namespace
}  // namespace rondo::test

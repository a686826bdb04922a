#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "kernels/cpu/quant_ways.hpp"
#include "tests/kernels/op_fixture.hpp"
#include "tests/kernels/quant_rows.hpp"

namespace rondo::test {
namespace {

/// What each product may be off by: codes of 8 bits lose up to half a code, which is 1/254 of the largest input of 32.
/// Inputs and weights as bf16 lose less together, 1/256 of a product. A hundredth of it is for sums of floats.
Matrix product_error(const Matrix& x, const Matrix& w) {
    constexpr int64_t block = 32;
    Matrix error(x.rows, w.rows);
    for (int64_t begin = 0; begin < x.columns; begin += block) {
        std::vector<double> magnitudes;  // of the weights of each output
        for (int64_t n = 0; n < w.rows; ++n) {
            double sum = 0.0;
            for (int64_t k = begin; k < begin + block; ++k) sum += std::abs(w.at(n, k));
            magnitudes.push_back(sum);
        }
        for (int64_t m = 0; m < x.rows; ++m) {
            double largest = 0.0;
            for (int64_t k = begin; k < begin + block; ++k) largest = std::max(largest, std::abs(x.at(m, k)));
            for (int64_t n = 0; n < w.rows; ++n)
                error.at(m, n) += 1.01 / 254 * largest * magnitudes[static_cast<size_t>(n)];
        }
    }
    return error;
}

/// The same once the output has rounded the result.
double stored_error(double error, double result, DType out) {
    return error + (out == DType::bf16 ? 0x1p-8 * std::abs(result) : 1e-6 * (1 + std::abs(result)));
}

/// A weight and 100 rows of inputs, with what they give.
struct Problem {
    Problem(DType type, int64_t outputs, int64_t inputs)
        : weight(random_weight(type, outputs, inputs, 131)),
          x(random_matrix(100, inputs, 132)),
          bias(random_matrix(1, outputs, 133)),
          before(random_matrix(100, outputs, 134)),
          product(reference::matmul(x, weight.values)),
          error(product_error(x, weight.values)) {}

    FileWeight weight;
    Matrix x, bias, before, product, error;
};

/// Computed once for all places: the double reference takes longer than the ops. The last group of 16 outputs is never
/// full, and 130 outputs are more than two panels of 64.
const std::vector<Problem>& problems() {
    static const std::vector<Problem> all = [] {
        std::vector<Problem> made;
        for (const DType type : {DType::q4_0, DType::q8_0, DType::q5_1, DType::q6_k}) {
            const bool super = traits(type).block_elements == 256;
            for (const int64_t inputs : super ? std::vector<int64_t>{256, 768} : std::vector<int64_t>{32, 288, 896}) {
                for (const int64_t outputs : {53, 130}) made.emplace_back(type, outputs, inputs);
            }
        }
        return made;
    }();
    return all;
}

/// What a product does besides multiplying.
struct Extras {
    DType out;
    bool bias, accumulate;
};
constexpr Extras all_extras[] = {
    {DType::f32, true, false}, {DType::f32, false, true}, {DType::f32, true, true}, {DType::bf16, true, false}};

class QuantMatmul : public OpTest {
protected:
    std::unique_ptr<PackedMatrix> pack(const HostMatrix& part) {
        Result<std::unique_ptr<PackedMatrix>> packed = ops().pack({&part, 1});
        if (!packed.is_ok()) throw std::runtime_error(packed.error().message);
        return std::move(*packed);
    }

    void check(const Problem& problem, const PackedMatrix& packed, const Tensor& x, const float* bias,
               const Extras& extras, Rows mode) {
        MatmulArgs args;
        args.out = extras.accumulate ? upload(problem.before.slice_rows(0, x.rows), DType::f32)
                                     : poisoned(extras.out, x.rows, packed.outputs());
        args.x = x;
        args.w = &packed;
        args.bias = extras.bias ? bias : nullptr;
        args.accumulate = extras.accumulate;
        args.rows = mode;
        expect_ok(ops().matmul(args));
        const Matrix got = download(args.out);
        Matrix expected = problem.product.slice_rows(0, x.rows);
        for (int64_t m = 0; m < x.rows; ++m) {
            for (int64_t n = 0; n < packed.outputs(); ++n) {
                double& value = expected.at(m, n);
                if (extras.bias) value += problem.bias.at(0, n);
                if (extras.accumulate) value += problem.before.at(m, n);
                ASSERT_LE(std::abs(got.at(m, n) - value), stored_error(problem.error.at(m, n), value, extras.out))
                    << "row " << m << ", output " << n;
            }
        }
        // Bounds grow with the inputs, so a missing block may stay within them. The usual error is 6e-3 of the size.
        if (x.rows > 1) {
            EXPECT_LE(relative_error(got, expected), 1e-2);
        }
    }
};
RONDO_ON_EVERY_DEVICE(QuantMatmul);

/// Ways are the CPU's.
class QuantWays : public QuantMatmul {
protected:
    void check_all() {
        for (const Problem& problem : problems()) {
            const std::unique_ptr<PackedMatrix> packed = pack(problem.weight.view());
            const Tensor x = upload(problem.x, DType::f32);
            const float* const bias = upload_floats(problem.bias);
            for (const int64_t rows : {1, 13, 24, 49, 100}) {
                for (const Rows mode : {Rows::bulk, Rows::invariant}) {
                    if (mode == Rows::invariant && rows < 32) continue;  // as in bulk
                    for (const Extras& extras : all_extras) {
                        SCOPED_TRACE(testing::Message()
                                     << traits(problem.weight.dtype).name << ", " << rows << " rows, "
                                     << packed->inputs() << " inputs, " << packed->outputs() << " outputs, "
                                     << (mode == Rows::bulk ? "bulk" : "invariant") << ", to "
                                     << traits(extras.out).name << ", bias " << extras.bias << ", accumulate "
                                     << extras.accumulate);
                        check(problem, *packed, x.slice_rows(0, rows), bias, extras, mode);
                        if (HasFatalFailure()) return;
                    }
                }
            }
        }
    }
};
RONDO_ON_EVERY_CPU(QuantWays);

/// As measured here, and where there is VNNI in each way.
TEST_P(QuantWays, AllMatchTheReference) {
    std::vector<std::optional<cpu::QuantWay>> ways{std::nullopt};
    if (cpu::cpu_features().avx512_vnni) ways = {cpu::QuantWay::alone, cpu::QuantWay::in_pairs, cpu::QuantWay::widened};
    for (const std::optional<cpu::QuantWay> way : ways) {
        cpu::override_quant_way_for_test(way);
        SCOPED_TRACE(testing::Message() << "way " << (way ? static_cast<int>(*way) : -1));
        check_all();
    }
    cpu::override_quant_way_for_test(std::nullopt);
}

/// So many inputs that rows are multiplied in two blocks, by parts of several types. The largest says how rows lie.
TEST_P(QuantWays, BlocksOfRowsAndPartsOfManyTypesHaveTheSameBits) {
    if (!cpu::cpu_features().avx512_vnni) return;  // there is one way
    const int64_t inputs = 65 * 256, rows = 101;
    const FileWeight q4_k = random_weight(DType::q4_k, 130, inputs, 136);
    const FileWeight q6_k = random_weight(DType::q6_k, 53, inputs, 137);
    const FileWeight dense = random_weight(DType::f32, 70, inputs, 138);
    const Tensor x = upload(random_matrix(rows, inputs, 139), DType::f32);
    for (const std::vector<HostMatrix>& parts :
         {std::vector{q4_k.view(), q6_k.view()}, std::vector{q6_k.view(), dense.view(), q4_k.view()}}) {
        const std::unique_ptr<PackedMatrix> packed = std::move(ops().pack(parts)).value();
        std::vector<Matrix> products;
        for (const cpu::QuantWay way : {cpu::QuantWay::alone, cpu::QuantWay::in_pairs, cpu::QuantWay::widened}) {
            cpu::override_quant_way_for_test(way);
            const Tensor out = poisoned(DType::f32, rows, packed->outputs());
            expect_ok(ops().matmul({out, x, packed.get()}));
            products.push_back(download(out));
            EXPECT_EQ(products.back().values, products.front().values) << "way " << static_cast<int>(way);
        }
        cpu::override_quant_way_for_test(std::nullopt);
    }
}

/// A scale or minimum that is infinite, NaN, subnormal or zero gives the reference's result: where that is not finite
/// the product is not finite. No other output changes a bit.
TEST_P(QuantMatmul, OddScalesAndMinimaStayInTheirOutput) {
    for (const DType type : quantized_types) {
        const int64_t columns = odd_row_columns(type);
        const QuantRows odd = rows_with_odd_blocks(type, true), plain = rows_with_odd_blocks(type, false);
        const auto packed_odd = pack({odd.bytes.data(), type, odd.rows, columns, {}});
        const auto packed_plain = pack({plain.bytes.data(), type, plain.rows, columns, {}});
        const Matrix x = random_matrix(40, columns, 135);
        const Tensor input = upload(x, DType::f32);
        Matrix w(odd.rows, columns);
        w.values = odd.values;
        const Matrix expected = reference::matmul(x, w), error = product_error(x, w);
        for (const int64_t rows : {2, 40}) {
            for (const Rows mode : {Rows::bulk, Rows::invariant}) {
                SCOPED_TRACE(testing::Message() << traits(type).name << ", " << rows << " rows, "
                                                << (mode == Rows::bulk ? "bulk" : "invariant"));
                Matrix got, untouched;
                for (const bool is_odd : {true, false}) {
                    MatmulArgs args;
                    args.out = poisoned(DType::f32, rows, odd.rows);
                    args.x = input.slice_rows(0, rows);
                    args.w = is_odd ? packed_odd.get() : packed_plain.get();
                    args.rows = mode;
                    expect_ok(ops().matmul(args));
                    (is_odd ? got : untouched) = download(args.out);
                }
                for (int64_t m = 0; m < rows; ++m) {
                    for (int64_t n = 0; n < odd.rows; ++n) {
                        const double y = got.at(m, n), reference = expected.at(m, n);
                        if (!is_odd_row(n)) {
                            ASSERT_EQ(y, untouched.at(m, n)) << "row " << m << ", output " << n;
                            continue;
                        }
                        ASSERT_EQ(std::isfinite(y), std::isfinite(reference)) << "row " << m << ", output " << n;
                        if (!std::isfinite(reference)) continue;
                        ASSERT_LE(std::abs(y - reference), stored_error(error.at(m, n), reference, DType::f32))
                            << "row " << m << ", output " << n;
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace rondo::test

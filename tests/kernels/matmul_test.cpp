#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string_view>

#include "tests/kernels/op_fixture.hpp"

namespace rondo::test {
namespace {

/// What a product may lose, by the form the backend is free to bring its operands into:
///   f32 weights     f32 sums of some thousand products: 1e-6
///   bf16 weights    f32 activations may be rounded to bf16 (1.7e-3 in the mean); bf16 ones meet them exactly
///   f16 weights     f32 activations may be rounded to f16 (2e-4 in the mean)
///   quantized       activations as int8 under a scale for every 32: half a code of 127 against a maximum of about 2.2
///                   standard deviations is 5e-3 of the norm, in the mean over outputs
double op_tolerance(DType weight, DType x) {
    if (weight == DType::f32) return 2e-6;
    if (weight == DType::bf16) return x == DType::bf16 ? 1e-5 : 4e-3;
    return is_quantized(weight) ? 8e-3 : 5e-4;
}

constexpr DType weight_types[] = {DType::f32,  DType::bf16, DType::f16,  DType::q8_0,   DType::q4_0,
                                  DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k,   DType::q5_k,
                                  DType::q6_k, DType::q2_k, DType::q3_k, DType::iq4_nl, DType::iq4_xs};
constexpr Rows row_modes[] = {Rows::bulk, Rows::invariant};

const char* name_of(Rows rows) {
    return rows == Rows::bulk ? "bulk" : "invariant";
}

/// Widths that are no multiple of 64, one of them of nothing where the type allows.
std::vector<int64_t> input_widths(DType type) {
    if (traits(type).block_elements == 256) return {256, 768};
    if (is_quantized(type)) return {32, 96, 544};
    return {1, 100, 515};
}

Matrix squared(Matrix x) {
    for (double& value : x.values) value *= value;
    return x;
}

class Matmul : public OpTest {
protected:
    std::unique_ptr<PackedMatrix> pack(const std::vector<HostMatrix>& parts) {
        Result<std::unique_ptr<PackedMatrix>> packed = ops().pack(parts);
        if (!packed.is_ok()) throw std::runtime_error(packed.error().message);
        return std::move(*packed);
    }

    void multiply(const Tensor& out, const Tensor& x, const PackedMatrix& w, Rows rows) {
        MatmulArgs args;
        args.out = out;
        args.x = x;
        args.w = &w;
        args.rows = rows;
        expect_ok(ops().matmul(args));
    }

    /// Against the size a product of such rows has before signs cancel, √Σ x²w²: a lone output may come out near zero,
    /// and its error, one draw and not a mean, may be four times the usual.
    void expect_product(const Tensor& got, const Matrix& reference, const Matrix& squares, double tolerance) {
        const Matrix values = download(got);
        double difference = 0.0;
        double size = 0.0;
        for (size_t i = 0; i < values.values.size(); ++i) {
            difference += std::pow(values.values[i] - reference.values[i], 2.0);
            size += squares.values[i];
        }
        tolerance += got.dtype == DType::bf16 ? 2e-3 : 0.0;
        EXPECT_LE(std::sqrt(difference / size), values.values.size() < 64 ? 4.0 * tolerance : tolerance);
    }

    void check_type(DType type, int64_t outputs, int64_t inputs) {
        const FileWeight weight = random_weight(type, outputs, inputs, 101);
        const std::unique_ptr<PackedMatrix> packed = pack({weight.view()});
        EXPECT_EQ(packed->outputs(), outputs);
        EXPECT_EQ(packed->inputs(), inputs);
        for (DType x_type : activation_types) {
            const Matrix x = rounded(random_matrix(130, inputs, 102), x_type);
            const Matrix expected = reference::matmul(x, weight.values);
            const Matrix squares = reference::matmul(squared(x), squared(weight.values));
            const Tensor input = upload(x, x_type);
            for (int64_t rows : {1, 2, 5, 16, 33, 130}) {
                for (DType out_type : activation_types) {
                    for (Rows mode : row_modes) {
                        SCOPED_TRACE(testing::Message() << traits(x_type).name << " · " << traits(type).name
                                                        << "ᵀ = " << traits(out_type).name << ", M N K " << rows << " "
                                                        << outputs << " " << inputs << ", " << name_of(mode));
                        const Tensor out = poisoned(out_type, rows, outputs);
                        multiply(out, input.slice_rows(0, rows), *packed, mode);
                        expect_product(out, expected, squares, op_tolerance(type, x_type));
                    }
                }
            }
        }
    }
};
RONDO_ON_EVERY_DEVICE(Matmul);

TEST_P(Matmul, MatchesTheReferenceForEveryWeightTypeAndShape) {
    for (DType type : weight_types) {
        for (int64_t inputs : input_widths(type)) {
            for (int64_t outputs : {1, 37, 128}) check_type(type, outputs, inputs);
        }
    }
}

TEST_P(Matmul, MatchesTheReferenceForAModelSizedWeight) {
    for (DType type : {DType::f32, DType::bf16, DType::q8_0, DType::q4_k}) {
        const FileWeight weight = random_weight(type, 1152, 1024, 103);
        const Matrix x = random_matrix(65, 1024, 104);
        const std::unique_ptr<PackedMatrix> packed = pack({weight.view()});
        for (Rows mode : row_modes) {
            SCOPED_TRACE(testing::Message() << traits(type).name << ", " << name_of(mode));
            const Tensor out = poisoned(DType::f32, 65, 1152, 0);
            multiply(out, upload(x, DType::f32, 0), *packed, mode);
            expect_near(out, reference::matmul(x, weight.values), op_tolerance(type, DType::f32));
        }
    }
}

/// The promise behind Rows::invariant: a row has the same bits whatever shares the call with it.
TEST_P(Matmul, InvariantRowsHaveTheSameBitsInEveryBatch) {
    for (DType type : weight_types) {
        const int64_t inputs = input_widths(type).back();
        const FileWeight weight = random_weight(type, 150, inputs, 105);
        const std::unique_ptr<PackedMatrix> packed = pack({weight.view()});
        for (DType x_type : activation_types) {
            const Tensor x = upload(rounded(random_matrix(33, inputs, 106), x_type), x_type);
            const Tensor all = poisoned(DType::f32, 33, 150);
            multiply(all, x, *packed, Rows::invariant);
            for (int64_t rows : {1, 2, 5, 16}) {
                for (int64_t first : {int64_t{0}, int64_t{7}, 33 - rows}) {
                    SCOPED_TRACE(testing::Message() << traits(x_type).name << " · " << traits(type).name << ", " << rows
                                                    << " rows from " << first);
                    const Tensor some = poisoned(DType::f32, rows, 150);
                    multiply(some, x.slice_rows(first, rows), *packed, Rows::invariant);
                    EXPECT_EQ(download_bytes(some), download_bytes(all.slice_rows(first, rows)));
                }
            }
        }
    }
}

/// For weights that the CPU multiplies in one way for any number of rows: a prompt's rows have a lone row's bits.
TEST_P(Matmul, FloatsAndCodesHaveTheSameBitsInBulk) {
    if (std::string_view(GetParam().device) == "cuda:0") GTEST_SKIP() << "a promise of the CPU's kernels";
    const bool int8 = device().name().find("bf16 in tiles") == std::string::npos;
    for (DType type : weight_types) {
        if (type != DType::f32 && type != DType::f16 && !(int8 && is_quantized(type))) continue;
        const int64_t inputs = input_widths(type).back();
        const FileWeight weight = random_weight(type, 150, inputs, 122);
        const std::unique_ptr<PackedMatrix> packed = pack({weight.view()});
        const Tensor x = upload(random_matrix(139, inputs, 123), DType::f32);
        const Tensor bulk = poisoned(DType::f32, 139, 150);
        const Tensor alone = poisoned(DType::f32, 139, 150);
        multiply(bulk, x, *packed, Rows::bulk);
        for (int64_t m = 0; m < 139; ++m) {
            multiply(alone.slice_rows(m, 1), x.slice_rows(m, 1), *packed, Rows::invariant);
        }
        EXPECT_EQ(download_bytes(bulk), download_bytes(alone)) << traits(type).name;
    }
}

/// Rows in blocks that fit a cache: so many of so wide a row that there are several.
TEST_P(Matmul, MatchesTheReferenceOverSeveralBlocksOfRows) {
    for (DType type : {DType::f32, DType::bf16, DType::q8_0, DType::q4_k}) {
        const FileWeight weight = random_weight(type, 70, 8192, 124);
        const Matrix x = random_matrix(300, 8192, 125);
        const std::unique_ptr<PackedMatrix> packed = pack({weight.view()});
        const Matrix expected = reference::matmul(x, weight.values);
        for (DType out_type : activation_types) {
            SCOPED_TRACE(testing::Message() << traits(type).name << " to " << traits(out_type).name);
            const Tensor out = poisoned(out_type, 300, 70);
            multiply(out, upload(x, DType::f32), *packed, Rows::bulk);
            const double rounding = out_type == DType::bf16 ? 2e-3 : 0.0;
            expect_near(out, expected, op_tolerance(type, DType::f32) + rounding);
        }
    }
}

TEST_P(Matmul, AddsTheBiasAndAccumulates) {
    for (DType type : {DType::f32, DType::bf16, DType::f16, DType::q8_0, DType::q4_1, DType::q6_k}) {
        const int64_t inputs = is_quantized(type) ? 256 : 200;
        const FileWeight weight = random_weight(type, 70, inputs, 107);
        const std::unique_ptr<PackedMatrix> packed = pack({weight.view()});
        const Matrix bias = random_matrix(1, 70, 108);
        for (int64_t rows : {1, 3, 40, 70}) {
            for (Rows mode : row_modes) {
                for (bool with_bias : {false, true}) {
                    for (bool accumulate : {false, true}) {
                        SCOPED_TRACE(testing::Message()
                                     << traits(type).name << ", " << rows << " rows, " << name_of(mode) << ", bias "
                                     << with_bias << ", accumulate " << accumulate);
                        const Matrix x = random_matrix(rows, inputs, 109);
                        const Matrix before = random_matrix(rows, 70, 110);
                        Matrix expected = reference::matmul(x, weight.values, with_bias ? bias : Matrix());
                        MatmulArgs args;
                        args.out = accumulate ? upload(before, DType::f32) : poisoned(DType::f32, rows, 70);
                        args.x = upload(x, DType::f32);
                        args.w = packed.get();
                        args.bias = with_bias ? upload_floats(bias) : nullptr;
                        args.accumulate = accumulate;
                        args.rows = mode;
                        expect_ok(ops().matmul(args));
                        for (size_t i = 0; accumulate && i < expected.values.size(); ++i) {
                            expected.values[i] += before.values[i];
                        }
                        expect_near(args.out, expected, op_tolerance(type, DType::f32));
                    }
                }
            }
        }
    }
}

TEST_P(Matmul, AddsTheBiasBeforeRoundingToBf16) {
    const FileWeight weight = random_weight(DType::bf16, 48, 64, 111);
    const std::unique_ptr<PackedMatrix> packed = pack({weight.view()});
    const Matrix bias = random_matrix(1, 48, 112, 3.0);
    const Matrix x = rounded(random_matrix(40, 64, 113), DType::bf16);
    for (Rows mode : row_modes) {
        MatmulArgs args;
        args.out = poisoned(DType::bf16, 40, 48);
        args.x = upload(x, DType::bf16);
        args.w = packed.get();
        args.bias = upload_floats(bias);
        args.rows = mode;
        expect_ok(ops().matmul(args));
        expect_near(args.out, reference::matmul(x, weight.values, bias), op_tolerance(DType::bf16, DType::bf16));
    }
}

TEST_P(Matmul, StackedPartsMayHaveDifferentTypes) {
    const std::vector<std::vector<DType>> stacks = {
        {DType::q4_k, DType::q4_k, DType::q6_k},
        {DType::q8_0, DType::f32, DType::q4_0},
        {DType::bf16, DType::bf16},
        {DType::f16, DType::bf16, DType::q5_k},
        {DType::q2_k, DType::q3_k, DType::iq4_xs, DType::iq4_nl},
    };
    for (const std::vector<DType>& types : stacks) {
        std::vector<FileWeight> weights;
        std::vector<HostMatrix> parts;
        for (DType type : types) weights.push_back(random_weight(type, 21 + 16 * std::ssize(weights), 512, 114));
        for (const FileWeight& weight : weights) parts.push_back(weight.view());
        const std::unique_ptr<PackedMatrix> packed = pack(parts);
        for (int64_t rows : {1, 4, 50}) {
            for (Rows mode : row_modes) {
                const Matrix x = random_matrix(rows, 512, 115);
                const Tensor out = poisoned(DType::f32, rows, packed->outputs());
                multiply(out, upload(x, DType::f32), *packed, mode);
                int64_t column = 0;
                for (const FileWeight& weight : weights) {
                    SCOPED_TRACE(testing::Message() << traits(weight.dtype).name << " at output " << column << ", "
                                                    << rows << " rows, " << name_of(mode));
                    expect_near(out.slice_columns(column, weight.values.rows), reference::matmul(x, weight.values),
                                op_tolerance(weight.dtype, DType::f32));
                    column += weight.values.rows;
                }
                EXPECT_EQ(column, packed->outputs());
            }
        }
    }
}

TEST_P(Matmul, RowOrderPermutesTheOutputsOfItsPart) {
    std::vector<int32_t> order(40);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(116));
    for (DType type : {DType::f32, DType::bf16, DType::f16, DType::q8_0, DType::q4_k}) {
        const FileWeight first = random_weight(type, 40, 256, 117);
        const FileWeight second = random_weight(type, 24, 256, 118);
        const std::unique_ptr<PackedMatrix> packed = pack({first.view(order), second.view()});
        const Matrix expected = stacked(reference::take_rows(first.values, order), second.values);
        const Matrix x = random_matrix(3, 256, 119);
        for (Rows mode : row_modes) {
            SCOPED_TRACE(testing::Message() << traits(type).name << ", " << name_of(mode));
            const Tensor out = poisoned(DType::f32, 3, 64);
            multiply(out, upload(x, DType::f32), *packed, mode);
            expect_near(out, reference::matmul(x, expected), op_tolerance(type, DType::f32));
        }
    }
}

TEST_P(Matmul, PackingRefusesPartsWhoseInputsDiffer) {
    const FileWeight wide = random_weight(DType::f32, 4, 64, 120);
    const FileWeight narrow = random_weight(DType::f32, 4, 32, 121);
    const std::vector<HostMatrix> parts = {wide.view(), narrow.view()};
    EXPECT_FALSE(ops().pack(parts).is_ok());
}

/// What the CPU's kernels promise alone.
class MatmulOfCpu : public Matmul {};
RONDO_ON_EVERY_CPU(MatmulOfCpu);

/// Also of more rows and panels than one task of tiles has, and of a last one that is not full.
TEST_P(MatmulOfCpu, ManyRowsHaveTheSameBitsInEveryBatch) {
    for (DType type : {DType::bf16, DType::q8_0, DType::q4_k}) {
        const int64_t inputs = type == DType::bf16 ? 803 : 768;
        const FileWeight weight = random_weight(type, 64 * 9 + 21, inputs, 126);
        const std::unique_ptr<PackedMatrix> packed = pack({weight.view()});
        const Matrix values = random_matrix(1100, inputs, 127);
        const Tensor x = upload(values, DType::f32);
        const Tensor all = poisoned(DType::f32, 1100, weight.values.rows);
        multiply(all, x, *packed, Rows::bulk);
        for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 49}, {17, 100}, {530, 65}, {999, 101}}) {
            SCOPED_TRACE(testing::Message() << traits(type).name << ", " << rows << " rows from " << first);
            const Tensor some = poisoned(DType::f32, rows, weight.values.rows);
            multiply(some, x.slice_rows(first, rows), *packed, Rows::bulk);
            EXPECT_EQ(download_bytes(some), download_bytes(all.slice_rows(first, rows)));
        }
        expect_near(all.slice_rows(540, 20), reference::matmul(values.slice_rows(540, 20), weight.values),
                    op_tolerance(type, DType::f32));
    }
}

}  // namespace
}  // namespace rondo::test

#include "tests/kernels/op_fixture.hpp"

namespace rondo::test {
namespace {

class Embed : public OpTest {
protected:
    /// A packed table loses nothing of the file's values, but for quantized ones: a CPU multiplies them out in f32,
    /// each product rounded, a GPU keeps them as bf16.
    double tolerance(DType type) {
        if (!is_quantized(type)) return 0.0;
        return device().space().kind == DeviceKind::cuda ? 0x1p-8 : 3e-7;
    }
};
RONDO_ON_EVERY_DEVICE(Embed);

constexpr DType weight_types[] = {DType::f32,  DType::bf16, DType::f16,  DType::q8_0,   DType::q4_0,
                                  DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k,   DType::q5_k,
                                  DType::q6_k, DType::q2_k, DType::q3_k, DType::iq4_nl, DType::iq4_xs};

TEST_P(Embed, LooksUpRowsOfEveryType) {
    const std::vector<int32_t> ids = {0, 66, 3, 3, 65, 16, 17};
    for (DType type : weight_types) {
        for (int64_t columns : {256, 768}) {
            SCOPED_TRACE(testing::Message() << traits(type).name << ", " << columns);
            const FileWeight weight = random_weight(type, 67, columns, 71);
            const HostMatrix part = weight.view();
            const Result<std::unique_ptr<PackedMatrix>> table = ops().pack(std::span(&part, 1));
            ASSERT_TRUE(table.is_ok()) << table.error().message;
            const Tensor out = poisoned(DType::f32, std::ssize(ids), columns);
            expect_ok(ops().embed(out, upload(ids), **table));
            expect_near(out, reference::take_rows(weight.values, ids), tolerance(type));
        }
    }
}

TEST_P(Embed, TakesWidthsThatFillNoRegister) {
    const std::vector<int32_t> ids = {4, 0, 36};
    for (DType type : {DType::f32, DType::bf16, DType::f16, DType::q8_0, DType::q4_1}) {
        const int64_t columns = is_quantized(type) ? 96 : 101;
        SCOPED_TRACE(testing::Message() << traits(type).name << ", " << columns);
        const FileWeight weight = random_weight(type, 37, columns, 72);
        const HostMatrix part = weight.view();
        const Result<std::unique_ptr<PackedMatrix>> table = ops().pack(std::span(&part, 1));
        ASSERT_TRUE(table.is_ok()) << table.error().message;
        const Tensor out = poisoned(DType::f32, std::ssize(ids), columns);
        expect_ok(ops().embed(out, upload(ids), **table));
        expect_near(out, reference::take_rows(weight.values, ids), tolerance(type));
    }
}

TEST_P(Embed, NegativeIdsLeaveTheirRowsAlone) {
    const FileWeight weight = random_weight(DType::f32, 5, 64, 73);
    const HostMatrix part = weight.view();
    const Result<std::unique_ptr<PackedMatrix>> table = ops().pack(std::span(&part, 1));
    ASSERT_TRUE(table.is_ok()) << table.error().message;
    const Matrix before = random_matrix(3, 64, 74);
    const Tensor out = upload(before, DType::f32);
    expect_ok(ops().embed(out, upload(std::vector<int32_t>{-1, 4, -1}), **table));
    expect_equal(out.slice_rows(0, 1), before.slice_rows(0, 1));
    expect_equal(out.slice_rows(1, 1), weight.values.slice_rows(4, 1));
    expect_equal(out.slice_rows(2, 1), before.slice_rows(2, 1));
}

}  // namespace
}  // namespace rondo::test

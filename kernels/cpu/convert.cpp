#include "kernels/cpu/convert.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {

void to_bf16(const float* from, uint16_t* to, int64_t count) {
    for_lanes(count, [&](int64_t i, auto load, auto store) HWY_ATTR { store(load(from + i), to + i); });
}

void from_bf16(const uint16_t* from, float* to, int64_t count) {
    for_lanes(count, [&](int64_t i, auto load, auto store) HWY_ATTR { store(load(from + i), to + i); });
}

/// The bits moved into place are the value times 2^-112, denormals too; only infinity and NaN need their exponent set.
void from_f16(const uint16_t* from, float* to, int64_t count) {
    const F32 f;
    const hn::Rebind<uint32_t, F32> u32;
    const auto infinity = hn::Set(u32, 0x7f800000U);
    const Lanes scale = hn::Set(f, 0x1p112F);
    for_lanes(count, [&](int64_t i, auto load, auto store) HWY_ATTR {
        const auto raw = hn::BitCast(u32, load(from + i));  // the half in the upper 16 bits
        const auto sign = hn::And(raw, hn::Set(u32, 0x80000000U));
        const auto magnitude = hn::ShiftRight<3>(hn::AndNot(sign, raw));
        const auto scaled = hn::BitCast(u32, hn::Mul(hn::BitCast(f, magnitude), scale));
        const auto special = hn::Gt(magnitude, hn::Set(u32, 0x0f7fffffU));
        const auto nan = hn::Gt(magnitude, hn::Set(u32, 0x0f800000U));
        const auto quiet = hn::IfThenElseZero(nan, hn::Set(u32, 0x400000U));
        const auto bits = hn::Or(hn::Or(scaled, hn::IfThenElseZero(special, infinity)), hn::Or(sign, quiet));
        store(hn::BitCast(f, bits), to + i);
    });
}

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(to_bf16);
HWY_EXPORT(from_bf16);
HWY_EXPORT(from_f16);
}  // namespace

void convert_row(const float* from, uint16_t* to_bf16_row, int64_t count) {
    HWY_DYNAMIC_DISPATCH(to_bf16)(from, to_bf16_row, count);
}

void convert_row(const uint16_t* from_bf16_row, float* to, int64_t count) {
    HWY_DYNAMIC_DISPATCH(from_bf16)(from_bf16_row, to, count);
}

void convert_f16_row(const uint16_t* from_f16_row, float* to, int64_t count) {
    HWY_DYNAMIC_DISPATCH(from_f16)(from_f16_row, to, count);
}

}  // namespace rondo::cpu
#endif

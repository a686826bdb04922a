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

}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {
HWY_EXPORT(to_bf16);
HWY_EXPORT(from_bf16);
}  // namespace

void convert_row(const float* from, uint16_t* to_bf16_row, int64_t count) {
    HWY_DYNAMIC_DISPATCH(to_bf16)(from, to_bf16_row, count);
}

void convert_row(const uint16_t* from_bf16_row, float* to, int64_t count) {
    HWY_DYNAMIC_DISPATCH(from_bf16)(from_bf16_row, to, count);
}

}  // namespace rondo::cpu
#endif

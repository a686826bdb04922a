#include "kernels/cpu/quant_activations.hpp"

#include <cassert>

#include "config/checked.hpp"
#include "kernels/cpu/quant_layout.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quant_activations.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Below this a block counts as zero: the reciprocal of its scale would not be finite.
constexpr float smallest_magnitude = 1e-30F;

/// 32 activations to floats.
void load_block(const float* x, float* block) {
    const hn::CappedTag<float, 16> d;
    for (size_t i = 0; i < 32; i += hn::Lanes(d)) hn::Store(hn::LoadU(d, x + i), d, block + i);
}

void load_block(const uint16_t* x, float* block) {
    const hn::CappedTag<uint32_t, 16> d;
    const hn::Rebind<uint16_t, decltype(d)> narrow;
    for (size_t i = 0; i < 32; i += hn::Lanes(d)) {
        const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(narrow, x + i)));
        hn::Store(hn::BitCast(hn::RebindToFloat<decltype(d)>(), bits), hn::RebindToFloat<decltype(d)>(), block + i);
    }
}

/// The largest magnitude. Compared as integers, which order magnitudes alike and put NaN above infinity.
float largest_magnitude(const float* block) {
    const hn::CappedTag<float, 16> d;
    const hn::RebindToSigned<decltype(d)> di;
    auto largest = hn::Zero(di);
    for (size_t i = 0; i < 32; i += hn::Lanes(d)) {
        largest = hn::Max(largest, hn::BitCast(di, hn::Abs(hn::Load(d, block + i))));
    }
    return hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, largest)));
}

/// Writes 16 codes and returns their sum.
int32_t quantize_16(const float* block, float inverse, int8_t* codes) {
    const hn::CappedTag<float, 16> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<int8_t, decltype(d)> narrow;
    auto sum = hn::Zero(di);
    for (size_t i = 0; i < 16; i += hn::Lanes(d)) {
        const auto code = hn::NearestInt(hn::Mul(hn::Load(d, block + i), hn::Set(d, inverse)));
        const auto clamped = hn::Min(hn::Max(code, hn::Set(di, -127)), hn::Set(di, 127));
        hn::StoreU(hn::DemoteTo(narrow, clamped), narrow, codes + i);
        sum = hn::Add(sum, clamped);
    }
    return hn::GetLane(hn::SumOfLanes(di, sum));
}

template <class T>
void quantize_row(const T* x, const QuantActivations& out, int64_t row) {
    const int64_t blocks = out.columns / quant_block;
    HWY_ALIGN float block[32];
    for (int64_t b = 0; b < blocks; ++b) {
        int8_t* codes = out.codes + row * out.columns + b * quant_block;
        load_block(x + b * quant_block, block);
        const float largest = largest_magnitude(block);
        const bool zero = largest < smallest_magnitude;
        const float scale = zero ? 0.0F : largest / 127.0F;
        const float inverse = zero ? 0.0F : 127.0F / largest;
        const int32_t first = quantize_16(block, inverse, codes);
        const int32_t second = quantize_16(block + 16, inverse, codes + 16);
        const int64_t at = row * blocks + b;
        out.scales[at] = scale;
        out.sums[at] = first + second;
        out.scaled_sums[at] = scale * static_cast<float>(first + second);
        out.half_sums[2 * at] = first;
        out.half_sums[2 * at + 1] = second;
    }
}

void quantize_rows(const Tensor& x, const QuantActivations& out, int64_t row_begin, int64_t row_end) {
    for (int64_t row = row_begin; row < row_end; ++row) {
        if (x.dtype == DType::f32) {
            quantize_row(x.row<const float>(row), out, row);
        } else {
            quantize_row(x.row<const uint16_t>(row), out, row);
        }
    }
}

}  // namespace
}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {
namespace {

HWY_EXPORT(quantize_rows);

size_t aligned(int64_t count, size_t element_bytes) {
    return round_up<size_t>(static_cast<size_t>(count) * element_bytes, 64);
}

}  // namespace

size_t activation_bytes(int64_t rows, int64_t columns) {
    const int64_t blocks = rows * (columns / quant_block);
    return aligned(rows * columns, 1) + 3 * aligned(blocks, 4) + aligned(2 * blocks, 4);
}

QuantActivations place_activations(std::span<std::byte> scratch, int64_t rows, int64_t columns) {
    assert(columns % quant_block == 0 && scratch.size() >= activation_bytes(rows, columns));
    assert(reinterpret_cast<uintptr_t>(scratch.data()) % 64 == 0);
    const int64_t blocks = rows * (columns / quant_block);
    std::byte* at = scratch.data();
    QuantActivations out;
    out.rows = rows;
    out.columns = columns;
    out.codes = reinterpret_cast<int8_t*>(at);
    at += aligned(rows * columns, 1);
    out.scales = reinterpret_cast<float*>(at);
    at += aligned(blocks, 4);
    out.scaled_sums = reinterpret_cast<float*>(at);
    at += aligned(blocks, 4);
    out.sums = reinterpret_cast<int32_t*>(at);
    at += aligned(blocks, 4);
    out.half_sums = reinterpret_cast<int32_t*>(at);
    return out;
}

void quantize_rows(const Tensor& x, const QuantActivations& out, int64_t row_begin, int64_t row_end) {
    assert(x.columns == out.columns && row_begin >= 0 && row_end <= x.rows && row_end <= out.rows);
    assert(x.dtype == DType::f32 || x.dtype == DType::bf16);
    HWY_DYNAMIC_DISPATCH(quantize_rows)(x, out, row_begin, row_end);
}

QuantActivations quantize_activations(const Tensor& x, std::span<std::byte> scratch) {
    const QuantActivations out = place_activations(scratch, x.rows, x.columns);
    quantize_rows(x, out, 0, x.rows);
    return out;
}

}  // namespace rondo::cpu
#endif

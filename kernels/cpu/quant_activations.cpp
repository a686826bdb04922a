#include "kernels/cpu/quant_activations.hpp"

#include <cassert>
#include <numeric>

#include "config/checked.hpp"
#include "kernels/cpu/quant_layout.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quant_activations.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Below this a block counts as zero: the reciprocal of its scale would not be finite.
constexpr float smallest_magnitude = 1e-30F;

const hn::CappedTag<float, 16> floats;  // half a block, or a part of it
using Floats = hn::Vec<decltype(floats)>;

HWY_INLINE Floats load_floats(const float* x) {
    return hn::LoadU(floats, x);
}

HWY_INLINE Floats load_floats(const uint16_t* x) {
    const hn::RebindToUnsigned<decltype(floats)> bits;
    const hn::Rebind<uint16_t, decltype(floats)> narrow;
    return hn::BitCast(floats, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(narrow, x))));
}

/// The largest magnitude of a block. Compared as integers, which order magnitudes alike and put NaN above infinity.
template <class T>
HWY_INLINE float largest_magnitude(const T* x) {
    const hn::RebindToSigned<decltype(floats)> integers;
    auto largest = hn::Zero(integers);
    for (size_t i = 0; i < 32; i += hn::Lanes(floats))
        largest = hn::Max(largest, hn::BitCast(integers, hn::Abs(load_floats(x + i))));
    return hn::GetLane(hn::BitCast(floats, hn::MaxOfLanes(integers, largest)));
}

/// Writes a block's codes.
template <class T>
HWY_INLINE void quantize_block(const T* x, float inverse, int8_t* codes) {
    const hn::RebindToSigned<decltype(floats)> integers;
    const hn::Rebind<int8_t, decltype(floats)> narrow;
    for (size_t i = 0; i < 32; i += hn::Lanes(floats)) {
        const auto code = hn::NearestInt(hn::Mul(load_floats(x + i), hn::Set(floats, inverse)));
        const auto clamped = hn::Max(code, hn::Set(integers, -127));  // demoting keeps to 127
        hn::StoreU(hn::DemoteTo(narrow, clamped), narrow, codes + i);
    }
}

/// Sums the two halves of a block's codes. As unsigned numbers eight bytes are summed by one instruction.
HWY_INLINE void sum_halves(const int8_t* codes, int32_t* sums) {
    const hn::CappedTag<uint8_t, 32> bytes;
    if constexpr (hn::MaxLanes(bytes) < 16) {  // no vectors
        sums[0] = std::accumulate(codes, codes + 16, 0);
        sums[1] = std::accumulate(codes + 16, codes + 32, 0);
    } else {
        alignas(32) uint64_t sums_of_8[4];
        for (size_t i = 0; i < 32; i += hn::Lanes(bytes)) {
            const auto code = hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(codes) + i);
            const auto eights = hn::SumsOf8(hn::Xor(code, hn::Set(bytes, 0x80)));
            hn::Store(eights, hn::Repartition<uint64_t, decltype(bytes)>(), sums_of_8 + i / 8);
        }
        sums[0] = static_cast<int32_t>(sums_of_8[0] + sums_of_8[1]) - 16 * 128;
        sums[1] = static_cast<int32_t>(sums_of_8[2] + sums_of_8[3]) - 16 * 128;
    }
}

/// In passes over the row, so that many blocks share a division and a conversion.
template <class T>
void quantize_row(const T* x, const QuantActivations& out, int64_t row) {
    const F32 f;
    const int64_t blocks = out.columns / quant_block;
    int8_t* const codes = out.codes + row * out.columns;
    float* const scales = out.scales + row * blocks;
    float* const scaled_sums = out.scaled_sums + row * blocks;
    int32_t* const sums = out.sums + row * blocks;
    int32_t* const half_sums = out.half_sums + 2 * row * blocks;
    for (int64_t b = 0; b < blocks; ++b) scales[b] = largest_magnitude(x + b * quant_block);
    float* const inverses = scaled_sums;  // which come last
    for_lanes(blocks, [&](int64_t b, auto load, auto store) HWY_ATTR {
        const Lanes largest = load(scales + b), most = hn::Set(f, 127.0F);
        const auto zero = hn::Lt(largest, hn::Set(f, smallest_magnitude));
        store(hn::IfThenZeroElse(zero, hn::Div(largest, most)), scales + b);
        store(hn::IfThenZeroElse(zero, hn::Div(most, largest)), inverses + b);
    });
    for (int64_t b = 0; b < blocks; ++b) quantize_block(x + b * quant_block, inverses[b], codes + b * quant_block);
    for (int64_t b = 0; b < blocks; ++b) {
        sum_halves(codes + b * quant_block, half_sums + 2 * b);
        sums[b] = half_sums[2 * b] + half_sums[2 * b + 1];
    }
    for (int64_t b = 0; b < blocks; ++b) scaled_sums[b] = scales[b] * static_cast<float>(sums[b]);
    float* const scaled_half_sums = out.scaled_half_sums + 2 * row * blocks;
    for (int64_t i = 0; i < 2 * blocks; ++i) scaled_half_sums[i] = scales[i / 2] * static_cast<float>(half_sums[i]);
    int32_t* const begins = out.begins + row * blocks;
    int32_t* const half_begins = out.half_begins + 2 * row * blocks;
    for (int64_t b = 0; b < blocks; ++b) begins[b] = lift_bits - wide_offset * sums[b];
    for (int64_t i = 0; i < 2 * blocks; ++i) half_begins[i] = (i % 2 == 0 ? lift_bits : 0) - wide_offset * half_sums[i];
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
    return aligned(rows * columns, 1) + 4 * aligned(blocks, 4) + 3 * aligned(2 * blocks, 4);
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
    out.scaled_half_sums = reinterpret_cast<float*>(at);
    at += aligned(2 * blocks, 4);
    out.sums = reinterpret_cast<int32_t*>(at);
    at += aligned(blocks, 4);
    out.half_sums = reinterpret_cast<int32_t*>(at);
    at += aligned(2 * blocks, 4);
    out.begins = reinterpret_cast<int32_t*>(at);
    at += aligned(blocks, 4);
    out.half_begins = reinterpret_cast<int32_t*>(at);
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

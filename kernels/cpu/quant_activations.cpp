#include "kernels/cpu/quant_activations.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
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

/// The sum of half a block's codes. As unsigned numbers eight bytes are summed by one instruction.
HWY_INLINE int32_t sum_half(const int8_t* codes) {
    const hn::CappedTag<uint8_t, 16> bytes;
    if constexpr (hn::MaxLanes(bytes) < 16) return std::accumulate(codes, codes + 16, 0);  // no vectors
    const hn::Repartition<uint64_t, decltype(bytes)> eights;
    const auto code = hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(codes));
    const auto sums = hn::SumsOf8(hn::Xor(code, hn::Set(bytes, 0x80)));
    return static_cast<int32_t>(hn::GetLane(hn::SumOfLanes(eights, sums))) - 16 * 128;
}

constexpr int64_t blocks_at_once = 64;  // fewer would read vectors whose parts were only just written

/// What the tables say of some blocks.
struct BlockTables {
    float scales[blocks_at_once], scaled_sums[blocks_at_once], scaled_half_sums[2 * blocks_at_once];
    int32_t sums[blocks_at_once], half_sums[2 * blocks_at_once];
    int32_t begins[blocks_at_once], half_begins[2 * blocks_at_once];

    /// `count` of them from scales and half_sums.
    void fill(int64_t count) {
        for (int64_t b = 0; b < count; ++b) sums[b] = half_sums[2 * b] + half_sums[2 * b + 1];
        for (int64_t b = 0; b < count; ++b) scaled_sums[b] = scales[b] * static_cast<float>(sums[b]);
        for (int64_t b = 0; b < count; ++b) begins[b] = lift_bits - wide_offset * sums[b];
        for (int64_t i = 0; i < 2 * count; ++i) scaled_half_sums[i] = scales[i / 2] * static_cast<float>(half_sums[i]);
        for (int64_t i = 0; i < 2 * count; ++i)
            half_begins[i] = (i % 2 == 0 ? lift_bits : 0) - wide_offset * half_sums[i];
    }
    /// `count` of them, from place `at` of the tables on.
    void write(const QuantActivations& out, int64_t at, int64_t count) const {
        if (out.side_by_side == 1) {
            std::copy_n(scales, count, out.scales + at);
            std::copy_n(scaled_sums, count, out.scaled_sums + at);
            std::copy_n(sums, count, out.sums + at);
            std::copy_n(begins, count, out.begins + at);
            std::copy_n(scaled_half_sums, 2 * count, out.scaled_half_sums + 2 * at);
            std::copy_n(half_sums, 2 * count, out.half_sums + 2 * at);
            std::copy_n(half_begins, 2 * count, out.half_begins + 2 * at);
            return;
        }
        for (int64_t b = 0; b < count; ++b, at += strip_rows) {
            out.scales[at] = scales[b];
            out.scaled_sums[at] = scaled_sums[b];
            out.begins[at] = begins[b];
            std::memcpy(out.scaled_half_sums + 2 * at, scaled_half_sums + 2 * b, 2 * sizeof(float));
            std::memcpy(out.half_begins + 2 * at, half_begins + 2 * b, 2 * sizeof(int32_t));
        }
    }
};

/// Blocks [begin, begin + count) of a row, which share a division and what tables take.
template <class T>
HWY_INLINE void quantize_blocks(const T* x, const QuantActivations& out, int64_t row, int64_t begin, int64_t count) {
    const F32 f;
    BlockTables tables;
    float inverses[blocks_at_once];
    for (int64_t b = 0; b < count; ++b) tables.scales[b] = largest_magnitude(x + b * quant_block);
    for_lanes(count, [&](int64_t b, auto load, auto store) HWY_ATTR {
        const Lanes largest = load(tables.scales + b), most = hn::Set(f, 127.0F);
        const auto zero = hn::Lt(largest, hn::Set(f, smallest_magnitude));
        store(hn::IfThenZeroElse(zero, hn::Div(largest, most)), tables.scales + b);
        store(hn::IfThenZeroElse(zero, hn::Div(most, largest)), inverses + b);
    });
    const int64_t first = out.at(row, begin), stride = out.side_by_side * quant_block;
    int8_t* const codes = out.codes + first * quant_block;
    for (int64_t b = 0; b < count; ++b) quantize_block(x + b * quant_block, inverses[b], codes + b * stride);
    for (int64_t b = 0; b < count; ++b) {  // apart: what was just written in parts cannot be read whole at once
        for (int64_t i = 0; i < 2; ++i) tables.half_sums[2 * b + i] = sum_half(codes + b * stride + 16 * i);
    }
    tables.fill(count);
    tables.write(out, first, count);
}

template <class T>
void quantize_row(const T* x, const QuantActivations& out, int64_t row) {
    const int64_t blocks = out.columns / quant_block;
    for (int64_t b = 0; b < blocks; b += blocks_at_once)
        quantize_blocks(x + b * quant_block, out, row, b, std::min(blocks_at_once, blocks - b));
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

size_t activation_bytes(int64_t rows, int64_t columns, int64_t side_by_side) {
    const int64_t whole = round_up(rows, side_by_side), blocks = whole * (columns / quant_block);
    const size_t sums = side_by_side > 1 ? 0 : aligned(blocks, 4) + aligned(2 * blocks, 4);
    return aligned(whole * columns, 1) + 3 * aligned(blocks, 4) + 2 * aligned(2 * blocks, 4) + sums;
}

QuantActivations place_activations(std::span<std::byte> scratch, int64_t rows, int64_t columns, int64_t side_by_side) {
    assert(columns % quant_block == 0 && scratch.size() >= activation_bytes(rows, columns, side_by_side));
    assert(reinterpret_cast<uintptr_t>(scratch.data()) % 64 == 0);
    const int64_t whole = round_up(rows, side_by_side), blocks = whole * (columns / quant_block);
    std::byte* at = scratch.data();
    QuantActivations out;
    out.rows = rows;
    out.columns = columns;
    out.side_by_side = side_by_side;
    out.codes = reinterpret_cast<int8_t*>(at);
    at += aligned(whole * columns, 1);
    out.scales = reinterpret_cast<float*>(at);
    at += aligned(blocks, 4);
    out.scaled_sums = reinterpret_cast<float*>(at);
    at += aligned(blocks, 4);
    out.scaled_half_sums = reinterpret_cast<float*>(at);
    at += aligned(2 * blocks, 4);
    out.begins = reinterpret_cast<int32_t*>(at);
    at += aligned(blocks, 4);
    out.half_begins = reinterpret_cast<int32_t*>(at);
    at += aligned(2 * blocks, 4);
    if (side_by_side > 1) return out;
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

QuantActivations quantize_activations(const Tensor& x, std::span<std::byte> scratch, int64_t side_by_side) {
    const QuantActivations out = place_activations(scratch, x.rows, x.columns, side_by_side);
    quantize_rows(x, out, 0, x.rows);
    return out;
}

QuantActivations copy_rows(const QuantActivations& x, int64_t first, int64_t count, std::span<std::byte> scratch,
                           int64_t side_by_side) {
    const QuantActivations out = place_activations(scratch, count, x.columns, side_by_side);
    for (int64_t row = 0; row < count; ++row) {
        for (int64_t b = 0; b < x.columns / quant_block; ++b) {
            const int64_t from = x.at(first + row, b), to = out.at(row, b);
            std::copy_n(x.codes + from * quant_block, quant_block, out.codes + to * quant_block);
            out.scales[to] = x.scales[from];
            out.scaled_sums[to] = x.scaled_sums[from];
            out.begins[to] = x.begins[from];
            std::copy_n(x.scaled_half_sums + 2 * from, 2, out.scaled_half_sums + 2 * to);
            std::copy_n(x.half_begins + 2 * from, 2, out.half_begins + 2 * to);
            if (side_by_side > 1) continue;
            int32_t* const halves = out.half_sums + 2 * to;
            for (int64_t i = 0; i < 2; ++i)
                halves[i] = std::accumulate(x.codes + from * quant_block + 16 * i,
                                            x.codes + from * quant_block + 16 * (i + 1), 0);
            out.sums[to] = halves[0] + halves[1];
        }
    }
    return out;
}

}  // namespace rondo::cpu
#endif

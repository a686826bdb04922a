#include <algorithm>
#include <cstring>

#include "kernels/cpu/quant_kernels.hpp"
#include "kernels/cpu/quant_layout.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quant_portable.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/quant_unpack-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Rows of x that share one unpacking of a chunk.
constexpr int64_t rows_at_once = 32;

/// The activations of one row's part of a chunk, widened: input 2i of the chunk at even[i], input 2i + 1 at odd[i].
struct WideCodes {
    int16_t even[quant_chunk_blocks * 16];
    int16_t odd[quant_chunk_blocks * 16];
};

void widen_codes(const int8_t* codes, int64_t count, WideCodes& out) {
    for (int64_t i = 0; i < count / 2; ++i) {
        out.even[i] = codes[2 * i];
        out.odd[i] = codes[2 * i + 1];
    }
}

/// sum + Σ of the four products u·a in each 32-bit lane; `even` and `odd` stand for two activations each. The codes are
/// widened to 16 bits: a pairwise multiply-add of bytes saturates from 7-bit codes on.
template <class DI, class V = hn::Vec<DI>>
HWY_INLINE V add_products(DI di, V codes, const int16_t* even, const int16_t* odd, V sum) {
#if HWY_TARGET <= HWY_SSSE3 && HWY_ARCH_X86
    // On x86 this multiply-add joins neighbours, so codes 0 and 2 of a lane go in one call, 1 and 3 in the other.
    const hn::Repartition<int16_t, DI> d16;
    const hn::RebindToUnsigned<decltype(d16)> du16;
    int32_t pairs[2];
    std::memcpy(&pairs[0], even, 4);
    std::memcpy(&pairs[1], odd, 4);
    const auto code_even = hn::And(hn::BitCast(d16, codes), hn::Set(d16, 0xFF));
    const auto code_odd = hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, codes)));
    auto unused = hn::Zero(di);
    sum = hn::ReorderWidenMulAccumulate(di, code_even, hn::BitCast(d16, hn::Set(di, pairs[0])), sum, unused);
    return hn::ReorderWidenMulAccumulate(di, code_odd, hn::BitCast(d16, hn::Set(di, pairs[1])), sum, unused);
#else
    const auto byte = hn::Set(di, 0xFF);
    sum = hn::Add(sum, hn::Mul(hn::And(codes, byte), hn::Set(di, even[0])));
    sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<8>(codes), byte), hn::Set(di, odd[0])));
    sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<16>(codes), byte), hn::Set(di, even[1])));
    return hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<24>(codes), byte), hn::Set(di, odd[1])));
#endif
}

/// Adds blocks [block0, block0 + blocks) of one row of x to its 16 sums.
template <DType Type>
void add_row(const uint32_t* codes, const UnpackedChunk& chunk, int64_t blocks, const QuantActivations& x, int64_t row,
             int64_t block0, float* sums) {
    constexpr QuantLayout layout = quant_layout(Type);
    constexpr int subblocks = layout.subblocks;
    const hn::CappedTag<float, 16> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::RebindToUnsigned<decltype(d)> du;
    WideCodes wide;
    widen_codes(x.codes + row * x.columns + block0 * quant_block, blocks * quant_block, wide);
    for (size_t r = 0; r < 16; r += hn::Lanes(d)) {
        auto sum = hn::Load(d, sums + r);
        for (int64_t b = 0; b < blocks; ++b) {
            const int64_t at = row * (x.columns / quant_block) + block0 + b;
            const int32_t* code_sums = subblocks == 2 ? x.half_sums + 2 * at : x.sums + at;
            for (int s = 0; s < subblocks; ++s) {
                auto product = hn::Set(di, layout.minima ? 0 : -layout.offset * code_sums[s]);
                for (int q = s * 8 / subblocks; q < (s + 1) * 8 / subblocks; ++q) {
                    const auto quad = hn::BitCast(di, hn::Load(du, codes + b * 128 + q * 16 + r));
                    const int64_t pair = b * 16 + q * 2;
                    product = add_products(di, quad, wide.even + pair, wide.odd + pair, product);
                }
                const auto scale = hn::Load(d, chunk.scales + (b * subblocks + s) * 16 + r);
                sum = hn::MulAdd(hn::ConvertTo(d, product), hn::Mul(scale, hn::Set(d, x.scales[at])), sum);
            }
            for (int s = 0; layout.minima && s < subblocks; ++s) {
                const float scaled_sum =
                    subblocks == 2 ? x.scales[at] * static_cast<float>(x.half_sums[2 * at + s]) : x.scaled_sums[at];
                sum = hn::MulAdd(hn::Load(d, chunk.minima + (b * subblocks + s) * 16 + r), hn::Set(d, scaled_sum), sum);
            }
        }
        hn::Store(sum, d, sums + r);
    }
}

void write_row(const QuantProduct& product, int64_t row, int64_t first, const float* sums) {
    float* y = product.y + row * product.y_stride + first;
    const int64_t valid = std::min<int64_t>(quant_group_rows, product.outputs - first);
    for (int64_t i = 0; i < valid; ++i) {
        float sum = sums[i];
        if (product.bias != nullptr) sum += product.bias[first + i];
        y[i] = product.accumulate ? sum + y[i] : sum;
    }
}

template <DType Type>
void multiply_group(const QuantProduct& product, const QuantActivations& x, int64_t group, int64_t row0, int64_t rows) {
    constexpr QuantLayout layout = quant_layout(Type);
    const int64_t blocks = product.columns / quant_block;
    const std::byte* at = product.storage + group * layout.group_bytes(product.columns);
    UnpackedChunk chunk;
    HWY_ALIGN float sums[rows_at_once * 16] = {};
    for (int64_t block = 0; block < blocks; block += quant_chunk_blocks) {
        const int64_t count = std::min(quant_chunk_blocks, blocks - block);
        unpack_chunk<Type>(at, count, chunk);
        for (int64_t r = 0; r < rows; ++r) {
            add_row<Type>(codes_of<Type>(at, chunk), chunk, count, x, row0 + r, block, sums + r * 16);
        }
        at += layout.chunk_bytes(count);
    }
    for (int64_t r = 0; r < rows; ++r) write_row(product, row0 + r, group * quant_group_rows, sums + r * 16);
}

template <DType Type>
void multiply_groups(const QuantProduct& product, const QuantActivations& x) {
    for (int64_t group = product.group_begin; group < product.group_end; ++group) {
        for (int64_t row = 0; row < x.rows; row += rows_at_once) {
            multiply_group<Type>(product, x, group, row, std::min(rows_at_once, x.rows - row));
        }
    }
}

void multiply(const QuantProduct& product, const QuantActivations& x) {
    switch (product.type) {
        case DType::q8_0:
            return multiply_groups<DType::q8_0>(product, x);
        case DType::q4_0:
            return multiply_groups<DType::q4_0>(product, x);
        case DType::q4_1:
            return multiply_groups<DType::q4_1>(product, x);
        case DType::q5_0:
            return multiply_groups<DType::q5_0>(product, x);
        case DType::q5_1:
            return multiply_groups<DType::q5_1>(product, x);
        case DType::q4_k:
            return multiply_groups<DType::q4_k>(product, x);
        case DType::q5_k:
            return multiply_groups<DType::q5_k>(product, x);
        case DType::q6_k:
            return multiply_groups<DType::q6_k>(product, x);
        case DType::q2_k:
            return multiply_groups<DType::q2_k>(product, x);
        case DType::q3_k:
            return multiply_groups<DType::q3_k>(product, x);
        case DType::iq4_nl:
            return multiply_groups<DType::iq4_nl>(product, x);
        case DType::iq4_xs:
            return multiply_groups<DType::iq4_xs>(product, x);
        default:
            return;
    }
}

}  // namespace
}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {

HWY_EXPORT(multiply);

void multiply_portable(const QuantProduct& product, const QuantActivations& x) {
    HWY_DYNAMIC_DISPATCH(multiply)(product, x);
}

}  // namespace rondo::cpu
#endif

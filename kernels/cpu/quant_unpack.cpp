#include <algorithm>

#include "kernels/cpu/quant_kernels.hpp"
#include "kernels/cpu/quant_layout.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quant_unpack.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/quant_unpack-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Where a group goes: pairs of inputs, `stride` rows of a panel each.
struct GroupOut {
    uint16_t* bf16 = nullptr;
    int64_t stride = 0;
};

/// The upper halves of floats, rounded to nearest even, in the upper halves of their lanes. A NaN is made quiet and not
/// rounded: that could carry its payload over into the sign.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> round_to_bf16(D /*tag*/, V value) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFU)), odd);
    const auto quiet = hn::Or(bits, hn::Set(du, 0x400000U));
    return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), quiet, rounded);
}

/// Input j of each of the quad's rows.
template <int J, class D, class VI, class V = hn::Vec<D>>
HWY_INLINE V weight(D d, VI quad, int offset, V scale, V minimum, bool minima) {
    const hn::RebindToSigned<D> di;
    const auto code = hn::Sub(hn::And(hn::ShiftRight<8 * J>(quad), hn::Set(di, 0xFF)), hn::Set(di, offset));
    const auto product = hn::Mul(scale, hn::ConvertTo(d, code));  // exact where a minimum follows
    return minima ? hn::Add(product, minimum) : product;
}

/// Rows r… (one vector of them) of quad `codes`, whose first input is k.
template <DType Type, class D, class V = hn::Vec<D>>
HWY_INLINE void write_quad(D d, const uint32_t* codes, V scale, V minimum, int64_t k, size_t r, const GroupOut& out) {
    constexpr QuantLayout layout = quant_layout(Type);
    const hn::RebindToSigned<D> di;
    const hn::RebindToUnsigned<D> du;
    const auto quad = hn::BitCast(di, hn::Load(du, codes + r));
    const auto w0 = weight<0>(d, quad, layout.offset, scale, minimum, layout.minima);
    const auto w1 = weight<1>(d, quad, layout.offset, scale, minimum, layout.minima);
    const auto w2 = weight<2>(d, quad, layout.offset, scale, minimum, layout.minima);
    const auto w3 = weight<3>(d, quad, layout.offset, scale, minimum, layout.minima);
    const auto upper = hn::Set(du, 0xFFFF0000U);
    const auto first = hn::Or(hn::ShiftRight<16>(round_to_bf16(d, w0)), hn::And(round_to_bf16(d, w1), upper));
    const auto second = hn::Or(hn::ShiftRight<16>(round_to_bf16(d, w2)), hn::And(round_to_bf16(d, w3), upper));
    auto* to = reinterpret_cast<uint32_t*>(out.bf16) + k / 2 * out.stride + static_cast<int64_t>(r);
    hn::StoreU(first, du, to);
    hn::StoreU(second, du, to + out.stride);
}

template <DType Type>
void unpack_group_as(int64_t columns, const std::byte* group, const GroupOut& out) {
    constexpr QuantLayout layout = quant_layout(Type);
    const hn::CappedTag<float, 16> d;
    const int64_t blocks = columns / quant_block;
    UnpackedChunk chunk;
    for (int64_t block = 0; block < blocks; block += quant_chunk_blocks) {
        const int64_t count = std::min(quant_chunk_blocks, blocks - block);
        unpack_chunk<Type>(group, count, chunk);
        const uint32_t* codes = codes_of<Type>(group, chunk);
        for (int64_t quad = 0; quad < count * 8; ++quad) {
            for (size_t r = 0; r < 16; r += hn::Lanes(d)) {
                const auto scale = hn::Load(d, chunk.scales + quad * layout.subblocks / 8 * 16 + r);
                const float* const minimum_at = chunk.minima + quad * layout.subblocks / 8 * 16 + r;
                const auto minimum = layout.minima ? hn::Load(d, minimum_at) : hn::Zero(d);
                write_quad<Type>(d, codes + quad * 16, scale, minimum, block * quant_block + quad * 4, r, out);
            }
        }
        group += layout.chunk_bytes(count);
    }
}

void unpack_group(DType type, int64_t columns, const std::byte* group, const GroupOut& out) {
    with_quant_type(type, [&]<DType Type>() { unpack_group_as<Type>(columns, group, out); });
}

void unpack_bf16(DType type, int64_t columns, const std::byte* group, uint16_t* out, int64_t out_stride) {
    unpack_group(type, columns, group, {out, out_stride});
}

}  // namespace
}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {

HWY_EXPORT(unpack_bf16);

void unpack_group_bf16(DType type, int64_t columns, const std::byte* group, uint16_t* out, int64_t out_stride) {
    HWY_DYNAMIC_DISPATCH(unpack_bf16)(type, columns, group, out, out_stride);
}

}  // namespace rondo::cpu
#endif

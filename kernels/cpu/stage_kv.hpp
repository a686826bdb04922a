#pragma once

#include <cstring>

#include "kernels/cpu/avx512_bf16.hpp"
#include "kernels/kv_layout.hpp"

/// Copies of atoms as the bf16 kernels read them. An i8 atom is unpacked. A token that nobody wrote becomes zero, since
/// a NaN that lies there would stay one under a weight of zero. head_dim is a multiple of 32.
namespace rondo::cpu {

/// The first `filled` keys of an i8 atom as bf16 [filled][d].
RONDO_BF16 inline void stage_i8_keys(const KvAtom& layout, const std::byte* atom, int64_t filled, uint16_t* k) {
    const int64_t d = layout.head_dim;
    const auto* codes = reinterpret_cast<const int8_t*>(atom);
    const auto* const scales = reinterpret_cast<const float*>(atom + layout.scales_offset());
    for (int64_t t = 0; t < filled; ++t) {
        const __m512 scale = _mm512_set1_ps(scales[t]);
        for (int64_t c = 0; c < d; c += 32, codes += 32, k += 32) {
            const __m512bh both = _mm512_cvtne2ps_pbh(numbers_of(codes + 16, scale), numbers_of(codes, scale));
            _mm512_storeu_si512(k, (__m512i)both);
        }
    }
}

/// The first `filled` values of an i8 atom as bf16 pairs of tokens [⌈filled/2⌉][d][2].
RONDO_BF16 inline void stage_i8_values(const KvAtom& layout, const std::byte* atom, int64_t filled, uint16_t* v) {
    const int64_t d = layout.head_dim;
    const auto* codes = reinterpret_cast<const int8_t*>(atom + layout.half_bytes());
    const auto* const scales = reinterpret_cast<const float*>(atom + layout.scales_offset()) + kv_block_tokens;
    for (int64_t t = 0; t < filled; t += 2, codes += 2 * d) {
        const bool pair = t + 1 < filled;
        const __m512 even = _mm512_set1_ps(scales[t]), odd = _mm512_set1_ps(pair ? scales[t + 1] : 0.0F);
        for (int64_t c = 0; c < d; c += 16, v += 32) {
            const __m512 second = pair ? numbers_of(codes + d + c, odd) : _mm512_setzero_ps();
            const auto both = (__m512i)_mm512_cvtne2ps_pbh(second, numbers_of(codes + c, even));
            _mm512_storeu_si512(v, interleave_halves(both));
        }
    }
}

/// The first `filled` tokens of a bf16 atom; its values stand in pairs, so the last of an odd number is taken apart.
inline void copy_bf16_tokens(const KvAtom& layout, const std::byte* atom, int64_t filled, uint16_t* k, uint16_t* v) {
    const int64_t d = layout.head_dim;
    const auto* const values = reinterpret_cast<const uint16_t*>(atom + layout.half_bytes());
    std::memcpy(k, atom, static_cast<size_t>(filled * d) * sizeof(uint16_t));
    const int64_t paired = filled / 2 * 2 * d;
    std::memcpy(v, values, static_cast<size_t>(paired) * sizeof(uint16_t));
    if (filled % 2 == 0) return;
    for (int64_t c = 0; c < 2 * d; c += 2) v[paired + c] = values[paired + c];
}

/// An atom of any layout but f32 as one in bf16, its unfilled tokens zero.
RONDO_BF16 inline void stage_atom(const KvAtom& layout, const std::byte* atom, int64_t filled, std::byte* staged) {
    const KvAtom bf16{DType::bf16, layout.head_dim};
    auto* const k = reinterpret_cast<uint16_t*>(staged);
    auto* const v = reinterpret_cast<uint16_t*>(staged + bf16.half_bytes());
    if (filled < kv_block_tokens) std::memset(staged, 0, bf16.bytes());
    if (layout.dtype == DType::bf16) return copy_bf16_tokens(layout, atom, filled, k, v);
    stage_i8_keys(layout, atom, filled, k);
    stage_i8_values(layout, atom, filled, v);
}

/// The first `filled` keys of an atom in bf16 [filled][d]: where they lie, or i8 ones in `staged`.
RONDO_BF16 inline const uint16_t* bf16_keys_of(const KvAtom& layout, const std::byte* atom, int64_t filled,
                                               std::byte* staged) {
    if (layout.dtype == DType::bf16) return reinterpret_cast<const uint16_t*>(atom);
    auto* const keys = reinterpret_cast<uint16_t*>(staged);
    stage_i8_keys(layout, atom, filled, keys);
    return keys;
}

}  // namespace rondo::cpu

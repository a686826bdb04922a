#include <algorithm>

#include "kernels/cpu/quant_kernels.hpp"
#include "kernels/cpu/quant_layout.hpp"

namespace rondo::cpu {
namespace {

/// A widened group has a byte a code and its scales as floats. By block: 512 bytes of codes as Q8_0 has them (without
/// minima, a code is the weight + wide_offset), then 16 floats for each scale, then 16 for each minimum, then the
/// lowering: -lift times the first scale. A float holds all its bits, since a scale has at most 22. So
/// (lift + sum) · scale + lowering, rounded once, is sum · scale, rounded once.
struct WideLayout {
    int scales = 1;
    int minima = 0;

    constexpr int64_t scale_at(int64_t i) const { return 512 + 64 * i; }
    constexpr int64_t minimum_at(int64_t i) const { return scale_at(scales + i); }
    constexpr int64_t lowering_at() const { return minimum_at(minima); }
    constexpr int64_t block_bytes() const { return lowering_at() + 64; }
};

constexpr WideLayout wide_layout(const QuantLayout& packed) {
    return {packed.subblocks, packed.scale_nibbles ? 2 : packed.minima ? 1 : 0};
}

constexpr int64_t few_rows = 64;
constexpr int64_t whole_blocks = 64;
constexpr int64_t few_apart = 8;  // rows that lie one behind another at a time, where groups cannot be widened
constexpr int64_t row_sums_bytes = 2 * quant_group_rows * static_cast<int64_t>(sizeof(float));

/// Where the memory of multiply_wide has what, for two groups.
struct WideMemory {
    WideMemory(const QuantLayout& packed, int64_t columns, int64_t rows) {
        const int64_t blocks = columns / quant_block;
        const int64_t near_blocks = (packed.code_bits == 8 ? 1 : 2) * quant_chunk_blocks;
        const bool near = packed.subblocks == 2 || rows <= few_rows || blocks > whole_blocks;
        stretch = near ? std::min(blocks, near_blocks) : blocks;
        sums_at = 2 * stretch * wide_layout(packed).block_bytes();
        bytes = sums_at + (blocks > stretch ? rows * row_sums_bytes : 0);
        bytes = std::max(bytes, static_cast<int64_t>(activation_bytes(std::min(rows, few_apart), columns)));
    }

    /// So many blocks are widened at a time, and multiplied with all rows of x. Few rows, and four at a time of many,
    /// read a block so quickly that it should lie in the nearest cache, beside the codes that it was made of. Six at a
    /// time of many take longer, and need not wait for sums to go to memory and back. Of many blocks those sums are a
    /// small part.
    int64_t stretch = 0;
    int64_t sums_at = 0;  // of rows, between stretches: both groups' 16 floats each
    int64_t bytes = 0;
};

}  // namespace

int64_t wide_bytes(DType type, int64_t columns, int64_t rows) {
    return WideMemory(quant_layout(type), columns, rows).bytes;
}

}  // namespace rondo::cpu

#if defined(__x86_64__)
#include "kernels/cpu/quant_vnni.hpp"

namespace rondo::cpu {
namespace {

template <DType Type, int Q = 0>
RONDO_VNNI_INLINE void widen_codes(const std::byte* codes, std::byte* to) {
    constexpr int many = 12;  // rows, for which no nibbles stay high
    constexpr QuantLayout layout = quant_layout(Type);
    constexpr int more = layout.minima ? 0 : wide_offset - layout.offset;
    __m512i quad = load_quad<Type, many, Q>(codes);
    if constexpr (more != 0) quad = _mm512_add_epi8(quad, _mm512_set1_epi8(more));
    _mm512_store_si512(to + 64 * Q, quad);
    if constexpr (Q < 7) widen_codes<Type, Q + 1>(codes, to);
}

/// Block b of a chunk; scales and minima are what quant_vnni.cpp makes of them. Returns the lowering.
template <DType Type>
RONDO_VNNI_INLINE __m512 widen_block(const std::byte* chunk, int64_t blocks, int64_t b, std::byte* to) {
    constexpr QuantLayout layout = quant_layout(Type);
    constexpr WideLayout wide = wide_layout(layout);
    widen_codes<Type>(chunk + b * layout.code_bytes(), to);
    const int64_t own = layout.super_blocks ? 0 : 32 * b;
    const __m512 d = load_f16(chunk + layout.d_offset(blocks) + own);
    const std::byte* const scales = chunk + layout.scales_offset(blocks) + 16 * layout.subblocks * b;
    for (int i = 0; i < wide.scales; ++i) {
        if constexpr (layout.super_blocks) {
            _mm512_store_ps(to + wide.scale_at(i), sub_scale<Type>(d, scales + 16 * i));
        } else {
            _mm512_store_ps(to + wide.scale_at(i), d);
        }
    }
    const __m512 lowering = _mm512_mul_ps(_mm512_load_ps(to + wide.scale_at(0)), _mm512_set1_ps(-lift));
    _mm512_store_ps(to + wide.lowering_at(), lowering);
    if constexpr (layout.minima) {
        const __m512 m = load_f16(chunk + layout.m_offset(blocks) + own);
        for (int i = 0; i < wide.minima; ++i) {
            __m512 minimum = m;
            if constexpr (layout.scale_nibbles) {
                minimum = nibble_minimum(m, scales + 16 * i);
            } else if constexpr (layout.super_blocks) {
                minimum = _mm512_mul_ps(m, load_i8(chunk + layout.mins_offset(blocks) + 16 * b));
            }
            _mm512_store_ps(to + wide.minimum_at(i), minimum);
        }
    }
    return lowering;
}

/// False where a first scale is infinite or NaN: its lowering would make NaN of what is infinite.
template <DType Type>
RONDO_VNNI bool widen(const std::byte* chunk, int64_t blocks, std::byte* to) {
    __m512 zeros = _mm512_setzero_ps();
    for (; blocks > 0; blocks -= quant_chunk_blocks) {
        const int64_t some = std::min(blocks, quant_chunk_blocks);
        for (int64_t b = 0; b < some; ++b, to += wide_layout(quant_layout(Type)).block_bytes())
            zeros = _mm512_fmadd_ps(widen_block<Type>(chunk, some, b, to), _mm512_setzero_ps(), zeros);
        chunk += quant_layout(Type).chunk_bytes(some);
    }
    return _mm512_cmp_ps_mask(zeros, zeros, _CMP_UNORD_Q) == 0;
}

/// The next two groups are prefetched while the first rows are multiplied, since memory would idle meanwhile: some
/// cache lines of both with each block. Memory brings two places that are far apart faster than one.
class NextGroups {
public:
    NextGroups(const std::byte* from, int64_t group_bytes, int64_t blocks)
        : at_(from), end_(from + group_bytes), group_bytes_(group_bytes) {
        lines_ = ceil_div<int64_t>(group_bytes / 64, steps * blocks);
    }
    RONDO_VNNI_INLINE void ask() {
        for (int64_t i = 0; i < lines_ && at_ < end_; ++i, at_ += 64) {
            _mm_prefetch(at_, _MM_HINT_T1);
            _mm_prefetch(at_ + group_bytes_, _MM_HINT_T1);
        }
    }

private:
    static constexpr int64_t steps = 4;  // of rows, that share the work
    const std::byte* at_;
    const std::byte* end_;
    int64_t group_bytes_, lines_;
};

/// What a block is multiplied with: some rows of x that lie side by side.
struct WideInputs {
    const int8_t* codes;
    const float *scales, *sums;  // sums: as many as minima
    const int32_t* begins;       // as many as scales

    template <WideLayout Wide>
    static WideInputs of(const QuantActivations& x, int64_t row, int64_t block) {
        const int64_t at = x.at(row, block);
        return {x.codes + at * quant_block, x.scales + at,
                Wide.minima == 2 ? x.scaled_half_sums + 2 * at : x.scaled_sums + at,
                Wide.scales == 2 ? x.half_begins + 2 * at : x.begins + at};
    }
    template <WideLayout Wide>
    RONDO_VNNI_INLINE void next() {
        codes += strip_rows * quant_block;
        scales += strip_rows;
        sums += strip_rows * Wide.minima;
        begins += strip_rows * Wide.scales;
    }
};

/// dots[g][r] += Σ u·a over quad Q of G groups and M rows.
template <int M, int G, int Q>
RONDO_VNNI_INLINE void add_wide_quad(const std::byte* const* blocks, const WideInputs& in, __m512i (*dots)[M]) {
    __m512i u[G];
    for (int g = 0; g < G; ++g) u[g] = _mm512_load_si512(blocks[g] + 64 * Q);
    for (int r = 0; r < M; ++r) {
        int32_t four;
        std::memcpy(&four, in.codes + r * quant_block + 4 * Q, 4);
        const __m512i inputs = _mm512_set1_epi32(four);
        for (int g = 0; g < G; ++g) dots[g][r] = _mm512_dpbusd_epi32(dots[g][r], u[g], inputs);
    }
}

/// dots[S][g][r] += Σ w·a over the inputs under scale S. Two scales take turns, so that twice as many sums need not
/// wait for each other.
template <WideLayout Wide, int M, int G, int Q = 0>
RONDO_VNNI_INLINE void add_wide_quads(const std::byte* const* blocks, const WideInputs& in, __m512i (*dots)[G][M]) {
    constexpr int scales = Wide.scales;
    add_wide_quad<M, G, Q % scales * 4 + Q / scales>(blocks, in, dots[Q % scales]);
    if constexpr (Q < 7) add_wide_quads<Wide, M, G, Q + 1>(blocks, in, dots);
}

/// Adds one block to the sums, by the same operations as quant_vnni.cpp.
template <WideLayout Wide, int M, int G>
RONDO_VNNI_INLINE void add_wide_block(const std::byte* const* blocks, const WideInputs& in, __m512 (*sums)[M]) {
    const auto floats = [&](int g, int64_t at) RONDO_VNNI { return _mm512_load_ps(blocks[g] + at); };
    __m512i dots[Wide.scales][G][M];
    for (int s = 0; s < Wide.scales; ++s) {
        const int32_t without = s == 0 ? lift_bits : 0;
        for (int r = 0; r < M; ++r) {
            const int32_t begin = Wide.minima > 0 ? without : in.begins[Wide.scales * r + s];
            for (int g = 0; g < G; ++g) dots[s][g][r] = _mm512_set1_epi32(begin);
        }
    }
    add_wide_quads<Wide, M, G>(blocks, in, dots);
    for (int g = 0; g < G; ++g) {
        const __m512 scale = floats(g, Wide.scale_at(0)), lowering = floats(g, Wide.lowering_at());
        for (int r = 0; r < M; ++r) {
            __m512 scaled = _mm512_fmadd_ps(_mm512_castsi512_ps(dots[0][g][r]), scale, lowering);
            if constexpr (Wide.scales == 2)
                scaled = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[1][g][r]), floats(g, Wide.scale_at(1)), scaled);
            sums[g][r] = _mm512_fmadd_ps(scaled, _mm512_set1_ps(in.scales[r]), sums[g][r]);
        }
    }
    for (int i = 0; i < Wide.minima; ++i) {
        for (int g = 0; g < G; ++g) {
            const __m512 minima = floats(g, Wide.minimum_at(i));
            for (int r = 0; r < M; ++r)
                sums[g][r] = _mm512_fmadd_ps(minima, _mm512_set1_ps(in.sums[Wide.minima * r + i]), sums[g][r]);
        }
    }
}

/// Blocks [begin, end) of the groups from `group` on, that are widened.
struct Stretch {
    int64_t group;
    int64_t begin;
    int64_t end;
    std::byte* sums;  // of rows, where a stretch comes before or behind
};

/// G groups × M rows of x.
template <WideLayout Wide, int M, int G>
RONDO_VNNI void multiply_wide_rows(const QuantProduct& product, const QuantActivations& x, const Stretch& stretch,
                                   int64_t row, NextGroups& next) {
    const int64_t blocks = product.columns / quant_block, count = stretch.end - stretch.begin;
    WideInputs in = WideInputs::of<Wide>(x, row, stretch.begin);
    __m512 sums[G][M];
    const std::byte* at_block[G];
    const auto sums_of = [&](int g, int r) {
        return reinterpret_cast<float*>(stretch.sums + (row + r) * row_sums_bytes) + g * quant_group_rows;
    };
    for (int g = 0; g < G; ++g) {
        at_block[g] = product.wide + g * count * Wide.block_bytes();
        for (int r = 0; r < M; ++r)
            sums[g][r] = stretch.begin == 0 ? _mm512_setzero_ps() : _mm512_load_ps(sums_of(g, r));
    }
    for (int64_t b = 0; b < count; ++b, in.next<Wide>()) {
        next.ask();
        if (b < M && stretch.end == blocks) {  // a row at a time: more would keep the inputs waiting
            for (int g = 0; g < G; ++g) prefetch_outputs<1>(product, stretch.group + g, row + b);
        }
        add_wide_block<Wide, M, G>(at_block, in, sums);
        for (const auto*& at : at_block) at += Wide.block_bytes();
    }
    for (int g = 0; g < G; ++g) {
        if (stretch.end == blocks) {
            store_sums<M>(product, stretch.group + g, row, sums[g]);
        } else {
            for (int r = 0; r < M; ++r) _mm512_store_ps(sums_of(g, r), sums[g][r]);
        }
    }
}

/// All rows of x with a stretch of G groups, the last rows in smaller steps.
template <WideLayout Wide, int M, int G>
void multiply_wide_stretch(const QuantProduct& product, const QuantActivations& x, const Stretch& stretch,
                           NextGroups& next, int64_t row = 0) {
    for (; row + M <= x.rows; row += M) multiply_wide_rows<Wide, M, G>(product, x, stretch, row, next);
    if constexpr (M > 1) multiply_wide_stretch<Wide, (M + 1) / 2, G>(product, x, stretch, next, row);
}

/// Two groups that cannot be widened, by rows one behind another. They lie where the widened groups would.
void multiply_alone(QuantProduct product, const QuantActivations& x, int64_t group_begin, int64_t group_end) {
    product.way = QuantWay::alone;
    product.group_begin = group_begin;
    product.group_end = group_end;
    float* const y = product.y;
    for (int64_t row = 0; row < x.rows; row += few_apart) {
        const int64_t some = std::min(few_apart, x.rows - row);
        product.y = y + row * product.y_stride;
        multiply_vnni(product, copy_rows(x, row, some, {product.wide, activation_bytes(some, x.columns)}));
    }
}

}  // namespace

void multiply_wide(const QuantProduct& product, const QuantActivations& x) {
    with_quant_type(product.type, [&]<DType Type>() {
        constexpr QuantLayout packed = quant_layout(Type);
        constexpr WideLayout wide = wide_layout(packed);
        constexpr int rows = packed.subblocks == 2 ? 4 : 6;  // whose sums the registers hold, twice
        const int64_t blocks = product.columns / quant_block, group_bytes = packed.group_bytes(product.columns);
        const WideMemory memory(packed, product.columns, x.rows);
        for (int64_t group = product.group_begin; group < product.group_end; group += 2) {
            const int64_t some = std::min<int64_t>(2, product.group_end - group);
            NextGroups next(product.storage + (group + some) * group_bytes, group_bytes, blocks);
            for (int64_t begin = 0; begin < blocks; begin += memory.stretch) {
                const int64_t end = std::min(blocks, begin + memory.stretch);
                bool finite = true;
                for (int64_t g = 0; g < some; ++g) {
                    const std::byte* const from = product.storage + (group + g) * group_bytes +
                                                  begin / quant_chunk_blocks * packed.chunk_bytes(quant_chunk_blocks);
                    std::byte* const to = product.wide + g * (end - begin) * wide.block_bytes();
                    finite = widen<Type>(from, end - begin, to) && finite;
                }
                if (!finite) {  // nothing was stored yet
                    multiply_alone(product, x, group, group + some);
                    break;
                }
                const Stretch stretch{group, begin, end, product.wide + memory.sums_at};
                if (some == 2) {
                    multiply_wide_stretch<wide, rows, 2>(product, x, stretch, next);
                } else {
                    multiply_wide_stretch<wide, rows, 1>(product, x, stretch, next);
                }
            }
        }
    });
}

}  // namespace rondo::cpu

#endif

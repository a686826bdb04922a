#include "kernels/cpu/float_products.hpp"
#define RONDO_WAY RONDO_AVX512
#include "kernels/cpu/attend_chunks.hpp"

namespace rondo::cpu {

namespace {

/// For processors whose product of pairs is slower than two of floats, or that have none. A chunk's keys and values are
/// widened once for all groups of queries, so that what remains is one fused multiply-add a product.
struct FloatProducts {
    static constexpr int64_t few_rows_blocks = 2;
    static constexpr bool widens = true;

    template <int Queries>
    static void begin() {}
    static void end() {}

    RONDO_AVX512 static void prepare(const KvAtom& layout, const Chunk& chunk) {
        const int64_t d = layout.head_dim;
        for (int64_t b = 0; b < chunk.count; ++b) {
            const int64_t at = b * kv_block_tokens * d;
            widen_atom_keys(layout, chunk.k[b], chunk.filled[b], chunk.wide + at);
            widen_atom_values(layout, chunk.k[b], chunk.filled[b], values_of(chunk, d) + at);
        }
    }

    template <int Queries>
    RONDO_AVX512 static void compute_scores(const Chunk& chunk, const uint16_t* q, int64_t d, Ahead& ahead,
                                            float* scores) {
        for (int64_t b = 0; b < chunk.count; ++b) {
            const float* const keys = chunk.wide + b * kv_block_tokens * d;
            float* const to = scores + b * kv_block_tokens * Queries;
            const auto meanwhile = [&]() RONDO_AVX512 { ahead.ask(cache_lines_each_product); };
            if constexpr (Queries == 16) {
                score_sixteen(keys, q, d, to, meanwhile);
            } else {
                score_eight(keys, q, d, to, meanwhile);
            }
        }
    }

    /// Eight queries and 32 channels at a time, as in attend_bf16.cpp.
    template <int Queries>
    RONDO_AVX512 static void add_values(const Chunk& chunk, const float* weights, int64_t d, Ahead& ahead,
                                        float* weighted) {
        constexpr int together = 8;
        for (int64_t c = 0; c < d; c += 32) {
            for (int first = 0; first < Queries; first += together) {
                float* const to = weighted + first * d + c;
                __m512 low[together], high[together];
                for (int query = 0; query < together; ++query) {
                    low[query] = _mm512_loadu_ps(to + query * d);
                    high[query] = _mm512_loadu_ps(to + query * d + 16);
                }
                for (int64_t b = 0; b < chunk.count; ++b) {
                    const float* const v = values_of(chunk, d) + b * kv_block_tokens * d + c;
                    const float* const of_block = weights + b * kv_block_tokens * Queries + first;
                    for (int64_t key = 0; key < kv_block_tokens; ++key) {
                        const __m512 v_low = _mm512_loadu_ps(v + key * d), v_high = _mm512_loadu_ps(v + key * d + 16);
                        for (int query = 0; query < together; ++query) {
                            const __m512 weight = _mm512_set1_ps(of_block[key * Queries + query]);
                            low[query] = _mm512_fmadd_ps(weight, v_low, low[query]);
                            high[query] = _mm512_fmadd_ps(weight, v_high, high[query]);
                        }
                    }
                    ahead.ask(cache_lines_each_product * together / Queries);
                }
                for (int query = 0; query < together; ++query) {
                    _mm512_storeu_ps(to + query * d, low[query]);
                    _mm512_storeu_ps(to + query * d + 16, high[query]);
                }
            }
        }
    }

private:
    /// A chunk's values behind its keys: [16 keys of a block][d].
    static float* values_of(const Chunk& chunk, int64_t d) { return chunk.wide + chunk_keys_max * d; }
};

}  // namespace

void attend_tile_floats(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    attend_in_chunks<FloatProducts>(tile, scratch, sums);
}

}  // namespace rondo::cpu

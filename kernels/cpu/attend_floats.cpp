#include "kernels/cpu/attend_chunks.hpp"

namespace rondo::cpu {

namespace {

/// For processors whose product of pairs is slower than two of floats: a chunk's keys and values are widened once for
/// all groups of queries, so that what remains is one fused multiply-add a product.
struct FloatProducts {
    static constexpr int64_t few_rows_blocks = 2;
    static constexpr bool widens = true;

    template <int Queries>
    static void begin() {}
    static void end() {}

    RONDO_BF16 static void prepare(const Chunk& chunk, int64_t d) {
        float* k_to = chunk.wide;
        float* v_to = values_of(chunk, d);
        for (int64_t b = 0; b < chunk.count; ++b) {
            const auto* const k = reinterpret_cast<const uint16_t*>(chunk.k[b]);
            for (int64_t i = 0; i < kv_block_tokens * d; i += 16, k_to += 16) {
                const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(k + i)));
                _mm512_storeu_ps(k_to, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
            }
            const auto* v = reinterpret_cast<const uint16_t*>(chunk.v[b]);
            for (int64_t key = 0; key < kv_block_tokens; key += 2) {
                for (int64_t c = 0; c < d; c += 16, v += 32, v_to += 16) {
                    const __m512i pairs = _mm512_loadu_si512(v);
                    _mm512_storeu_ps(v_to, even_of(pairs));
                    _mm512_storeu_ps(v_to + d, odd_of(pairs));
                }
                v_to += d;
            }
        }
    }

    template <int Queries>
    RONDO_BF16 static void compute_scores(const Chunk& chunk, const uint16_t* q, int64_t d, Ahead& ahead,
                                          float* scores) {
        for (int64_t b = 0; b < chunk.count; ++b) {
            const float* const keys = chunk.wide + b * kv_block_tokens * d;
            if constexpr (Queries == 16) {
                score_sixteen(keys, q, d, ahead, scores + b * kv_block_tokens * Queries);
            } else {
                score_eight(keys, q, d, ahead, scores + b * kv_block_tokens * Queries);
            }
        }
    }

    /// Eight queries and 32 channels at a time, as in attend_bf16.cpp.
    template <int Queries>
    RONDO_BF16 static void add_values(const Chunk& chunk, const uint16_t* weights, int64_t d, Ahead& ahead,
                                      float* weighted) {
        constexpr int together = 8;
        alignas(64) float wide_weights[chunk_keys_max * Queries];
        for (int64_t i = 0; i < chunk.count * kv_block_tokens * Queries; i += 32) {
            const __m512i two_queries = _mm512_loadu_si512(weights + i);
            const __m512i first = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(two_queries));
            const __m512i second = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(two_queries, 1));
            _mm512_store_ps(wide_weights + i, _mm512_castsi512_ps(_mm512_slli_epi32(first, 16)));
            _mm512_store_ps(wide_weights + i + 16, _mm512_castsi512_ps(_mm512_slli_epi32(second, 16)));
        }
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
                    const float* const of_block = wide_weights + (b * Queries + first) * kv_block_tokens;
                    for (int64_t key = 0; key < kv_block_tokens; ++key) {
                        const __m512 v_low = _mm512_loadu_ps(v + key * d), v_high = _mm512_loadu_ps(v + key * d + 16);
                        for (int query = 0; query < together; ++query) {
                            const __m512 weight = _mm512_set1_ps(of_block[query * kv_block_tokens + key]);
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
    RONDO_BF16 static __m512 even_of(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
    RONDO_BF16 static __m512 odd_of(__m512i pairs) {
        return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
    }

    /// A chunk's values behind its keys: [16 keys of a block][d].
    static float* values_of(const Chunk& chunk, int64_t d) { return chunk.wide + chunk_keys_max * d; }

    RONDO_BF16 static void score_sixteen(const float* keys, const uint16_t* q, int64_t d, Ahead& ahead, float* scores) {
        __m512 sums[kv_block_tokens];
        for (__m512& sum : sums) sum = _mm512_setzero_ps();
        for (int64_t c = 0; c < d; c += 2) {
            const __m512i pairs = _mm512_loadu_si512(q + c * 16);
            const __m512 even = even_of(pairs), odd = odd_of(pairs);
            for (int key = 0; key < kv_block_tokens; ++key) {
                sums[key] = _mm512_fmadd_ps(even, _mm512_set1_ps(keys[key * d + c]), sums[key]);
                sums[key] = _mm512_fmadd_ps(odd, _mm512_set1_ps(keys[key * d + c + 1]), sums[key]);
            }
            if (c % 32 == 30) ahead.ask(cache_lines_each_product);
        }
        for (int key = 0; key < kv_block_tokens; ++key) _mm512_storeu_ps(scores + key * 16, sums[key]);
    }

    RONDO_BF16 static void score_eight(const float* keys, const uint16_t* q, int64_t d, Ahead& ahead, float* scores) {
        const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000));
        __m256 sums[kv_block_tokens];
        for (__m256& sum : sums) sum = _mm256_setzero_ps();
        for (int64_t c = 0; c < d; c += 2) {
            const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + c * 8));
            const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
            const __m256 odd = _mm256_castsi256_ps(_mm256_and_si256(pairs, upper));
            for (int key = 0; key < kv_block_tokens; ++key) {
                sums[key] = _mm256_fmadd_ps(even, _mm256_set1_ps(keys[key * d + c]), sums[key]);
                sums[key] = _mm256_fmadd_ps(odd, _mm256_set1_ps(keys[key * d + c + 1]), sums[key]);
            }
            if (c % 32 == 30) ahead.ask(cache_lines_each_product);
        }
        for (int key = 0; key < kv_block_tokens; ++key) _mm256_storeu_ps(scores + key * 8, sums[key]);
    }
};

}  // namespace

void attend_tile_floats(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    attend_in_chunks<FloatProducts>(tile, scratch, sums);
}

}  // namespace rondo::cpu

#include "kernels/cpu/attend_chunks.hpp"
#include "kernels/cpu/bf16_products.hpp"

namespace rondo::cpu {

namespace {

struct Bf16Products {
    template <int Lines>
    static void begin() {}
    static void end() {}

    /// A block's values come from L2 while its keys are multiplied: 32 channels of them are read at a time, which no
    /// prefetcher of the machine follows.
    template <int Lines>
    RONDO_BF16 static void compute_scores(const Chunk& chunk, const uint16_t* q, int64_t d, Ahead& ahead,
                                          float* scores) {
        constexpr int value_lines = 2 * kv_block_tokens * 32 / 64;  // of 32 channels
        for (int64_t b = 0; b < chunk.count; ++b) {
            const std::byte* v = chunk.v[b];
            const auto meanwhile = [&]() RONDO_BF16 {
                ahead.ask(lines_each_product);
                for (int line = 0; line < value_lines; ++line, v += 64) _mm_prefetch(v, _MM_HINT_T0);
            };
            score_block<Lines>(reinterpret_cast<const uint16_t*>(chunk.k[b]), q, d,
                               scores + b * kv_block_tokens * Lines, meanwhile);
        }
    }

    /// Eight lines and 32 channels at a time: sixteen sums, and each weight that is spread to all lanes serves twice.
    template <int Lines>
    RONDO_BF16 static void add_values(const Chunk& chunk, const uint16_t* weights, int64_t d, Ahead& ahead,
                                      float* weighted) {
        constexpr int together = 8, pairs = kv_block_tokens / 2;
        for (int64_t c = 0; c < d; c += 32) {
            for (int first = 0; first < Lines; first += together) {
                float* const to = weighted + first * d + c;
                __m512 low[together], high[together];
                for (int line = 0; line < together; ++line) {
                    low[line] = _mm512_loadu_ps(to + line * d);
                    high[line] = _mm512_loadu_ps(to + line * d + 16);
                }
                for (int64_t b = 0; b < chunk.count; ++b) {
                    const auto* const v = reinterpret_cast<const uint16_t*>(chunk.v[b]) + 2 * c;
                    const auto* const of_block =
                        reinterpret_cast<const uint32_t*>(weights + (b * Lines + first) * kv_block_tokens);
                    for (int pair = 0; pair < pairs; ++pair) {
                        const __m512bh v_low = load_pairs(v + pair * 2 * d), v_high = load_pairs(v + pair * 2 * d + 32);
                        for (int line = 0; line < together; ++line) {
                            const __m512bh weight = all_lanes(of_block + line * pairs + pair);
                            low[line] = _mm512_dpbf16_ps(low[line], weight, v_low);
                            high[line] = _mm512_dpbf16_ps(high[line], weight, v_high);
                        }
                    }
                    ahead.ask(lines_each_product * together / Lines);
                }
                for (int line = 0; line < together; ++line) {
                    _mm512_storeu_ps(to + line * d, low[line]);
                    _mm512_storeu_ps(to + line * d + 16, high[line]);
                }
            }
        }
    }
};

}  // namespace

void attend_tile_bf16(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    attend_in_chunks<Bf16Products>(tile, scratch, sums);
}

}  // namespace rondo::cpu

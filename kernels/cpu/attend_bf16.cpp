#include "kernels/cpu/attend_chunks.hpp"
#include "kernels/cpu/bf16_products.hpp"

namespace rondo::cpu {

namespace {

/// Prefetches into L1 what is read next, a cache line at a time. Much of it is in L2 already. The rest was prefetched
/// there too, but while the core's queues were full, and then a prefetch is dropped.
class Soon {
public:
    explicit Soon(const std::byte* at) : at_(at) {}
    void ask(int64_t cache_lines) {
        for (const std::byte* const end = at_ + cache_lines * 64; at_ != end; at_ += 64) _mm_prefetch(at_, _MM_HINT_T0);
    }

private:
    const std::byte* at_;
};

/// While a block's keys are multiplied, its values and the next block's keys are prefetched. Values are read 32
/// channels at a time, an order that no hardware prefetcher follows. Beside values, the next chunk's first keys are
/// prefetched.
struct Bf16Products {
    static constexpr int64_t few_rows_blocks = 2;
    static constexpr bool widens = false;
    static void prepare(const KvAtom& /*layout*/, const Chunk& /*chunk*/) {}
    static constexpr int64_t cache_lines_of_32_channels =
        2 * kv_block_tokens * 32 / 64;  // of a block's keys, or values

    template <int Queries>
    static void begin() {}
    static void end() {}

    template <int Queries>
    RONDO_BF16 static void compute_scores(const Chunk& chunk, const uint16_t* q, int64_t d, Ahead& ahead,
                                          float* scores) {
        for (int64_t b = 0; b < chunk.count; ++b) {
            Soon values(chunk.v[b]), keys(chunk.k[b + 1]);
            const auto meanwhile = [&]() RONDO_BF16 {
                ahead.ask(cache_lines_each_product);
                values.ask(cache_lines_of_32_channels);
                if (b + 1 < chunk.count) keys.ask(cache_lines_of_32_channels);
            };
            score_block<Queries>(reinterpret_cast<const uint16_t*>(chunk.k[b]), q, d,
                                 scores + b * kv_block_tokens * Queries, meanwhile);
        }
    }

    /// Eight queries and 32 channels at a time: sixteen sums, and each weight that was spread to all lanes is used
    /// twice.
    template <int Queries>
    RONDO_BF16 static void add_values(const Chunk& chunk, const uint16_t* weights, int64_t d, Ahead& ahead,
                                      float* weighted) {
        constexpr int together = 8, pairs = kv_block_tokens / 2;
        Soon keys(chunk.k[chunk.count]);
        for (int64_t c = 0; c < d; c += 32) {
            for (int first = 0; first < Queries; first += together) {
                float* const to = weighted + first * d + c;
                __m512 low[together], high[together];
                for (int query = 0; query < together; ++query) {
                    low[query] = _mm512_loadu_ps(to + query * d);
                    high[query] = _mm512_loadu_ps(to + query * d + 16);
                }
                for (int64_t b = 0; b < chunk.count; ++b) {
                    const auto* const v = reinterpret_cast<const uint16_t*>(chunk.v[b]) + 2 * c;
                    const uint16_t* const of_block = weights + (b * Queries + first) * kv_block_tokens;
                    for (int pair = 0; pair < pairs; ++pair) {
                        const __m512bh v_low = load_pairs(v + pair * 2 * d), v_high = load_pairs(v + pair * 2 * d + 32);
                        for (int query = 0; query < together; ++query) {
                            const __m512bh weight = all_lanes(of_block + 2 * (query * pairs + pair));
                            low[query] = _mm512_dpbf16_ps(low[query], weight, v_low);
                            high[query] = _mm512_dpbf16_ps(high[query], weight, v_high);
                        }
                    }
                    ahead.ask(cache_lines_each_product * together / Queries);
                    if (first == 0) keys.ask(cache_lines_of_32_channels / chunk.count);
                }
                for (int query = 0; query < together; ++query) {
                    _mm512_storeu_ps(to + query * d, low[query]);
                    _mm512_storeu_ps(to + query * d + 16, high[query]);
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

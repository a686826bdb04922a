#include "kernels/cpu/bf16_products.hpp"
#include "kernels/cpu/score_queries.hpp"

namespace rondo::cpu {

namespace {

struct Bf16Products {
    static void begin() {}
    static void end() {}

    static constexpr auto keys_of = bf16_keys_of;

    template <int groups>
    RONDO_BF16 static void multiply(const uint16_t* keys, const uint16_t* q, int64_t d, float* out) {
        for (int group = 0; group < groups; ++group)
            score_block<tile_queries>(keys, q + group * tile_queries * d, d,
                                      out + group * kv_block_tokens * tile_queries, [] {});
    }
};

}  // namespace

void score_tile_bf16(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride) {
    score_queries<Bf16Products>(tile, scratch, weights, stride);
}

}  // namespace rondo::cpu

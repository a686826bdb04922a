#include "kernels/cpu/amx_tiles.hpp"
#include "kernels/cpu/score_queries.hpp"

namespace rondo::cpu {

namespace {

struct AmxProducts {
    RONDO_AMX static void begin() {
        TileConfig config;
        for (uint8_t& rows : config.rows) rows = tile_rows;
        std::fill(config.rows + 8, config.rows + 16, uint8_t{0});
        load_config(config);
    }

    static constexpr auto keys_of = bf16_keys_of;

    /// Scores of 16 keys with one or two groups of 16 queries, [group][key][query]. The keys are loaded once for all of
    /// them.
    template <int groups>
    RONDO_AMX static void multiply(const uint16_t* keys, const uint16_t* q, int64_t d, float* out) {
        _tile_zero(0);
        if constexpr (groups > 1) _tile_zero(1);
        for (int64_t c = 0; c < d; c += tile_inputs) {
            const uint16_t* const from = q + c * tile_queries;
            _tile_loadd(2, keys + c, d * sizeof(uint16_t));
            _tile_loadd(3, from, tile_queries * 2 * sizeof(uint16_t));
            _tile_dpbf16ps(0, 2, 3);
            if constexpr (groups > 1) {
                _tile_loadd(4, from + tile_queries * d, tile_queries * 2 * sizeof(uint16_t));
                _tile_dpbf16ps(1, 2, 4);
            }
        }
        _tile_stored(0, out, 64);
        if constexpr (groups > 1) _tile_stored(1, out + kv_block_tokens * tile_queries, 64);
    }

    RONDO_AMX static void end() { _tile_release(); }
};

}  // namespace

void score_tile_amx(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride) {
    score_queries<AmxProducts>(tile, scratch, weights, stride);
}

}  // namespace rondo::cpu

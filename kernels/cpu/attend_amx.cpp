#include "kernels/cpu/amx_tiles.hpp"
#include "kernels/cpu/attend_chunks.hpp"

namespace rondo::cpu {

namespace {

struct AmxProducts {
    static constexpr int64_t few_rows_blocks = 4;
    static constexpr bool widens = false;
    static void prepare(const KvAtom& /*layout*/, const Chunk& /*chunk*/) {}

    /// Tile 0 scores [16 keys][queries], 1 keys [16][32 of d], 2 queries [16 pairs][queries][2]; 3 weights [queries][16
    /// keys], 4 and 5 values [8 pairs][16 of d][2], 6 and 7 sums [queries][16 of d]. One configuration serves
    /// both products, since loading one takes as long as ten tile products.
    template <int Queries>
    RONDO_AMX static void begin() {
        TileConfig config;
        constexpr uint8_t pairs = kv_block_tokens / 2;
        const uint8_t rows[8] = {tile_rows, tile_rows, tile_rows, Queries, pairs, pairs, Queries, Queries};
        std::memcpy(config.rows, rows, sizeof rows);
        config.row_bytes[0] = config.row_bytes[2] = Queries * sizeof(float);
        config.row_bytes[3] = kv_block_tokens * sizeof(uint16_t);
        load_config(config);
    }

    /// scores[key][query] = q·k of one group of queries.
    template <int Queries>
    RONDO_AMX static void compute_scores(const Chunk& chunk, const uint16_t* q, int64_t d, Ahead& ahead,
                                         float* scores) {
        constexpr int64_t q_tile = tile_inputs * Queries;
        for (int64_t b = 0; b < chunk.count; ++b) {
            _tile_zero(0);
            for (int64_t c = 0; c < d; c += tile_inputs) {
                _tile_loadd(1, chunk.k[b] + c * sizeof(uint16_t), d * sizeof(uint16_t));
                _tile_loadd(2, q + c / tile_inputs * q_tile, Queries * 2 * sizeof(uint16_t));
                _tile_dpbf16ps(0, 1, 2);
                ahead.ask(cache_lines_each_product);
            }
            _tile_stored(0, scores + b * kv_block_tokens * Queries, Queries * sizeof(float));
        }
    }

    /// weighted[query][c] += Σ_key weights · v, 32 channels at a time.
    template <int Queries>
    RONDO_AMX static void add_values(const Chunk& chunk, const uint16_t* weights, int64_t d, Ahead& ahead,
                                     float* weighted) {
        const int64_t v_stride = d * 2 * static_cast<int64_t>(sizeof(uint16_t));
        const int64_t sum_stride = d * static_cast<int64_t>(sizeof(float));
        for (int64_t c = 0; c < d; c += 32) {
            _tile_loadd(6, weighted + c, sum_stride);
            _tile_loadd(7, weighted + c + 16, sum_stride);
            for (int64_t b = 0; b < chunk.count; ++b) {
                const std::byte* const v = chunk.v[b] + c * 2 * sizeof(uint16_t);
                _tile_loadd(3, weights + b * kv_block_tokens * Queries, kv_block_tokens * sizeof(uint16_t));
                _tile_loadd(4, v, v_stride);
                _tile_dpbf16ps(6, 3, 4);
                _tile_loadd(5, v + 64, v_stride);
                _tile_dpbf16ps(7, 3, 5);
                ahead.ask(cache_lines_each_product);
            }
            _tile_stored(6, weighted + c, sum_stride);
            _tile_stored(7, weighted + c + 16, sum_stride);
        }
    }

    RONDO_AMX static void end() { _tile_release(); }
};

}  // namespace

void attend_tile_amx(const AttendTile& tile, Scratch& scratch, const AttendSums& sums) {
    attend_in_chunks<AmxProducts>(tile, scratch, sums);
}

}  // namespace rondo::cpu

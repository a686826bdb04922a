#include "kernels/cpu/float_products.hpp"
#define RONDO_WAY RONDO_AVX512
#include "kernels/cpu/score_queries.hpp"

namespace rondo::cpu {

namespace {

struct FloatScores {
    static void begin() {}
    static void end() {}

    RONDO_AVX512 static const float* keys_of(const KvAtom& layout, const std::byte* atom, int64_t filled,
                                             std::byte* staged) {
        auto* const keys = reinterpret_cast<float*>(staged);
        widen_atom_keys(layout, atom, filled, keys);
        return keys;
    }

    template <int groups>
    RONDO_AVX512 static void multiply(const float* keys, const uint16_t* q, int64_t d, float* out) {
        if constexpr (groups == 2) {
            score_two_groups(keys, q, d, out);
        } else {
            score_sixteen(keys, q, d, out, []() RONDO_AVX512 {});
        }
    }
};

}  // namespace

void score_tile_floats(const ScoreTile& tile, Scratch& scratch, float* weights, int64_t stride) {
    score_queries<FloatScores>(tile, scratch, weights, stride);
}

}  // namespace rondo::cpu

// Tiles of a head's 32 dimensions, sixteen floats at a time, in the numbers that this processor multiplies fastest.
#pragma once

#ifdef __AVX512BF16__
#include "lanes_avx512.hpp"
#else
#include "lanes_avx2.hpp"
#endif

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

namespace rondo::demo {

constexpr int dim = 32;             // of a head
constexpr int folded = dim / fold;  // Terms of a row

struct Free {
    void operator()(void* p) const { std::free(p); }
};

// `count` zeros of four bytes each
template <class T = float>
std::unique_ptr<T[], Free> zeros(size_t count) {
    const size_t bytes = (count * sizeof(T) + 127) / 64 * 64;
    auto* p = static_cast<T*>(std::aligned_alloc(64, bytes));
    std::memset(p, 0, bytes);
    return std::unique_ptr<T[], Free>(p);
}

inline Lanes exp16(Lanes x) {
    const Lanes powers = x * all(1.44269504f), whole = nearest(powers), f = powers - whole;
    Lanes y = all(1.3333558e-3f);
    for (const float next : {9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f}) y = y * f + all(next);
    return scaled(y, whole, x);
}

// [rows][32] -> [rows / fold][32] Terms: what the sum runs over are the rows.
inline void fold_all_rows(const float* from, int rows, Term* to) {
    for (int r = 0; r < rows; r += fold)
        for (int d = 0; d < dim; d += 16) fold_rows(from + r * dim + d, dim, to + r / fold * dim + d);
}

// [rows][32] -> [rows][folded] Terms: what the sum runs over are the columns.
inline void fold_columns(const float* from, int rows, Term* to) {
    for (int r = 0; r < rows; ++r)
        for (int d = 0; d < dim; d += 16)
            store16(reinterpret_cast<Stored*>(to + r * folded) + d, load(from + r * dim + d));
}

// [rows][folded] -> blocks of 32 rows, each [folded][32 rows]
inline void transpose_blocks(const Term* from, int rows, Term* to) {
    for (int block = 0; block < rows; block += 32)
        for (int r = 0; r < 32; ++r)
            for (int d = 0; d < folded; ++d) to[block * folded + d * 32 + r] = from[(block + r) * folded + d];
}

// x[rows][32] of a packed tensor with `stride` elements a row, rotated by position where a cosine is given, and scaled
inline void load_rows(const Stored* from, size_t stride, int rows, const float* cosine, const float* sine, float scale,
                      float* to) {
    for (int r = 0; r < rows; ++r) {
        Lanes low = load16(from + r * stride), high = load16(from + r * stride + 16);
        if (cosine) {
            const Lanes c = load(cosine + r * 16), s = load(sine + r * 16), left = low * c - high * s;
            high = high * c + low * s;
            low = left;
        }
        store(to + r * dim, low * all(scale));
        store(to + r * dim + 16, high * all(scale));
    }
}

// The same backwards
inline void store_rows(const float* from, int rows, const float* cosine, const float* sine, float scale, Stored* to,
                       size_t stride) {
    for (int r = 0; r < rows; ++r) {
        Lanes low = load(from + r * dim), high = load(from + r * dim + 16);
        if (cosine) {
            const Lanes c = load(cosine + r * 16), s = load(sine + r * 16), left = low * c + high * s;
            high = high * c - low * s;
            low = left;
        }
        store16(to + r * stride, low * all(scale));
        store16(to + r * stride + 16, high * all(scale));
    }
}

}  // namespace rondo::demo

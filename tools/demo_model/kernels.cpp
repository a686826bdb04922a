// Attention and element-wise work of the demo model's trainer, for a processor with AVX-512.
// One thread computes one KV head of one dialogue; dialogues lie one behind another without padding ("packed").
// All sums are in float; tensors outside are bf16 (as uint16_t). native.py compiles and calls this file.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr int dim = 32;         // of a head
constexpr int row_block = 32;   // rows of queries worked on together
constexpr int key_chunk = 256;  // keys whose P and dS stay in the first cache
constexpr int chunk_stride = key_chunk + 16;
using bf16 = uint16_t;

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

__m512 load16(const bf16* p) {
    const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}

void store16(bf16* p, __m512 x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}

__m512 exp16(__m512 x) {
    const __mmask16 counts = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_GT_OQ);
    const __m512 scaled = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504f));
    const __m512 whole = _mm512_roundscale_ps(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 f = _mm512_sub_ps(scaled, whole);
    __m512 y = _mm512_set1_ps(1.3333558e-3f);
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(9.6181291e-3f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(5.5504109e-2f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(2.4022651e-1f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(6.9314718e-1f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(1.0f));
    return _mm512_maskz_scalef_ps(counts, y, whole);  // no denormals
}

// Pairs of bf16 that stand for two terms of a sum, as the processor's dot product takes them.
using Pair = uint32_t;

__m512bh pairs(__m512i x) {
    return reinterpret_cast<__m512bh>(x);
}

// c[8][32] (+)= sum over pairs k of a[i * row_step + k * k_step] . b[k][32]
template <bool add>
void multiply(const Pair* a, size_t row_step, size_t k_step, const Pair* b, int count, float* c, size_t c_stride) {
    __m512 sum[8][2];
    for (int i = 0; i < 8; ++i) {
        sum[i][0] = add ? _mm512_loadu_ps(c + i * c_stride) : _mm512_setzero_ps();
        sum[i][1] = add ? _mm512_loadu_ps(c + i * c_stride + 16) : _mm512_setzero_ps();
    }
    for (int k = 0; k < count; ++k) {
        const __m512bh b0 = pairs(_mm512_load_si512(b + k * 32)), b1 = pairs(_mm512_load_si512(b + k * 32 + 16));
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            const __m512bh x = pairs(_mm512_set1_epi32(static_cast<int>(a[i * row_step + k * k_step])));
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
        }
    }
    for (int i = 0; i < 8; ++i) {
        _mm512_storeu_ps(c + i * c_stride, sum[i][0]);
        _mm512_storeu_ps(c + i * c_stride + 16, sum[i][1]);
    }
}

// Sixteen pairs of two rows of floats: what the sum runs over are the rows.
__m512i interleave(__m512 upper, __m512 lower) {
    const auto widen = [](__m512 x) { return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x))); };
    return _mm512_or_si512(widen(upper), _mm512_slli_epi32(widen(lower), 16));
}

// [rows][32] -> [rows / 2][32] pairs of rows
void pair_rows(const float* from, int rows, Pair* to) {
    for (int r = 0; r < rows; r += 2)
        for (int d = 0; d < dim; d += 16)
            _mm512_store_si512(to + r / 2 * dim + d, interleave(_mm512_load_ps(from + r * dim + d),
                                                                _mm512_load_ps(from + (r + 1) * dim + d)));
}

// [rows][32] -> [rows][16] pairs of neighbours
void pair_columns(const float* from, int rows, Pair* to) {
    for (int r = 0; r < rows; ++r) {
        store16(reinterpret_cast<bf16*>(to + r * 16), _mm512_load_ps(from + r * dim));
        store16(reinterpret_cast<bf16*>(to + r * 16) + 16, _mm512_load_ps(from + r * dim + 16));
    }
}

// [rows][16] pairs -> blocks of 32 rows, each [16][32 rows]
void transpose_blocks(const Pair* from, int rows, Pair* to) {
    for (int block = 0; block < rows; block += 32)
        for (int r = 0; r < 32; ++r)
            for (int d = 0; d < 16; ++d) to[block * 16 + d * 32 + r] = from[(block + r) * 16 + d];
}

// x[rows][32] of a packed tensor with `stride` elements a row, rotated by position (direction 1 or -1) and scaled
void load_rows(const bf16* from, size_t stride, int rows, const float* cosine, const float* sine, float scale,
               float* to) {
    const __m512 factor = _mm512_set1_ps(scale);
    for (int r = 0; r < rows; ++r) {
        __m512 low = load16(from + r * stride), high = load16(from + r * stride + 16);
        if (cosine) {
            const __m512 c = _mm512_loadu_ps(cosine + r * 16), s = _mm512_loadu_ps(sine + r * 16);
            const __m512 l = _mm512_fmsub_ps(low, c, _mm512_mul_ps(high, s));
            high = _mm512_fmadd_ps(high, c, _mm512_mul_ps(low, s));
            low = l;
        }
        _mm512_store_ps(to + r * dim, _mm512_mul_ps(low, factor));
        _mm512_store_ps(to + r * dim + 16, _mm512_mul_ps(high, factor));
    }
}

void store_rows(const float* from, int rows, const float* cosine, const float* sine, float scale, bf16* to,
                size_t stride) {
    const __m512 factor = _mm512_set1_ps(scale);
    for (int r = 0; r < rows; ++r) {
        __m512 low = _mm512_load_ps(from + r * dim), high = _mm512_load_ps(from + r * dim + 16);
        if (cosine) {
            const __m512 c = _mm512_loadu_ps(cosine + r * 16), s = _mm512_loadu_ps(sine + r * 16);
            const __m512 l = _mm512_fmadd_ps(low, c, _mm512_mul_ps(high, s));
            high = _mm512_fmsub_ps(high, c, _mm512_mul_ps(low, s));
            low = l;
        }
        store16(to + r * stride, _mm512_mul_ps(low, factor));
        store16(to + r * stride + 16, _mm512_mul_ps(high, factor));
    }
}

}  // namespace

extern "C" {

// What one layer's attention is asked for. Rows are those of all dialogues together.
struct Attention {
    const bf16* qkv;      // [rows][(heads + 2 kv_heads) * 32]
    bf16* out;            // [rows][heads * 32]
    float* log_sums;      // [heads][rows]
    const float* cosine;  // [positions][16]
    const float* sine;
    const int64_t* starts;  // [dialogues + 1]
    int64_t dialogues, rows, heads, kv_heads, threads;
    // Masses of past rounds, of the rows that have an evidence mask; null where nobody asks.
    float* masses;             // [heads][rows][2]: on evidence, on all else before past_ends[row]
    const int64_t* past_ends;  // [rows], keys of the dialogue before the row's own round
    const int64_t* mask_at;    // [rows], where the row's mask begins, or -1
    const float* evidence;     // masks: 1 for keys in evidence rounds
    // Backward only.
    const bf16* grad_out;
    const float* grad_masses;
    bf16* grad_qkv;
};

static void forward_head_group(const Attention& a, int64_t dialogue, int64_t group) {
    const int64_t first = a.starts[dialogue];
    const int count = static_cast<int>(a.starts[dialogue + 1] - first), padded = (count + 31) / 32 * 32;
    const size_t stride = (a.heads + 2 * a.kv_heads) * dim;
    const size_t p_stride = padded + 16;
    const auto rows = zeros(padded * dim), o = zeros(row_block * dim), p = zeros(row_block * p_stride);
    const auto q = zeros<Pair>(padded * 16), kt = zeros<Pair>(padded * 16), v = zeros<Pair>(padded * 16);
    load_rows(a.qkv + first * stride + (a.heads + group) * dim, stride, count, a.cosine, a.sine, 1, rows.get());
    pair_columns(rows.get(), padded, q.get());
    transpose_blocks(q.get(), padded, kt.get());
    load_rows(a.qkv + first * stride + (a.heads + a.kv_heads + group) * dim, stride, count, nullptr, nullptr, 1,
              rows.get());
    pair_rows(rows.get(), padded, v.get());
    const int64_t each = a.heads / a.kv_heads;
    for (int64_t head = group * each; head < (group + 1) * each; ++head) {
        load_rows(a.qkv + first * stride + head * dim, stride, count, a.cosine, a.sine, 0.17677669529f, rows.get());
        pair_columns(rows.get(), padded, q.get());
        for (int row = 0; row < padded; row += row_block) {
            const int keys = row + row_block;
            for (int key = 0; key < keys; key += 32)
                for (int r = 0; r < row_block; r += 8)
                    multiply<false>(q.get() + (row + r) * 16, 16, 1, kt.get() + key * 16, 16,
                                    p.get() + r * p_stride + key, p_stride);
            for (int r = 0; r < row_block; ++r) {
                float* line = p.get() + r * p_stride;
                const int seen = row + r + 1;
                for (int key = seen; key < keys; ++key) line[key] = -1e30f;
                __m512 most = _mm512_loadu_ps(line);
                for (int key = 16; key < keys; key += 16) most = _mm512_max_ps(most, _mm512_loadu_ps(line + key));
                const float top = _mm512_reduce_max_ps(most);
                const __m512 top16 = _mm512_set1_ps(top);
                __m512 sum = _mm512_setzero_ps();
                for (int key = 0; key < keys; key += 16) {
                    const __m512 e = exp16(_mm512_sub_ps(_mm512_loadu_ps(line + key), top16));
                    _mm512_storeu_ps(line + key, e);
                    sum = _mm512_add_ps(sum, e);
                }
                const float total = _mm512_reduce_add_ps(sum);
                const int64_t at = first + row + r;
                if (row + r < count) a.log_sums[head * a.rows + at] = top + std::log(total);
                if (row + r < count && a.masses && a.mask_at[at] >= 0) {
                    const float* mask = a.evidence + a.mask_at[at];
                    float on = 0, past = 0;
                    for (int64_t key = 0; key < a.past_ends[at]; ++key) {
                        on += line[key] * mask[key];
                        past += line[key];
                    }
                    a.masses[(head * a.rows + at) * 2] = on / total;
                    a.masses[(head * a.rows + at) * 2 + 1] = (past - on) / total;
                }
                // In place: a row of floats becomes half a row of bf16.
                const __m512 part = _mm512_set1_ps(1 / total);
                for (int key = 0; key < keys; key += 16)
                    store16(reinterpret_cast<bf16*>(line) + key, _mm512_mul_ps(_mm512_loadu_ps(line + key), part));
            }
            for (int r = 0; r < row_block; r += 8)
                multiply<false>(reinterpret_cast<const Pair*>(p.get()) + r * p_stride, p_stride, 1, v.get(), keys / 2,
                                o.get() + r * dim, dim);
            store_rows(o.get(), std::min(row_block, count - row), nullptr, nullptr, 1,
                       a.out + (first + row) * a.heads * dim + head * dim, a.heads * dim);
        }
    }
}

static void backward_head_group(const Attention& a, int64_t dialogue, int64_t group) {
    const int64_t first = a.starts[dialogue];
    const int count = static_cast<int>(a.starts[dialogue + 1] - first), padded = (count + 31) / 32 * 32;
    const size_t stride = (a.heads + 2 * a.kv_heads) * dim, size = padded * dim;
    const auto rows = zeros(size), go = zeros(size), o = zeros(size), gk = zeros(size), gv = zeros(size),
               gq = zeros(size), p = zeros(row_block * chunk_stride), gs = zeros(row_block * chunk_stride);
    const auto kt = zeros<Pair>(padded * 16), vt = zeros<Pair>(padded * 16), k_rows = zeros<Pair>(padded * 16),
               q = zeros<Pair>(padded * 16), q_rows = zeros<Pair>(padded * 16), go_columns = zeros<Pair>(padded * 16),
               go_rows = zeros<Pair>(padded * 16), p_rows = zeros<Pair>(row_block / 2 * key_chunk),
               gs_rows = zeros<Pair>(row_block / 2 * key_chunk);
    load_rows(a.qkv + first * stride + (a.heads + group) * dim, stride, count, a.cosine, a.sine, 1, rows.get());
    pair_columns(rows.get(), padded, q.get());
    transpose_blocks(q.get(), padded, kt.get());
    pair_rows(rows.get(), padded, k_rows.get());
    load_rows(a.qkv + first * stride + (a.heads + a.kv_heads + group) * dim, stride, count, nullptr, nullptr, 1,
              rows.get());
    pair_columns(rows.get(), padded, q.get());
    transpose_blocks(q.get(), padded, vt.get());
    const int64_t each = a.heads / a.kv_heads;
    for (int64_t head = group * each; head < (group + 1) * each; ++head) {
        load_rows(a.qkv + first * stride + head * dim, stride, count, a.cosine, a.sine, 0.17677669529f, rows.get());
        pair_columns(rows.get(), padded, q.get());
        pair_rows(rows.get(), padded, q_rows.get());
        load_rows(a.grad_out + first * a.heads * dim + head * dim, a.heads * dim, count, nullptr, nullptr, 1, go.get());
        pair_columns(go.get(), padded, go_columns.get());
        pair_rows(go.get(), padded, go_rows.get());
        load_rows(a.out + first * a.heads * dim + head * dim, a.heads * dim, count, nullptr, nullptr, 1, o.get());
        std::memset(gq.get(), 0, size * sizeof(float));
        for (int row = 0; row < padded; row += row_block) {
            float dots[row_block];
            for (int r = 0; r < row_block; ++r) {
                const float *x = go.get() + (row + r) * dim, *y = o.get() + (row + r) * dim;
                dots[r] = _mm512_reduce_add_ps(
                    _mm512_fmadd_ps(_mm512_load_ps(x), _mm512_load_ps(y),
                                    _mm512_mul_ps(_mm512_load_ps(x + 16), _mm512_load_ps(y + 16))));
                const int64_t at = first + row + r;
                if (!a.masses || row + r >= count || a.mask_at[at] < 0) continue;
                const int64_t i = (head * a.rows + at) * 2;
                dots[r] += a.grad_masses[i] * a.masses[i] + a.grad_masses[i + 1] * a.masses[i + 1];
            }
            const int real = std::min(row_block, count - row);
            for (int from = 0; from < row + row_block; from += key_chunk) {
                const int keys = std::min(key_chunk, row + row_block - from);
                for (int key = 0; key < keys; key += 32)
                    for (int r = 0; r < row_block; r += 8) {
                        multiply<false>(q.get() + (row + r) * 16, 16, 1, kt.get() + (from + key) * 16, 16,
                                        p.get() + r * chunk_stride + key, chunk_stride);
                        multiply<false>(go_columns.get() + (row + r) * 16, 16, 1, vt.get() + (from + key) * 16, 16,
                                        gs.get() + r * chunk_stride + key, chunk_stride);
                    }
                for (int r = 0; r < row_block; ++r) {
                    float *line = p.get() + r * chunk_stride, *grad = gs.get() + r * chunk_stride;
                    if (r >= real) {
                        std::memset(line, 0, keys * sizeof(float));
                        std::memset(grad, 0, keys * sizeof(float));
                        continue;
                    }
                    const int64_t at = first + row + r;
                    for (int key = std::max(0, row + r + 1 - from); key < keys; ++key) line[key] = -1e30f;
                    if (a.masses && a.mask_at[at] >= 0) {
                        const float* mask = a.evidence + a.mask_at[at];
                        const int64_t i = (head * a.rows + at) * 2;
                        const float on = a.grad_masses[i], off = a.grad_masses[i + 1];
                        for (int64_t key = from; key < std::min<int64_t>(from + keys, a.past_ends[at]); ++key)
                            grad[key - from] += off + (on - off) * mask[key];
                    }
                    const __m512 log_sum = _mm512_set1_ps(a.log_sums[head * a.rows + at]);
                    const __m512 dot = _mm512_set1_ps(dots[r]);
                    for (int key = 0; key < keys; key += 16) {
                        const __m512 e = exp16(_mm512_sub_ps(_mm512_loadu_ps(line + key), log_sum));
                        _mm512_storeu_ps(line + key, e);
                        _mm512_storeu_ps(grad + key, _mm512_mul_ps(e, _mm512_sub_ps(_mm512_loadu_ps(grad + key), dot)));
                    }
                }
                for (int r = 0; r < row_block; r += 2)
                    for (int key = 0; key < keys; key += 16) {
                        const float *line = p.get() + r * chunk_stride + key, *grad = gs.get() + r * chunk_stride + key;
                        _mm512_store_si512(p_rows.get() + r / 2 * key_chunk + key,
                                           interleave(_mm512_loadu_ps(line), _mm512_loadu_ps(line + chunk_stride)));
                        _mm512_store_si512(gs_rows.get() + r / 2 * key_chunk + key,
                                           interleave(_mm512_loadu_ps(grad), _mm512_loadu_ps(grad + chunk_stride)));
                    }
                for (int r = 0; r < row_block; ++r) {
                    float* grad = gs.get() + r * chunk_stride;  // in place, as above
                    for (int key = 0; key < keys; key += 16)
                        store16(reinterpret_cast<bf16*>(grad) + key, _mm512_loadu_ps(grad + key));
                }
                for (int r = 0; r < row_block; r += 8)
                    multiply<true>(reinterpret_cast<const Pair*>(gs.get()) + r * chunk_stride, chunk_stride, 1,
                                   k_rows.get() + from * 16, keys / 2, gq.get() + (row + r) * dim, dim);
                for (int key = 0; key < keys; key += 8) {
                    multiply<true>(gs_rows.get() + key, 1, key_chunk, q_rows.get() + row * 16, row_block / 2,
                                   gk.get() + (from + key) * dim, dim);
                    multiply<true>(p_rows.get() + key, 1, key_chunk, go_rows.get() + row * 16, row_block / 2,
                                   gv.get() + (from + key) * dim, dim);
                }
            }
        }
        store_rows(gq.get(), count, a.cosine, a.sine, 0.17677669529f, a.grad_qkv + first * stride + head * dim, stride);
    }
    store_rows(gk.get(), count, a.cosine, a.sine, 1, a.grad_qkv + first * stride + (a.heads + group) * dim, stride);
    store_rows(gv.get(), count, nullptr, nullptr, 1, a.grad_qkv + first * stride + (a.heads + a.kv_heads + group) * dim,
               stride);
}

void attention_forward(const Attention* a) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast <int>(a->threads))
    for (int64_t i = 0; i < a->dialogues * a->kv_heads; ++i) forward_head_group(*a, i / a->kv_heads, i % a->kv_heads);
}

void attention_backward(const Attention* a) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast <int>(a->threads))
    for (int64_t i = 0; i < a->dialogues * a->kv_heads; ++i) backward_head_group(*a, i / a->kv_heads, i % a->kv_heads);
}

// x [rows][width] float: x + y goes to `sum`, its RMS norm times `weight` to `out`. y may be null.
void add_norm_forward(const float* x, const bf16* y, const float* weight, float* sum, bf16* out, float* inverse,
                      int64_t rows, int64_t width, float eps) {
    for (int64_t r = 0; r < rows; ++r) {
        __m512 squares = _mm512_setzero_ps();
        for (int64_t i = 0; i < width; i += 16) {
            __m512 value = _mm512_loadu_ps(x + r * width + i);
            if (y) value = _mm512_add_ps(value, load16(y + r * width + i));
            _mm512_storeu_ps(sum + r * width + i, value);
            squares = _mm512_fmadd_ps(value, value, squares);
        }
        inverse[r] = 1 / std::sqrt(_mm512_reduce_add_ps(squares) / static_cast<float>(width) + eps);
        const __m512 factor = _mm512_set1_ps(inverse[r]);
        for (int64_t i = 0; i < width; i += 16)
            store16(out + r * width + i, _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(sum + r * width + i), factor),
                                                       _mm512_loadu_ps(weight + i)));
    }
}

// grad_sum (may be null) and grad_out come in; grad_x (float), its bf16 copy grad_y (may be null), grad_weight go out.
void add_norm_backward(const float* sum, const float* weight, const float* inverse, const float* grad_sum,
                       const bf16* grad_out, float* grad_x, bf16* grad_y, float* grad_weight, int64_t rows,
                       int64_t width) {
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = r * width;
        const __m512 factor = _mm512_set1_ps(inverse[r]);
        __m512 dots = _mm512_setzero_ps();
        for (int64_t i = 0; i < width; i += 16) {
            const __m512 normed = _mm512_mul_ps(_mm512_loadu_ps(sum + at + i), factor), g = load16(grad_out + at + i);
            dots = _mm512_fmadd_ps(_mm512_mul_ps(g, _mm512_loadu_ps(weight + i)), normed, dots);
            _mm512_storeu_ps(grad_weight + i, _mm512_fmadd_ps(g, normed, _mm512_loadu_ps(grad_weight + i)));
        }
        const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(dots) / static_cast<float>(width));
        for (int64_t i = 0; i < width; i += 16) {
            const __m512 normed = _mm512_mul_ps(_mm512_loadu_ps(sum + at + i), factor);
            const __m512 g = _mm512_mul_ps(load16(grad_out + at + i), _mm512_loadu_ps(weight + i));
            __m512 value = _mm512_mul_ps(factor, _mm512_fnmadd_ps(normed, mean, g));
            if (grad_sum) value = _mm512_add_ps(value, _mm512_loadu_ps(grad_sum + at + i));
            _mm512_storeu_ps(grad_x + at + i, value);
            if (grad_y) store16(grad_y + at + i, value);
        }
    }
}

// both [rows][2 * width]: gate, then up; out [rows][width] = silu(gate) * up
void gate_forward(const bf16* both, bf16* out, int64_t rows, int64_t width) {
    const __m512 one = _mm512_set1_ps(1);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < width; i += 16) {
            const __m512 g = load16(both + r * 2 * width + i), u = load16(both + r * 2 * width + width + i);
            const __m512 s = _mm512_div_ps(one, _mm512_add_ps(one, exp16(_mm512_sub_ps(_mm512_setzero_ps(), g))));
            store16(out + r * width + i, _mm512_mul_ps(_mm512_mul_ps(g, s), u));
        }
}

void gate_backward(const bf16* both, const bf16* grad_out, bf16* grad_both, int64_t rows, int64_t width) {
    const __m512 one = _mm512_set1_ps(1);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < width; i += 16) {
            const int64_t at = r * 2 * width + i;
            const __m512 g = load16(both + at), u = load16(both + at + width), d = load16(grad_out + r * width + i);
            const __m512 s = _mm512_div_ps(one, _mm512_add_ps(one, exp16(_mm512_sub_ps(_mm512_setzero_ps(), g))));
            const __m512 silu = _mm512_mul_ps(g, s);
            const __m512 slope = _mm512_fmadd_ps(silu, _mm512_sub_ps(one, s), s);
            store16(grad_both + at, _mm512_mul_ps(_mm512_mul_ps(d, u), slope));
            store16(grad_both + at + width, _mm512_mul_ps(d, silu));
        }
}

}  // extern "C"

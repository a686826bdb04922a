// What the demo model's trainer does row by row: adding and RMS norm, and the FFN's gate.
#include <cmath>

#include "lanes.hpp"

using namespace rondo::demo;

extern "C" {

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

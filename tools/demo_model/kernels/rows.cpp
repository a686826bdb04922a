// What the demo model's trainer does row by row: adding and RMS norm, and the FFN's gate.
#include <cmath>

#include "lanes.hpp"

using namespace rondo::demo;

namespace {

Lanes sigmoid(Lanes x) {
    return all(1) / (all(1) + exp16(all(0) - x));
}

}  // namespace

extern "C" {

// x [rows][width] float: x + y goes to `sum`, its RMS norm times `weight` to `out`. y may be null.
void add_norm_forward(const float* x, const Stored* y, const float* weight, float* sum, Stored* out, float* inverse,
                      int64_t rows, int64_t width, float eps) {
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = r * width;
        Lanes squares = all(0);
        for (int64_t i = 0; i < width; i += 16) {
            Lanes value = load(x + at + i);
            if (y) value = value + load16(y + at + i);
            store(sum + at + i, value);
            squares = value * value + squares;
        }
        inverse[r] = 1 / std::sqrt(sum_of(squares) / static_cast<float>(width) + eps);
        for (int64_t i = 0; i < width; i += 16)
            store16(out + at + i, load(sum + at + i) * all(inverse[r]) * load(weight + i));
    }
}

// grad_sum (may be null) and grad_out come in; grad_x (float), its copy grad_y (may be null), grad_weight go out.
void add_norm_backward(const float* sum, const float* weight, const float* inverse, const float* grad_sum,
                       const Stored* grad_out, float* grad_x, Stored* grad_y, float* grad_weight, int64_t rows,
                       int64_t width) {
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = r * width;
        const Lanes factor = all(inverse[r]);
        Lanes dots = all(0);
        for (int64_t i = 0; i < width; i += 16) {
            const Lanes normed = load(sum + at + i) * factor, g = load16(grad_out + at + i);
            dots = g * load(weight + i) * normed + dots;
            store(grad_weight + i, g * normed + load(grad_weight + i));
        }
        const Lanes mean = all(sum_of(dots) / static_cast<float>(width));
        for (int64_t i = 0; i < width; i += 16) {
            const Lanes normed = load(sum + at + i) * factor, g = load16(grad_out + at + i) * load(weight + i);
            Lanes value = factor * (g - normed * mean);
            if (grad_sum) value = value + load(grad_sum + at + i);
            store(grad_x + at + i, value);
            if (grad_y) store16(grad_y + at + i, value);
        }
    }
}

// both [rows][2 * width]: gate, then up; out [rows][width] = silu(gate) * up
void gate_forward(const Stored* both, Stored* out, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < width; i += 16) {
            const Lanes g = load16(both + r * 2 * width + i), u = load16(both + r * 2 * width + width + i);
            store16(out + r * width + i, g * sigmoid(g) * u);
        }
}

void gate_backward(const Stored* both, const Stored* grad_out, Stored* grad_both, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < width; i += 16) {
            const int64_t at = r * 2 * width + i;
            const Lanes g = load16(both + at), u = load16(both + at + width), d = load16(grad_out + r * width + i);
            const Lanes s = sigmoid(g), silu = g * s;
            store16(grad_both + at, d * u * (silu * (all(1) - s) + s));
            store16(grad_both + at + width, d * silu);
        }
}

}  // extern "C"

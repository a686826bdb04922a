#include "tests/kernels/reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/quant.hpp"

namespace rondo::test {
namespace {

/// A double as a 16-bit float of `mantissa_bits` and smallest exponent `exponent_min`, ties to even; by arithmetic, so
/// that it shares nothing with the bit tricks it checks.
double rounded_to(double value, int mantissa_bits, int exponent_min, double largest) {
    if (value == 0.0 || !std::isfinite(value)) return value;
    const int exponent = std::max(std::ilogb(value), exponent_min);
    const double unit = std::ldexp(1.0, exponent - mantissa_bits);
    const double result = std::nearbyint(value / unit) * unit;
    return std::abs(result) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : result;
}

double stored(double value, DType dtype) {
    const double single = static_cast<double>(static_cast<float>(value));
    if (dtype == DType::bf16) return rounded_to(single, 7, -126, 0x1.fep127);
    if (dtype == DType::f16) return rounded_to(single, 10, -14, 65504.0);
    return single;
}

/// The bits of a value that the type holds exactly.
uint16_t half_bits(double value, DType dtype) {
    if (dtype == DType::bf16) return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::abs(value);
    if (std::isinf(magnitude)) return sign | 0x7c00;
    if (magnitude < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<uint16_t>(magnitude * 0x1p24));
    const int exponent = std::ilogb(magnitude);
    const double fraction = std::ldexp(magnitude, -exponent) - 1.0;
    return static_cast<uint16_t>(sign | ((exponent + 15) << 10) | static_cast<uint16_t>(fraction * 1024.0));
}

/// Where a block keeps its f16 scale and, if it has one, its f16 minimum.
struct ScaleOffsets {
    int d;
    int m;
};

ScaleOffsets scale_offsets(DType dtype) {
    switch (dtype) {
        case DType::q4_1:
        case DType::q5_1:
        case DType::q4_k:
        case DType::q5_k:
            return {0, 2};
        case DType::q6_k:
            return {208, -1};
        case DType::q2_k:
            return {80, 82};
        case DType::q3_k:
            return {108, -1};
        default:
            return {0, -1};
    }
}

void put_half(std::byte* at, double value) {
    const uint16_t bits = half_bits(stored(value, DType::f16), DType::f16);
    std::memcpy(at, &bits, sizeof(bits));
}

void fill_quantized(FileWeight& weight, std::mt19937_64& random) {
    for (std::byte& byte : weight.bytes) byte = static_cast<std::byte>(random());
    const DTypeTraits type = traits(weight.dtype);
    const ScaleOffsets offsets = scale_offsets(weight.dtype);
    std::uniform_real_distribution<double> scale(0.5, 1.5);
    for (size_t at = 0; at < weight.bytes.size(); at += static_cast<size_t>(type.block_bytes)) {
        std::byte* block = weight.bytes.data() + at;
        const double d = scale(random) * (type.block_elements == 256 ? 0.0005 : 0.005);
        put_half(block + offsets.d, d);
        if (offsets.m >= 0) put_half(block + offsets.m, type.block_elements == 256 ? 8.0 * d : -8.0 * d);
    }
    const size_t row_bytes = bytes_of(weight.dtype, weight.values.columns);
    std::vector<float> row(static_cast<size_t>(weight.values.columns));
    for (int64_t r = 0; r < weight.values.rows; ++r) {
        dequantize_row(weight.dtype, weight.bytes.data() + static_cast<size_t>(r) * row_bytes, row.data(),
                       weight.values.columns);
        std::copy(row.begin(), row.end(), weight.values.values.begin() + r * weight.values.columns);
    }
}

}  // namespace

Matrix Matrix::slice_rows(int64_t first, int64_t count) const {
    Matrix out(count, columns);
    std::copy_n(values.begin() + first * columns, count * columns, out.values.begin());
    return out;
}

Matrix Matrix::slice_columns(int64_t first, int64_t count) const {
    Matrix out(rows, count);
    for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(values.begin() + r * columns + first, count, out.values.begin() + r * count);
    }
    return out;
}

Matrix stacked(const Matrix& top, const Matrix& bottom) {
    Matrix out(top.rows + bottom.rows, bottom.columns);
    std::copy(top.values.begin(), top.values.end(), out.values.begin());
    std::copy(bottom.values.begin(), bottom.values.end(), out.values.begin() + top.rows * top.columns);
    return out;
}

Matrix random_matrix(int64_t rows, int64_t columns, uint64_t seed, double spread) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0.0, spread);
    Matrix out(rows, columns);
    for (double& value : out.values) value = static_cast<float>(normal(random));
    return out;
}

Matrix rounded(Matrix values, DType dtype) {
    for (double& value : values.values) value = stored(value, dtype);
    return values;
}

double relative_error(const Matrix& got, const Matrix& reference) {
    if (got.rows != reference.rows || got.columns != reference.columns) return std::nan("");
    double difference = 0.0;
    double norm = 0.0;
    for (size_t i = 0; i < got.values.size(); ++i) {
        const double delta = got.values[i] - reference.values[i];
        difference += delta * delta;
        norm += reference.values[i] * reference.values[i];
    }
    return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

std::vector<std::byte> encode(const Matrix& values, DType dtype) {
    std::vector<std::byte> bytes(bytes_of(dtype, values.rows * values.columns));
    for (size_t i = 0; i < values.values.size(); ++i) {
        if (dtype == DType::f32) {
            const float single = static_cast<float>(values.values[i]);
            std::memcpy(bytes.data() + i * sizeof(single), &single, sizeof(single));
        } else {
            const uint16_t half = half_bits(stored(values.values[i], dtype), dtype);
            std::memcpy(bytes.data() + i * sizeof(half), &half, sizeof(half));
        }
    }
    return bytes;
}

Matrix decode(std::span<const std::byte> bytes, DType dtype, int64_t rows, int64_t columns) {
    Matrix out(rows, columns);
    for (size_t i = 0; i < out.values.size(); ++i) {
        uint32_t bits = 0;
        if (dtype == DType::f32) {
            std::memcpy(&bits, bytes.data() + i * 4, 4);
        } else {
            uint16_t high = 0;
            std::memcpy(&high, bytes.data() + i * 2, 2);
            bits = static_cast<uint32_t>(high) << 16;
        }
        out.values[i] = std::bit_cast<float>(bits);
    }
    return out;
}

FileWeight random_weight(DType dtype, int64_t rows, int64_t columns, uint64_t seed) {
    FileWeight weight{std::vector<std::byte>(bytes_of(dtype, rows * columns)), dtype, Matrix(rows, columns)};
    if (is_quantized(dtype)) {
        std::mt19937_64 random(seed);
        fill_quantized(weight, random);
    } else {
        weight.values = rounded(random_matrix(rows, columns, seed, 0.05), dtype);
        weight.bytes = encode(weight.values, dtype);
    }
    return weight;
}

namespace reference {

Matrix rms_norm(const Matrix& x, const Matrix& weight, double eps) {
    Matrix out(x.rows, x.columns);
    for (int64_t r = 0; r < x.rows; ++r) {
        double squares = 0.0;
        for (int64_t c = 0; c < x.columns; ++c) squares += x.at(r, c) * x.at(r, c);
        const double root = std::sqrt(squares / static_cast<double>(x.columns) + eps);
        for (int64_t c = 0; c < x.columns; ++c) out.at(r, c) = x.at(r, c) / root * weight.at(0, c);
    }
    return out;
}

Matrix rope_angles(std::span<const int32_t> positions, std::span<const double> inverse_frequency) {
    const int64_t half = std::ssize(inverse_frequency);
    Matrix out(std::ssize(positions), 2 * half);
    for (int64_t r = 0; r < out.rows; ++r) {
        for (int64_t j = 0; j < half; ++j) {
            const long double angle = static_cast<long double>(positions[r]) * inverse_frequency[j];
            out.at(r, j) = static_cast<double>(std::cos(angle));
            out.at(r, half + j) = static_cast<double>(std::sin(angle));
        }
    }
    return out;
}

Matrix rope(const Matrix& x, const Matrix& angles, int heads) {
    const int64_t d = x.columns / heads;
    Matrix out(x.rows, x.columns);
    for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t c = 0; c < x.columns; ++c) {
            const int64_t within = c % d;
            const bool low = within < d / 2;
            const double partner = low ? -x.at(r, c + d / 2) : x.at(r, c - d / 2);
            const int64_t j = low ? within : within - d / 2;
            out.at(r, c) = x.at(r, c) * angles.at(r, j) + partner * angles.at(r, d / 2 + j);
        }
    }
    return out;
}

Matrix silu_mul(const Matrix& x) {
    const int64_t columns = x.columns / 2;
    Matrix out(x.rows, columns);
    for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
            const double gate = x.at(r, c);
            out.at(r, c) = gate / (1.0 + std::exp(-gate)) * x.at(r, columns + c);
        }
    }
    return out;
}

Matrix softmax(const Matrix& x) {
    Matrix out(x.rows, x.columns);
    for (int64_t r = 0; r < x.rows; ++r) {
        double largest = -std::numeric_limits<double>::infinity();
        for (int64_t c = 0; c < x.columns; ++c) largest = std::max(largest, x.at(r, c));
        double sum = 0.0;
        for (int64_t c = 0; c < x.columns; ++c) sum += std::exp(x.at(r, c) - largest);
        for (int64_t c = 0; c < x.columns; ++c) out.at(r, c) = std::exp(x.at(r, c) - largest) / sum;
    }
    return out;
}

Matrix take_rows(const Matrix& x, std::span<const int32_t> rows) {
    Matrix out(std::ssize(rows), x.columns);
    for (int64_t r = 0; r < out.rows; ++r) {
        for (int64_t c = 0; c < x.columns; ++c) out.at(r, c) = x.at(rows[static_cast<size_t>(r)], c);
    }
    return out;
}

Matrix matmul(const Matrix& x, const Matrix& w, const Matrix& bias) {
    Matrix out(x.rows, w.rows);
    for (int64_t m = 0; m < x.rows; ++m) {
        for (int64_t n = 0; n < w.rows; ++n) {
            double sum = bias.values.empty() ? 0.0 : bias.at(0, n);
            for (int64_t k = 0; k < x.columns; ++k) sum += x.at(m, k) * w.at(n, k);
            out.at(m, n) = sum;
        }
    }
    return out;
}

Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v, int heads, int kv_heads, double scale,
              const Sees& sees) {
    const int64_t d = q.columns / heads;
    Matrix out(q.rows, q.columns);
    for (int64_t r = 0; r < q.rows; ++r) {
        const int64_t visible = k.rows - q.rows + r + 1;
        for (int h = 0; h < heads; ++h) {
            const int64_t from = h * d;
            const int64_t shared = h / (heads / kv_heads) * d;
            Matrix scores(1, visible);
            for (int64_t key = 0; key < visible; ++key) {
                if (sees && !sees(r, h, key)) {
                    scores.at(0, key) = -std::numeric_limits<double>::infinity();
                    continue;
                }
                double dot = 0.0;
                for (int64_t c = 0; c < d; ++c) dot += q.at(r, from + c) * k.at(key, shared + c);
                scores.at(0, key) = dot * scale;
            }
            const Matrix weights = softmax(scores);
            for (int64_t key = 0; key < visible; ++key) {
                for (int64_t c = 0; c < d; ++c) out.at(r, from + c) += weights.at(0, key) * v.at(key, shared + c);
            }
        }
    }
    return out;
}

namespace {

template <class T>
void put(std::byte* base, size_t index, T value) {
    std::memcpy(base + index * sizeof(T), &value, sizeof(T));
}

template <class T>
T get(const std::byte* base, size_t index) {
    T value;
    std::memcpy(&value, base + index * sizeof(T), sizeof(T));
    return value;
}

float write_codes(std::byte* base, size_t first, std::span<const double> x) {
    float largest = 0.0F;
    for (double value : x) largest = std::max(largest, std::abs(static_cast<float>(value)));
    const float scale = largest / 127.0F;
    for (size_t c = 0; c < x.size(); ++c) {
        const double code = scale == 0.0F ? 0.0 : std::nearbyint(x[c] / static_cast<double>(scale));
        put(base, first + c, static_cast<int8_t>(code));
    }
    return scale;
}

}  // namespace

void write_token(const KvAtom& layout, std::byte* atom, int token, std::span<const double> k,
                 std::span<const double> v) {
    const size_t d = static_cast<size_t>(layout.head_dim);
    const size_t t = static_cast<size_t>(token);
    std::byte* values = atom + layout.half_bytes();
    if (layout.dtype == DType::i8) {
        put(atom + layout.scales_offset(), t, write_codes(atom, t * d, k));
        put(atom + layout.scales_offset(), kv_block_tokens + t, write_codes(values, t * d, v));
        return;
    }
    for (size_t c = 0; c < d; ++c) {
        if (layout.dtype == DType::f32) {
            put(atom, t * d + c, static_cast<float>(k[c]));
            put(values, t * d + c, static_cast<float>(v[c]));
        } else {
            put(atom, t * d + c, half_bits(stored(k[c], DType::bf16), DType::bf16));
            put(values, t / 2 * 2 * d + 2 * c + t % 2, half_bits(stored(v[c], DType::bf16), DType::bf16));
        }
    }
}

void read_token(const KvAtom& layout, const std::byte* atom, int token, std::span<double> k, std::span<double> v) {
    const size_t d = static_cast<size_t>(layout.head_dim);
    const size_t t = static_cast<size_t>(token);
    const std::byte* values = atom + layout.half_bytes();
    const std::byte* scales = atom + layout.scales_offset();
    for (size_t c = 0; c < d; ++c) {
        if (layout.dtype == DType::f32) {
            k[c] = get<float>(atom, t * d + c);
            v[c] = get<float>(values, t * d + c);
        } else if (layout.dtype == DType::bf16) {
            const uint32_t k_bits = get<uint16_t>(atom, t * d + c);
            const uint32_t v_bits = get<uint16_t>(values, t / 2 * 2 * d + 2 * c + t % 2);
            k[c] = std::bit_cast<float>(k_bits << 16);
            v[c] = std::bit_cast<float>(v_bits << 16);
        } else {
            k[c] = static_cast<double>(get<int8_t>(atom, t * d + c)) * get<float>(scales, t);
            v[c] = static_cast<double>(get<int8_t>(values, t * d + c)) * get<float>(scales, kv_block_tokens + t);
        }
    }
}

}  // namespace reference
}  // namespace rondo::test

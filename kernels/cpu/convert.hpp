#pragma once

#include <bit>
#include <cstdint>

/// Conversions from the 16-bit floats to f32, and from f32 to bf16. The rounding is the same everywhere: to nearest,
/// ties to even. A NaN stays a (quiet) NaN, denormals are kept, what is too large becomes infinity.
namespace rondo::cpu {

inline float float_from_bf16(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t bf16_from_float(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    // Rounding up could carry a NaN's payload over into infinity or a sign, so a NaN is cut and made quiet instead.
    const uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
    return static_cast<uint16_t>(nan ? (bits >> 16) | 0x40U : rounded >> 16);
}

inline float float_from_f16(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t magnitude = bits & 0x7fffU;
    if (magnitude >= 0x7c00U) {  // infinity or NaN
        const uint32_t quiet = magnitude > 0x7c00U ? 0x400000U : 0U;
        return std::bit_cast<float>(sign | 0x7f800000U | quiet | ((magnitude & 0x3ffU) << 13));
    }
    if (magnitude < 0x400U) {  // a denormal is an exact multiple of 2^-24
        const float value = static_cast<float>(magnitude) * 0x1p-24F;
        return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + ((127U - 15U) << 23)));
}

/// The same for `count` elements, vectorized; `to` and `from` must not overlap. Results are the scalar ones bit for
/// bit.
void convert_row(const float* from, uint16_t* to_bf16, int64_t count);
void convert_row(const uint16_t* from_bf16, float* to, int64_t count);

}  // namespace rondo::cpu

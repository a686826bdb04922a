#include "machine/random_rows.hpp"

#include <immintrin.h>

#include <cstring>
#include <random>

#include "kernels/quant.hpp"

namespace rondo::bench {

namespace {

/// Where a quantized block has its f16 scale and, behind it, its f16 minimum, and what they are.
struct BlockScale {
    size_t at;
    float scale;
    float minimum = 0.0F;
};

/// Random codes (and scales of sub-blocks) times these are about zero: a minimum takes away the mean.
BlockScale block_scale(DType type) {
    switch (type) {
        case DType::q8_0:
        case DType::iq4_nl:
            return {0, 0x1p-12F};
        case DType::q4_0:
            return {0, 0x1p-8F};
        case DType::q4_1:
            return {0, 0x1p-8F, -0x1p-5F};
        case DType::q5_0:
            return {0, 0x1p-9F};
        case DType::q5_1:
            return {0, 0x1p-9F, -0x1p-5F};
        case DType::q2_k:
            return {80, 0x1p-9F, 0x1.8p-9F};
        case DType::q3_k:
            return {108, 0x1p-11F};
        case DType::q4_k:
            return {0, 0x1p-14F, 0x1p-11F};
        case DType::q5_k:
            return {0, 0x1p-15F, 0x1p-11F};
        case DType::q6_k:
            return {208, 0x1p-16F};
        default:
            return {0, 0x1p-16F};  // iq4_xs
    }
}

__attribute__((target("f16c"))) void store_f16(std::byte* to, float value) {
    const auto half = static_cast<uint16_t>(_cvtss_sh(value, 0));
    std::memcpy(to, &half, sizeof(half));
}

std::vector<std::byte> random_blocks(DType type, int64_t count, std::mt19937& random) {
    std::vector<std::byte> bytes(bytes_of(type, count));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 24);
    const BlockScale scale = block_scale(type);
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(traits(type).block_bytes)) {
        store_f16(&bytes[at + scale.at], scale.scale);
        if (quant_offset(type) == 0) store_f16(&bytes[at + scale.at + 2], scale.minimum);
    }
    return bytes;
}

}  // namespace

std::vector<std::byte> random_rows(DType type, int64_t rows, int64_t columns) {
    std::mt19937 random(1);
    if (is_quantized(type)) return random_blocks(type, rows * columns, random);
    std::vector<std::byte> bytes(bytes_of(type, rows * columns));
    std::uniform_real_distribution<float> uniform(-0.035F, 0.035F);
    const size_t width = bytes_of(type, 1);
    for (size_t at = 0; at < bytes.size(); at += width) {
        const float value = uniform(random);
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        const auto bf16 = static_cast<uint16_t>(bits >> 16);
        if (type == DType::f16) store_f16(&bytes[at], value);
        if (type == DType::f32) std::memcpy(&bytes[at], &bits, sizeof(bits));
        if (type == DType::bf16) std::memcpy(&bytes[at], &bf16, sizeof(bf16));
    }
    return bytes;
}

}  // namespace rondo::bench

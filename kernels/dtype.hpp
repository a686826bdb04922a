#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rondo {

/// Element types of tensors. The quantized ones are GGUF's: rows are split into blocks of `block_elements`,
/// each stored in `block_bytes`.
enum class DType : uint8_t {
    f32,
    bf16,
    f16,
    i8,
    i32,
    q8_0,
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q4_k,
    q5_k,
    q6_k,
    q2_k,
    q3_k,
    iq4_nl,
    iq4_xs
};

struct DTypeTraits {
    std::string_view name;
    int block_elements;
    int block_bytes;
};

constexpr DTypeTraits traits(DType type) {
    switch (type) {
        case DType::f32:
            return {"f32", 1, 4};
        case DType::bf16:
            return {"bf16", 1, 2};
        case DType::f16:
            return {"f16", 1, 2};
        case DType::i8:
            return {"i8", 1, 1};
        case DType::i32:
            return {"i32", 1, 4};
        case DType::q8_0:
            return {"q8_0", 32, 34};
        case DType::q4_0:
            return {"q4_0", 32, 18};
        case DType::q4_1:
            return {"q4_1", 32, 20};
        case DType::q5_0:
            return {"q5_0", 32, 22};
        case DType::q5_1:
            return {"q5_1", 32, 24};
        case DType::q4_k:
            return {"q4_k", 256, 144};
        case DType::q5_k:
            return {"q5_k", 256, 176};
        case DType::q6_k:
            return {"q6_k", 256, 210};
        case DType::q2_k:
            return {"q2_k", 256, 84};
        case DType::q3_k:
            return {"q3_k", 256, 110};
        case DType::iq4_nl:
            return {"iq4_nl", 32, 18};
        case DType::iq4_xs:
            return {"iq4_xs", 256, 136};
    }
    return {"?", 1, 1};
}

constexpr bool is_quantized(DType type) {
    return traits(type).block_elements > 1;
}

/// Bytes of `elements` contiguous elements; `elements` is a multiple of the type's block.
constexpr size_t bytes_of(DType type, int64_t elements) {
    return static_cast<size_t>(elements / traits(type).block_elements) * static_cast<size_t>(traits(type).block_bytes);
}

}  // namespace rondo

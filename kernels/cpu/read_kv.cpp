#include "kernels/cpu/read_kv.hpp"

#include <cassert>
#include <cstring>

#include "kernels/cpu/convert.hpp"

namespace rondo::cpu {
namespace {

void read_codes(const int8_t* codes, float scale, float* to, int64_t d) {
    for (int64_t i = 0; i < d; ++i) to[i] = static_cast<float>(codes[i]) * scale;
}

}  // namespace

void read_key(const KvAtom& layout, const std::byte* atom, int token, float* k) {
    const int64_t d = layout.head_dim;
    if (layout.dtype == DType::f32) {
        std::memcpy(k, reinterpret_cast<const float*>(atom) + token * d, static_cast<size_t>(d) * sizeof(float));
    } else if (layout.dtype == DType::bf16) {
        convert_row(reinterpret_cast<const uint16_t*>(atom) + token * d, k, d);
    } else {
        const float* scales = reinterpret_cast<const float*>(atom + layout.scales_offset());
        read_codes(reinterpret_cast<const int8_t*>(atom) + token * d, scales[token], k, d);
    }
}

void read_token(const KvAtom& layout, const std::byte* atom, int token, float* k, float* v) {
    const int64_t d = layout.head_dim;
    const std::byte* values = atom + layout.half_bytes();
    read_key(layout, atom, token, k);
    if (layout.dtype == DType::f32) {
        std::memcpy(v, reinterpret_cast<const float*>(values) + token * d, static_cast<size_t>(d) * sizeof(float));
    } else if (layout.dtype == DType::bf16) {
        const uint16_t* every_other = reinterpret_cast<const uint16_t*>(values) + token / 2 * 2 * d + token % 2;
        for (int64_t i = 0; i < d; ++i) v[i] = float_from_bf16(every_other[2 * i]);
    } else {
        const float* scales = reinterpret_cast<const float*>(atom + layout.scales_offset());
        read_codes(reinterpret_cast<const int8_t*>(values) + token * d, scales[kv_block_tokens + token], v, d);
    }
}

/// Plain loops: this moves bytes off the hot path, and the compiler vectorizes what there is to vectorize.
void read_kv_rows(const Tensor& k, const Tensor& v, const KvLayer& kv, const int32_t* slots, int64_t row_begin,
                  int64_t row_end) {
    const int64_t d = kv.atom.head_dim;
    assert(k.dtype == DType::f32 && v.dtype == DType::f32 && k.columns == kv.heads * d && v.columns == kv.heads * d);
    for (int64_t i = row_begin; i < row_end; ++i) {
        if (slots[i] < 0) continue;
        for (int h = 0; h < kv.heads; ++h) {
            const std::byte* atom = kv.at(slots[i] / kv_block_tokens, h);
            read_token(kv.atom, atom, slots[i] % kv_block_tokens, k.row<float>(i) + h * d, v.row<float>(i) + h * d);
        }
    }
}

}  // namespace rondo::cpu

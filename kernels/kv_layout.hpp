#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace rondo {

/// Tokens in an atom, and in a block of the pool.
inline constexpr int kv_block_tokens = 16;

/// The atom of KV: 16 tokens × one layer × one KV head, K then V. The same bytes on every backend:
///   f32   K [16][d]         V [16][d]
///   bf16  K [16][d]         V [8][d][2]      (token pairs interleaved: what bf16 dot products read)
///   i8    K [16][d] V [16][d], then K scales f32[16], V scales f32[16]   (symmetric, one scale per token and head)
/// An element of V for token t, channel c in bf16 stands at (t/2)·2d + 2c + t%2.
struct KvAtom {
    DType dtype = DType::bf16;
    int head_dim = 0;

    constexpr size_t half_bytes() const {
        return static_cast<size_t>(kv_block_tokens) * head_dim * traits(dtype).block_bytes;
    }
    constexpr size_t scales_offset() const { return 2 * half_bytes(); }
    constexpr size_t bytes() const {
        return 2 * half_bytes() + (dtype == DType::i8 ? 2 * kv_block_tokens * sizeof(float) : 0);
    }
};

/// One layer of a pool as a kernel sees it: the atom of (block b, head h) is at base + b·block_stride + h·atom.bytes().
struct KvLayer {
    std::byte* base = nullptr;
    size_t block_stride = 0;
    int heads = 0;
    KvAtom atom;

    std::byte* at(int64_t block, int head) const {
        return base + static_cast<size_t>(block) * block_stride + static_cast<size_t>(head) * atom.bytes();
    }
};

}  // namespace rondo

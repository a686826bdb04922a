#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/kv_layout.hpp"
#include "memory/prefix_cache.hpp"
#include "memory/store/memory_parts.hpp"

namespace rondo {

/// 16 bytes that stand for more: of contents, a tenant, a model.
using StoreName = std::array<std::byte, 16>;

/// Which model's KV, and how it lies: what must be equal before a record's bytes may be put into a pool.
struct KvKind {
    StoreName model{};  ///< of its config and all its weights
    DType dtype = DType::bf16;
    int32_t layers = 0;
    int32_t kv_heads = 0;
    int32_t head_dim = 0;
    int32_t lower_layers = 0;  ///< which layers a group has; told by the names of records, and not by their headers

    size_t bytes_of_block() const { return static_cast<size_t>(kv_heads) * KvAtom{dtype, head_dim}.bytes(); }
    bool operator==(const KvKind&) const = default;
};

/// What a record says of itself: the KV of one round's tokens in one layer group, layer by layer, behind this header.
struct RecordHeader {
    static constexpr uint32_t version = 1;

    StoreName name{};    ///< of what it holds: whose, how computed, all ids up to its end
    StoreName before{};  ///< the same of what comes before its first id
    StoreName tenant{};
    KvKind kind;
    LayerGroup group = LayerGroup::upper;
    Exactness exactness = Exactness::exact;
    int64_t tokens_before = 0;
    std::vector<int32_t> ids;

    /// Where the bytes of a layer of the group lie, from the record's begin on, and what makes sure that they are those
    /// that were written: a checksum, or 16 bytes of a cipher.
    struct Layer {
        uint64_t offset = 0;
        std::array<std::byte, 16> proof{};
        bool operator==(const Layer&) const = default;
    };
    std::vector<Layer> layers;

    int64_t blocks() const { return (std::ssize(ids) + kv_block_tokens - 1) / kv_block_tokens; }
    size_t layer_bytes() const { return static_cast<size_t>(blocks()) * kind.bytes_of_block(); }
    /// Of the whole record, header and all, in steps of `disk_alignment`.
    uint64_t record_bytes() const;
    /// Of the header with so many ids and layers, likewise.
    static size_t header_bytes(size_t ids, size_t layers);
    /// Says where the layers lie.
    void lay_out();

    /// Where in those bytes the proof of a cipher stands (zeros without one), and from where on they may be sealed.
    static constexpr size_t proof_at = 16, sealed_from = 32;

    /// Bytes that `read` understands, padded to `header_bytes`, with a checksum of their own.
    std::vector<std::byte> write() const;
    /// Refuses (corrupt) what is not whole, and (unsupported) what another version has written.
    static Result<RecordHeader> read(std::span<const std::byte> bytes);

    bool operator==(const RecordHeader&) const = default;
};

/// A checksum of bytes, another one for each seed. Not against those who want it to be equal.
uint64_t checksum_of(std::span<const std::byte> bytes, uint64_t seed = 0);
/// The same of bytes in parts.
uint64_t checksum_of(const MemoryParts& parts, uint64_t seed);

}  // namespace rondo

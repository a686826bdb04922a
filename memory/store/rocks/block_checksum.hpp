#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace rondo {

/// The kinds of checksums that RocksDB has for its blocks, by their numbers in a table's footer.
enum class BlockChecksum : uint8_t { none = 0, crc32c = 1, xxh32 = 2, xxh64 = 3, xxh3 = 4 };

uint32_t crc32c(std::string_view bytes, uint32_t before = 0);
/// As RocksDB stores a CRC, so that a CRC of bytes that hold one is no special case.
uint32_t masked_crc32c(uint32_t crc);

/// Of a block and the byte behind it, which says how it is compressed. Not of `none`.
uint32_t block_checksum(BlockChecksum kind, std::string_view block, char compression);

/// The same of a block that grows, wherever it might end.
class GrowingChecksum {
public:
    explicit GrowingChecksum(BlockChecksum kind);
    ~GrowingChecksum();
    GrowingChecksum(const GrowingChecksum&) = delete;
    GrowingChecksum& operator=(const GrowingChecksum&) = delete;

    void add(std::string_view bytes);
    uint32_t with(char compression) const;

private:
    struct State;
    const BlockChecksum kind_;
    const std::unique_ptr<State> state_;
};

}  // namespace rondo

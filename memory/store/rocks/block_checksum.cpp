#include "memory/store/rocks/block_checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

namespace rondo {

namespace {

constexpr uint32_t xxh3_of_last_byte = 0x6b9083d9;  // RocksDB's own number

/// Of Castagnoli's polynomial, the bits in reverse order.
constexpr std::array<uint32_t, 256> make_crc_table() {
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
        table[byte] = crc;
    }
    return table;
}

constexpr std::array<uint32_t, 256> crc_table = make_crc_table();

}  // namespace

uint32_t crc32c(std::string_view bytes, uint32_t before) {
    uint32_t crc = ~before;
    for (const char byte : bytes) crc = crc_table[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
    return ~crc;
}

uint32_t masked_crc32c(uint32_t crc) {
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

/// Of the kinds one is in use.
struct GrowingChecksum::State {
    uint32_t crc = 0;
    XXH32_state_t xxh32;
    XXH64_state_t xxh64;
    XXH3_state_t xxh3;
};

GrowingChecksum::GrowingChecksum(BlockChecksum kind) : kind_(kind), state_(std::make_unique<State>()) {
    XXH32_reset(&state_->xxh32, 0);
    XXH64_reset(&state_->xxh64, 0);
    XXH3_INITSTATE(&state_->xxh3);
    XXH3_64bits_reset(&state_->xxh3);
}

GrowingChecksum::~GrowingChecksum() = default;

void GrowingChecksum::add(std::string_view bytes) {
    if (kind_ == BlockChecksum::crc32c) state_->crc = crc32c(bytes, state_->crc);
    if (kind_ == BlockChecksum::xxh32) XXH32_update(&state_->xxh32, bytes.data(), bytes.size());
    if (kind_ == BlockChecksum::xxh64) XXH64_update(&state_->xxh64, bytes.data(), bytes.size());
    if (kind_ == BlockChecksum::xxh3) XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

uint32_t GrowingChecksum::with(char compression) const {
    const std::array<char, 32> last{compression};  // GCC warns of what an update of fewer bytes does not read
    switch (kind_) {
        case BlockChecksum::none:
            return 0;
        case BlockChecksum::crc32c:
            return masked_crc32c(crc32c({&compression, 1}, state_->crc));
        case BlockChecksum::xxh32: {
            XXH32_state_t state = state_->xxh32;
            XXH32_update(&state, last.data(), 1);
            return XXH32_digest(&state);
        }
        case BlockChecksum::xxh64: {
            XXH64_state_t state = state_->xxh64;
            XXH64_update(&state, last.data(), 1);
            return static_cast<uint32_t>(XXH64_digest(&state));
        }
        case BlockChecksum::xxh3:
            return static_cast<uint32_t>(XXH3_64bits_digest(&state_->xxh3)) ^
                   static_cast<uint8_t>(compression) * xxh3_of_last_byte;
    }
    return 0;
}

uint32_t block_checksum(BlockChecksum kind, std::string_view block, char compression) {
    GrowingChecksum sum(kind);
    sum.add(block);
    return sum.with(compression);
}

}  // namespace rondo

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace rondo {

/// The name of a block by what it holds: whose it is, how it was computed, and all token ids up to and with its own.
/// Equal names mean equal contents for all practical purposes; but wrong KV is worse than none, so whoever finds a
/// block by its name compares the ids as well. A name is the same in every process and on every machine, so that it can
/// be written down.
struct PrefixName {
    uint64_t low = 0, high = 0;

    bool operator==(const PrefixName&) const = default;
    struct Hash {
        size_t operator()(const PrefixName& name) const noexcept { return name.low; }
    };
};

/// The name before a name space's first block: SipHash-1-3 of its bytes with 128 bits of output, under the key that
/// spells "rondo prefix 1\n\n". Another way to compute names needs another number there.
PrefixName name_of_space(std::string_view space);

/// The name of the block that holds `ids` (16 at most) behind the one named `before`: SipHash-1-3 with 128 bits of
/// output, keyed with that name (its low half first), of the ids as 32-bit little-endian numbers.
PrefixName name_of_block(const PrefixName& before, std::span<const int32_t> ids);

/// The name of the last block of a round that holds `ids`: its blocks are full, but for the last one.
PrefixName name_of_round(PrefixName before, std::span<const int32_t> ids);

}  // namespace rondo

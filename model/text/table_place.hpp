#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo {

/// Where something lies in a table with open addressing, whose size is a power of two, or the free slot for it.
struct TablePlace {
    /// By chance 4 million entries of a table that is half full pass 50 at most. Who passes more than this was chosen
    /// to do so, and a table that refuses it is as fast with any entries.
    static constexpr size_t passed_max = 256;

    size_t slot;
    size_t passed = 0;  ///< slots of others before it

    bool is_chosen() const { return passed > passed_max; }
};

/// `is_other(slot)`: whether something else lies there.
template <class IsOther>
TablePlace place_in_table(uint64_t hash, size_t slots, IsOther is_other) {
    const size_t mask = slots - 1;
    TablePlace place{hash & mask};
    for (; is_other(place.slot); ++place.passed) place.slot = (place.slot + 1) & mask;
    return place;
}

}  // namespace rondo

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/limits.hpp"
#include "config/result.hpp"
#include "model/text/table_place.hpp"

namespace rondo {

/// Token contents by id and ids by content, in flat memory so that 150k tokens load in milliseconds. Ids may have gaps.
class Vocabulary {
public:
    enum class Kind : uint8_t {
        absent,  ///< no token has this id
        normal,
        added,    ///< found in the text before anything else happens to it
        special,  ///< added, and never made of a user's words
        byte,     ///< "<0xXX>": stands for a byte that no other token covers
        unused    ///< has an id, but encoding never gives it
    };

    /// Takes ids below this only, so that a small file cannot ask for a large table.
    void bound_ids(int64_t ids_max) { ids_max_ = std::min(ids_max, limits::vocabulary_max); }
    /// The id must be free and within the bound. Of two tokens with the same content the first is found. Contents that
    /// were chosen to have one hash are an error, so finding takes as long with any vocabulary.
    Status add(int64_t id, std::string_view content, Kind kind);
    void set_kind(int32_t id, Kind kind) { entries_[id].kind = kind; }

    /// -1 when there is none.
    int32_t find(std::string_view content) const;
    Kind kind(int64_t id) const { return id < 0 || id >= size() ? Kind::absent : entries_[id].kind; }
    std::string_view content(int32_t id) const { return {text_.data() + entries_[id].offset, entries_[id].length}; }
    /// Ids are below this.
    int64_t size() const { return static_cast<int64_t>(entries_.size()); }

private:
    struct Entry {
        uint32_t offset = 0, length = 0;
        Kind kind = Kind::absent;
    };

    void grow();
    TablePlace place_of(std::string_view content) const;

    std::string text_;
    std::vector<Entry> entries_;  // by id
    std::vector<int32_t> slots_;  // open addressing, a power of two, -1 is free
    size_t used_ = 0;
    int64_t ids_max_ = limits::vocabulary_max;
};

}  // namespace rondo

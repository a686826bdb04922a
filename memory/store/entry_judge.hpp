#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "config/result.hpp"
#include "memory/store/manifest.hpp"
#include "memory/store/segments.hpp"
#include "memory/store/stored_record.hpp"

/// What the manifest's entries of records are worth, and the places that they name. A start and `rondo inspect store`
/// both ask here, so that the one removes what the other calls lost. Plain: no byte of a record is read.
namespace rondo {

struct JudgedEntry {
    enum class Is : uint8_t {
        whole,
        foreign,  ///< of another kind of KV or of another version: it stays, and only who wrote it can prove it
        broken,   ///< it cannot be true: the next start removes it
    };
    Is is = Is::broken;
    const char* why = "";  ///< it is broken
    ManifestEntry entry;   ///< where it cannot be read, the record's name alone
};

class EntryJudge {
public:
    /// `kind` is a checksum of this process's kind of KV. Without one no kind is foreign.
    explicit EntryJudge(std::optional<uint64_t> kind) : kind_(kind) {}
    /// The key and the value of a record's entry.
    JudgedEntry judge(std::string_view key, std::string_view value) const;
    /// All of the manifest's, in order of the names.
    Status judge_all(const Manifest& manifest, const std::function<void(JudgedEntry)>& told) const;

private:
    bool is_foreign(const ManifestEntry& entry) const;

    std::optional<uint64_t> kind_;
};

/// Judges the places of records, which are asked in ascending order.
class PlaceJudge {
public:
    /// Why no record can lie there, in a segment that ends at `end`. Null: one lies there, and none behind it begins
    /// within it.
    const char* why_not(const RecordPlace& place, uint64_t end);

private:
    RecordPlace last_;
};

}  // namespace rondo

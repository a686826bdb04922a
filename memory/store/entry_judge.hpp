#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

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
        foreign,    ///< of another kind of KV or of another version: it stays, and only who wrote it can prove it
        left_over,  ///< of a tenant who was forgotten since: the next start removes it
        broken,     ///< it cannot be true: the next start removes it
    };
    Is is = Is::broken;
    const char* why = "";  ///< it is broken
    ManifestEntry entry;   ///< where it cannot be read, the record's name alone
};

class EntryJudge {
public:
    /// Of tenants, 0 where there is none: what a tenant had before he was forgotten is of an earlier one.
    using Epochs = std::map<StoreName, uint64_t>;
    static Result<Epochs> epochs_in(const Manifest& manifest);

    /// `kind` is a checksum of this process's kind of KV. Without one no kind is foreign.
    EntryJudge(Epochs epochs, std::optional<uint64_t> kind) : epochs_(std::move(epochs)), kind_(kind) {}
    /// The key and the value of a record's entry.
    JudgedEntry judge(std::string_view key, std::string_view value) const;
    /// All of the manifest's, in order of the names.
    Status judge_all(const Manifest& manifest, const std::function<void(JudgedEntry)>& told) const;

private:
    bool is_foreign(const ManifestEntry& entry) const;

    Epochs epochs_;
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

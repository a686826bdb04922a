#include "memory/store/stored_record.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "config/limits.hpp"
#include "memory/store/byte_io.hpp"

namespace rondo {

namespace {

/// Raised where KV that was stored so far must not be found again; it is another kind's then, which goes first. 2:
/// until 2026-11-26 what a method had left keys out of could be stored as exact, and names did not tell a method's
/// settings.
constexpr uint32_t trusted_since = 2;

StoreName take_name(RecordReader& from) {
    StoreName name{};
    if (const auto bytes = from.take(name.size()); !bytes.empty()) std::ranges::copy(bytes, name.begin());
    return name;
}

/// Of whatever version it is. The index and who reads it rely on this, and they have other versions' entries, too.
bool can_be_true(const StoredRecord& record) {
    return record.tokens > 0 && record.layers >= 0 && record.tokens_before >= 0 &&
           record.tokens_before <= INT64_MAX - record.tokens && record.before != record.name &&
           std::isfinite(record.saved_seconds);
}

}  // namespace

uint64_t checksum_of_kind(const KvKind& kind) {
    RecordWriter out;
    for (const uint32_t number : {trusted_since, ManifestEntry::version_now, RecordHeader::version}) out.put(number);
    out.put(std::span<const std::byte>(kind.model));
    out.put(static_cast<uint8_t>(kind.dtype));
    for (const int32_t number : {kind.layers, kind.kv_heads, kind.head_dim}) out.put(number);
    if (kind.lower_layers != 0) out.put(kind.lower_layers);
    return checksum_of(out.bytes());
}

std::vector<std::byte> write_stored_record(const ManifestEntry& entry) {
    const StoredRecord& record = entry.record;
    RecordWriter out;
    out.put(ManifestEntry::version_now);
    out.put(entry.kind);
    for (const StoreName* name : {&record.name, &record.before, &record.tenant})
        out.put(std::span<const std::byte>(*name));
    out.put(static_cast<uint8_t>(record.group));
    out.put(static_cast<uint8_t>(record.exactness));
    out.put(record.tokens_before);
    out.put(record.tokens);
    out.put(record.layers);
    out.put(uint64_t{0});  // no meaning in this version, and not looked at
    for (const uint64_t number : {record.place.segment, record.place.offset, record.place.bytes}) out.put(number);
    out.put(std::bit_cast<uint64_t>(record.saved_seconds));
    out.put(record.used_at);
    out.put(static_cast<uint32_t>(record.waypoints.size()));
    for (const StoreName& waypoint : record.waypoints) out.put(std::span<const std::byte>(waypoint));
    out.put(checksum_of(out.bytes()));
    return out.take();
}

Result<ManifestEntry> read_stored_record(std::span<const std::byte> bytes) {
    const Error damaged = make_error(ErrorCode::corrupt, "an entry of the store's manifest is damaged");
    const size_t summed = bytes.size() - std::min(bytes.size(), sizeof(uint64_t));
    if (RecordReader(bytes.subspan(summed)).take<uint64_t>() != checksum_of(bytes.first(summed))) return damaged;
    RecordReader in(bytes.first(summed));
    ManifestEntry entry;
    entry.version = in.take<uint32_t>();
    StoredRecord& record = entry.record;
    entry.kind = in.take<uint64_t>();
    for (StoreName* name : {&record.name, &record.before, &record.tenant}) *name = take_name(in);
    const auto group = in.take<uint8_t>(), exactness = in.take<uint8_t>();
    record.tokens_before = in.take<int64_t>();
    record.tokens = in.take<int32_t>();
    record.layers = in.take<int32_t>();
    in.take<uint64_t>();
    for (uint64_t* number : {&record.place.segment, &record.place.offset, &record.place.bytes})
        *number = in.take<uint64_t>();
    record.saved_seconds = std::bit_cast<double>(in.take<uint64_t>());
    record.used_at = in.take<int64_t>();
    if (!in.is_whole() || !can_be_true(record)) return damaged;
    if (entry.version != ManifestEntry::version_now) return entry;
    const auto waypoints = in.take<uint32_t>();
    if (waypoints > in.left() / sizeof(StoreName)) return damaged;
    for (uint32_t i = 0; i < waypoints; ++i) record.waypoints.push_back(take_name(in));
    if (!in.is_whole() || in.left() > 0) return damaged;
    const bool possible = group <= 1 && exactness <= 1 && record.layers > 0 &&
                          record.tokens_before < limits::context_tokens_max &&
                          record.tokens <= limits::context_tokens_max && record.saved_seconds >= 0.0;
    if (!possible) return damaged;
    record.group = static_cast<LayerGroup>(group);
    record.exactness = static_cast<Exactness>(exactness);
    return entry;
}

StoreName store_name(const std::optional<StoreKeys>& keys, std::string_view use, std::span<const std::byte> bytes) {
    if (keys) {
        const auto name = keys->name(use, bytes);
        return name ? *name : StoreName{};
    }
    const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), XXH3_64bits(use.data(), use.size()));
    StoreName name{};
    std::memcpy(name.data(), &hash.low64, sizeof(hash.low64));
    std::memcpy(name.data() + sizeof(hash.low64), &hash.high64, sizeof(hash.high64));
    return name;
}

}  // namespace rondo

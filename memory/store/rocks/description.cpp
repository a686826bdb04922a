#include "memory/store/rocks/description.hpp"

#include <algorithm>
#include <utility>

#include "memory/store/rocks/byte_cursor.hpp"
#include "memory/store/rocks/log_file.hpp"

namespace rondo {

namespace {

constexpr std::string_view order = "leveldb.BytewiseComparator";

// Each says what follows.
enum Tag : uint64_t {
    comparator = 1,
    log_number = 2,
    next_file = 3,
    last_sequence = 4,
    compaction_cursor = 5,
    table_removed = 6,
    log_before = 9,
    log_to_keep = 10,
    table_added = 103,
    family = 200,
    families_max = 203,
    in_group = 300,
    to_be_skipped = 1 << 13,  // a bit of all that whoever does not know it may skip
};
constexpr uint64_t last_field = 1;

/// Without what stands behind it: a number and a kind.
std::string take_key(ByteCursor& in) {
    const std::string_view key = in.sized();
    return std::string(key.substr(0, key.size() - std::min(key.size(), sizeof(uint64_t))));
}

void take_added_table(ByteCursor& in, RocksFiles& files) {
    in.varint();  // its level
    const uint64_t number = in.varint();
    in.varint();  // its length
    RocksFiles::Table table;
    table.first = take_key(in);
    table.last = take_key(in);
    in.varint();  // of its first change
    table.last_sequence = in.varint();
    while (in.is_whole() && in.varint() != last_field) in.sized();
    files.tables[number] = std::move(table);
}

bool apply(std::string_view change, RocksFiles& files) {
    ByteCursor in(change);
    while (!in.is_empty() && in.is_whole()) {
        const uint64_t tag = in.varint();
        switch (tag) {
            case Tag::log_number:
                files.first_log = in.varint();
                break;
            case Tag::table_added:
                take_added_table(in, files);
                break;
            case Tag::table_removed:
                in.varint();  // its level
                files.tables.erase(in.varint());
                break;
            case Tag::comparator:
                in.sized();
                break;
            case Tag::compaction_cursor:
                in.varint();
                in.sized();
                break;
            case Tag::next_file:
            case Tag::last_sequence:
            case Tag::log_before:
            case Tag::log_to_keep:
            case Tag::families_max:
            case Tag::in_group:
                in.varint();
                break;
            case Tag::family:
                if (in.varint() != 0) return false;  // a manifest has one
                break;
            default:
                if ((tag & Tag::to_be_skipped) == 0) return false;
                in.sized();
        }
    }
    return in.is_whole();
}

void put_varint(std::string& out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
}

}  // namespace

std::optional<RocksFiles> read_description(std::string_view file) {
    RocksFiles found;
    bool known = true, any = false;
    const bool whole = each_log_record(file, [&](std::string_view change) {
        known = known && apply(change, found);
        any = true;
    });
    if (!whole || !known || !any) return std::nullopt;
    return found;
}

std::string write_description(uint64_t log, uint64_t free) {
    std::string change;
    put_varint(change, Tag::comparator);
    put_varint(change, order.size());
    change += order;
    for (const auto& [tag, value] :
         {std::pair<uint64_t, uint64_t>{Tag::log_number, log}, {Tag::next_file, free}, {Tag::last_sequence, 0}}) {
        put_varint(change, tag);
        put_varint(change, value);
    }
    std::string file;
    append_log_record(file, change);
    return file;
}

}  // namespace rondo

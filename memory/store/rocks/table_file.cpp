#include "memory/store/rocks/table_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "memory/store/disk_queue.hpp"
#include "memory/store/rocks/byte_cursor.hpp"
#include "memory/store/rocks/snappy.hpp"

namespace rondo {

namespace {

constexpr uint64_t magic = 0x88e241b785f4cff7, old_magic = 0xdb4775248b80fb57;
constexpr size_t footer_bytes = 53, old_footer_bytes = 48, handles_bytes = 40;
constexpr size_t trailer_bytes = 5;  // how a block is compressed, and its checksum
constexpr uint32_t format_max = 5, format_with_differences = 4;
constexpr char as_it_is = 0, by_snappy = 1;
constexpr uint64_t sequence_bits = 8;  // from there on, behind the kind of an entry

/// A block's entries and, at its end, where some of them begin.
std::optional<std::string_view> entries_of(std::string_view block) {
    uint32_t restarts = 0;
    if (block.size() < sizeof(restarts)) return std::nullopt;
    std::memcpy(&restarts, block.data() + block.size() - sizeof(restarts), sizeof(restarts));
    if (restarts > (block.size() - sizeof(restarts)) / sizeof(restarts)) return std::nullopt;
    return block.substr(0, block.size() - sizeof(restarts) * (size_t{restarts} + 1));
}

/// A key has what it shares with the one before it, and more.
bool next_key(ByteCursor& in, uint64_t shared, uint64_t more, std::string& key) {
    const std::string_view own = in.take(more);
    if (!in.is_whole() || shared > key.size()) return false;
    key.resize(shared);
    key += own;
    return true;
}

/// False where the block is no such block; some entries may have been told by then.
bool each_pair(std::string_view block, const std::function<bool(std::string_view key, std::string_view value)>& each) {
    const auto entries = entries_of(block);
    if (!entries) return false;
    ByteCursor in(*entries);
    std::string key;
    while (!in.is_empty()) {
        const uint64_t shared = in.varint(), more = in.varint(), bytes = in.varint();
        if (!next_key(in, shared, more, key)) return false;
        const std::string_view value = in.take(bytes);
        if (!in.is_whole() || !each(key, value)) return false;
    }
    return true;
}

/// Of a block of entries: a key has its sequence number and its kind behind it.
bool each_entry_of(std::string_view block, const TableFile::Each& each) {
    return each_pair(block, [&](std::string_view key, std::string_view value) {
        uint64_t behind = 0;
        if (key.size() < sizeof(behind)) return false;
        std::memcpy(&behind, key.data() + key.size() - sizeof(behind), sizeof(behind));
        const uint64_t kind = behind & 0xff;
        if (kind > 1) return false;  // of the kinds a manifest has removals and values
        if (each) each({key.substr(0, key.size() - sizeof(behind)), behind >> sequence_bits, kind == 0, value});
        return true;
    });
}

/// What the kernel remembers is no proof that the disk reads.
bool reads_byte(int file, uint64_t at) {
    char byte = 0;
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    return pread(file, &byte, 1, static_cast<off_t>(at)) == 1;
}

/// The file that each database has beside its tables.
bool reads_current(const std::string& table) {
    const std::string path = table.substr(0, table.rfind('/') + 1) + "CURRENT";
    const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const bool reads = file >= 0 && reads_byte(file, 0);
    if (file >= 0) close(file);
    return reads;
}

/// Null: the block is compressed in another way, or it is damaged.
std::optional<std::string> expanded(std::string_view block, char compression) {
    if (compression == as_it_is) return std::string(block);
    if (compression != by_snappy) return std::nullopt;
    auto bytes = expand_snappy(block);
    return bytes ? std::optional(std::move(*bytes)) : std::nullopt;
}

}  // namespace

Result<TableFile> TableFile::open(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return disk_error(errno, (path + ": cannot open").c_str());
    TableFile made(path, file, 0);
    struct stat what = {};
    if (fstat(file, &what) != 0) return disk_error(errno, (path + ": cannot look").c_str());
    made.bytes_ = static_cast<uint64_t>(what.st_size);
    return made;
}

TableFile::~TableFile() {
    if (file_ >= 0) close(file_);
}

TableFile::TableFile(TableFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), bytes_(other.bytes_) {}

Error TableFile::damaged(const std::string& what) const {
    return make_error(ErrorCode::corrupt, path_ + ": " + what);
}

/// Of bytes that lie within the file.
Result<std::string> TableFile::read(uint64_t offset, uint64_t bytes) const {
    std::string found(bytes, '\0');
    bool again = false;
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t count = pread(file_, found.data() + done, bytes - done, static_cast<off_t>(offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EIO && !std::exchange(again, true)) continue;
        if (count < 0 && errno == EIO && reads_others()) return damaged("the disk does not read some of it");
        if (count < 0) return disk_error(errno, (path_ + ": cannot read").c_str());
        if (count == 0) return damaged("the file ends too early");
        done += static_cast<uint64_t>(count);
    }
    return found;
}

/// Whether the disk reads the file's first or last bytes, or another file: a table may lie in one sector. A disk that
/// reads nothing may come back.
bool TableFile::reads_others() const {
    return reads_byte(file_, 0) || reads_byte(file_, bytes_ - 1) || reads_current(path_);
}

/// All up to the first that the disk does not read.
Result<std::string> TableFile::read_beginning() const {
    constexpr uint64_t sector = 4096;
    std::string found;
    while (found.size() < bytes_) {
        const auto more = read(found.size(), std::min(sector, bytes_ - found.size()));
        if (!more && more.error().code == ErrorCode::corrupt) break;
        if (!more) return more.error();
        found += *more;
    }
    return found;
}

/// Its last bytes. They have no checksum: what they lead to has one.
Result<TableFile::Footer> TableFile::footer() const {
    if (bytes_ < footer_bytes) return damaged("the file is too short for a table");
    RONDO_ASSIGN(const std::string bytes, read(bytes_ - footer_bytes, footer_bytes));
    const std::string_view all = bytes;
    const auto found = ByteCursor(all.substr(footer_bytes - sizeof(uint64_t))).fixed<uint64_t>();
    if (found != magic && found != old_magic) return damaged("the footer is damaged");
    Footer made;
    std::string_view handles = all.substr(footer_bytes - old_footer_bytes);
    made.checksum = BlockChecksum::crc32c;
    if (found == magic) {
        handles = all.substr(1, handles_bytes);
        made.checksum = static_cast<BlockChecksum>(all[0]);
        made.format = ByteCursor(all.substr(1 + handles_bytes)).fixed<uint32_t>();
        if (made.format > format_max) return make_error(ErrorCode::unsupported, path_ + ": a table of another format");
        const bool known = made.checksum >= BlockChecksum::crc32c && made.checksum <= BlockChecksum::xxh3;
        if (made.format == 0 || !known) return damaged("the footer is damaged");
    }
    ByteCursor in(handles);
    for (Block* block : {&made.names, &made.index}) {
        block->offset = in.varint();
        block->bytes = in.varint();
    }
    if (!in.is_whole()) return damaged("the footer is damaged");
    return made;
}

/// Proved, and no longer compressed.
Result<std::string> TableFile::block(const Block& where, BlockChecksum checksum, const char* name) const {
    const auto wrong = [&](const char* what) { return damaged(std::string("the block of ") + name + ' ' + what); };
    if (bytes_ < trailer_bytes || where.bytes > bytes_ - trailer_bytes ||
        where.offset > bytes_ - trailer_bytes - where.bytes)
        return wrong("must lie within the file");
    RONDO_ASSIGN(const std::string found, read(where.offset, where.bytes + trailer_bytes));
    const std::string_view bytes = std::string_view(found).substr(0, where.bytes);
    const char compression = found[where.bytes];
    if (ByteCursor(std::string_view(found).substr(where.bytes + 1)).fixed<uint32_t>() !=
        block_checksum(checksum, bytes, compression))
        return wrong("is damaged");
    if (compression != as_it_is && compression != by_snappy)
        return make_error(ErrorCode::unsupported,
                          path_ + ": a table with blocks compressed by other means than Snappy");
    auto all = expanded(bytes, compression);
    if (!all) return wrong("cannot be expanded");
    return std::move(*all);
}

Status TableFile::prove() const {
    RONDO_ASSIGN(const Footer all, footer());
    RONDO_ASSIGN(const std::string names, block(all.names, all.checksum, "names"));
    Status end;
    const bool whole = each_pair(names, [&](std::string_view, std::string_view value) {
        ByteCursor in(value);
        Block named;
        named.offset = in.varint();
        named.bytes = in.varint();
        end = in.is_whole() ? block(named, all.checksum, "properties").status() : Status(damaged("a name is damaged"));
        return end.is_ok();
    });
    RONDO_TRY(end);
    if (!whole) return damaged("the block of names is damaged");
    return entry_blocks(all).status();
}

/// Where the blocks of entries lie: one behind the other. A newer format has a difference of lengths alone where a key
/// shares bytes. Which format it is nothing proves: of another one the places would not fit.
Result<std::vector<TableFile::Block>> TableFile::entry_blocks(const Footer& footer) const {
    RONDO_ASSIGN(const std::string index, block(footer.index, footer.checksum, "places"));
    const auto entries = entries_of(index);
    if (!entries) return damaged("the block of places is damaged");
    const bool differences = footer.format >= format_with_differences;
    std::vector<Block> found;
    std::string key;
    ByteCursor in(*entries);
    while (!in.is_empty()) {
        const uint64_t shared = in.varint(), more = in.varint();
        if (!differences) in.varint();  // the length of what follows the key
        if (!next_key(in, shared, more, key)) return damaged("the block of places is damaged");
        Block next;
        if (differences && shared > 0 && !found.empty()) {
            const uint64_t zigzag = in.varint();
            next.offset = found.back().offset + found.back().bytes + trailer_bytes;
            next.bytes = found.back().bytes + ((zigzag >> 1) ^ (~(zigzag & 1) + 1));
        } else {
            next.offset = in.varint();
            next.bytes = in.varint();
        }
        const uint64_t begin = found.empty() ? 0 : found.back().offset + found.back().bytes + trailer_bytes;
        if (!in.is_whole() || next.offset != begin) return damaged("the block of places is damaged");
        found.push_back(next);
    }
    return found;
}

Result<int64_t> TableFile::each_entry(const Each& each, const Lost& lost) const {
    const auto all = footer();
    auto blocks = all ? entry_blocks(*all) : Result<std::vector<Block>>(all.error());
    if (!blocks) {
        const ErrorCode code = blocks.error().code;
        if (code != ErrorCode::corrupt && code != ErrorCode::unsupported) return blocks.error();  // it was not read
        RONDO_ASSIGN(const bool found, search_entries(each, lost));
        // A table of another kind must not be taken for an empty one.
        if (!found && code == ErrorCode::unsupported) return blocks.error();
        return 1;
    }
    int64_t damaged_blocks = 0;
    KeysBetween between;
    bool any_lost = false;
    for (const Block& where : *blocks) {
        auto found = block(where, all->checksum, "entries");
        if (!found && found.error().code != ErrorCode::corrupt) return found.error();
        if (!found || !each_entry_of(*found, nullptr)) {
            ++damaged_blocks;
            any_lost = true;
            continue;
        }
        bool is_first = true;
        each_entry_of(*found, [&](const RocksEntry& entry) {
            if (std::exchange(is_first, false) && std::exchange(any_lost, false)) {
                between.before = entry.key;
                lost(between);
                between.before.reset();
            }
            between.after = entry.key;
            each(entry);
        });
    }
    if (any_lost) lost(between);
    return damaged_blocks;
}

/// Blocks of entries are the first in the file, one behind the other, and each ends where its checksum says so. False:
/// there are none. Whether there are more behind the last one nobody knows.
Result<bool> TableFile::search_entries(const Each& each, const Lost& lost) const {
    RONDO_ASSIGN(const std::string file, read_beginning());
    const std::string_view all = file;
    KeysBetween between;
    const Each take = [&](const RocksEntry& entry) {
        between.after = entry.key;
        each(entry);
    };
    // Where the next one ends that begins there; 0: nowhere.
    const auto end_of = [&](size_t begin, BlockChecksum kind) -> size_t {
        GrowingChecksum sum(kind);
        size_t summed = begin;
        for (size_t end = begin; end + trailer_bytes <= all.size(); ++end) {
            if (all[end] != as_it_is && all[end] != by_snappy) continue;
            sum.add(all.substr(summed, end - summed));
            summed = end;
            if (ByteCursor(all.substr(end + 1)).fixed<uint32_t>() != sum.with(all[end])) continue;
            const auto bytes = expanded(all.substr(begin, end - begin), all[end]);
            if (!bytes || bytes->empty() || !each_entry_of(*bytes, nullptr)) continue;
            each_entry_of(*bytes, take);
            return end + trailer_bytes;
        }
        return 0;
    };
    for (const auto kind : {BlockChecksum::xxh3, BlockChecksum::crc32c, BlockChecksum::xxh64, BlockChecksum::xxh32}) {
        size_t begin = 0;
        while (const size_t end = end_of(begin, kind)) begin = end;
        if (between.after) break;
    }
    lost(between);
    return between.after.has_value();
}

}  // namespace rondo

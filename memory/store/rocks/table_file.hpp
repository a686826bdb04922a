#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "memory/store/rocks/block_checksum.hpp"

namespace rondo {

/// A pair of a table, or that a key was removed.
struct RocksEntry {
    std::string_view key;
    uint64_t sequence = 0;  ///< of the change that made it; of a key the highest one holds
    bool removed = false;
    std::string_view value;
};

/// Keys between two others; null: there is no other.
struct KeysBetween {
    std::optional<std::string> after, before;
};

/// A table of RocksDB's, read without RocksDB: that asserts on some damage. Nothing that the file says is used before
/// it is proved, and nothing lies outside the file. Formats 1 to 5, and the one before them.
class TableFile {
public:
    static Result<TableFile> open(const std::string& path);
    ~TableFile();
    TableFile(TableFile&& other) noexcept;
    TableFile& operator=(TableFile&&) = delete;

    /// All but the blocks of entries, which RocksDB proves itself: `corrupt` where something is damaged, `unsupported`
    /// where this is another kind of table.
    Status prove() const;

    /// Tells what can be read, all entries of whole blocks, and between which of them some are lost. Where the index is
    /// damaged, blocks are found by their checksums, up to the first that is damaged. How many blocks are damaged.
    using Each = std::function<void(const RocksEntry&)>;
    using Lost = std::function<void(const KeysBetween&)>;
    Result<int64_t> each_entry(const Each& each, const Lost& lost) const;

private:
    struct Block {
        uint64_t offset = 0, bytes = 0;  // without its trailer
    };
    struct Footer {
        BlockChecksum checksum = BlockChecksum::none;
        uint32_t format = 0;
        Block names, index;  // of other blocks by name, and of entries
    };

    TableFile(std::string path, int file, uint64_t bytes) : path_(std::move(path)), file_(file), bytes_(bytes) {}
    Error damaged(const std::string& what) const;
    Result<std::string> read(uint64_t offset, uint64_t bytes) const;
    bool reads_others() const;
    Result<std::string> read_beginning() const;
    Result<Footer> footer() const;
    Result<std::string> block(const Block& where, BlockChecksum checksum, const char* name) const;
    Result<std::vector<Block>> entry_blocks(const Footer& footer) const;
    Result<bool> search_entries(const Each& each, const Lost& lost) const;

    std::string path_;
    int file_ = -1;
    uint64_t bytes_ = 0;
};

}  // namespace rondo

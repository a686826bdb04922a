#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "memory/store/aligned_bytes.hpp"
#include "memory/store/record_index.hpp"
#include "memory/store/segments.hpp"
#include "memory/store/store_folder.hpp"
#include "memory/store/store_keys.hpp"

namespace rondo {

/// A segment's file for who looks into a store without opening it: reads, waits for the disk, changes nothing.
class SegmentReader {
public:
    static Result<SegmentReader> open(const StoreFolder& folder, uint64_t segment);
    SegmentReader(SegmentReader&& other) noexcept;
    SegmentReader& operator=(SegmentReader&&) = delete;
    ~SegmentReader();

    /// Of the file, and of what it takes on the disk: holes take nothing.
    uint64_t file_bytes() const { return file_bytes_; }
    uint64_t disk_bytes() const { return disk_bytes_; }
    /// corrupt: what is sealed there is lost.
    Result<Segments::Salt> salt() const;
    /// A record's header as it lies there; its entry in the manifest is whole.
    Result<AlignedBytes> header_of(const StoredRecord& record) const;
    /// Whether it was sealed, by whatever key. One that is damaged may be taken for sealed.
    static bool is_sealed(std::span<const std::byte> header);
    /// Whether a record's header, which is opened in place, and all its layers are what was written. Without a key by
    /// checksums.
    Status prove(const StoredRecord& record, std::span<std::byte> header, const SealKey* key) const;

private:
    SegmentReader(uint64_t segment, int file) : segment_(segment), file_(file) {}
    Status read(uint64_t offset, std::span<std::byte> into) const;

    uint64_t segment_;
    int file_;
    uint64_t file_bytes_ = 0, disk_bytes_ = 0;
};

}  // namespace rondo

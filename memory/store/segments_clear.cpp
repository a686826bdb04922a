// How what segments hold leaves the disk: as holes, as zeros, or with the whole file.

#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <set>
#include <utility>

#include "memory/store/aligned_bytes.hpp"
#include "memory/store/segments.hpp"

namespace rondo {

namespace {

/// `may_be_zeros`: what is zeros already is read and not written again.
Status write_zeros(int file, uint64_t offset, uint64_t bytes, bool may_be_zeros) {
    AlignedBytes piece(std::min(bytes, uint64_t{1} << 20));
    bool wrote = false;
    while (bytes > 0) {
        const auto part = piece.span().first(std::min<size_t>(bytes, piece.span().size()));
        const auto at = static_cast<off_t>(offset);
        ssize_t moved = may_be_zeros ? pread(file, part.data(), part.size(), at) : 0;
        const bool is_zeros = moved > 0 && std::ranges::all_of(part.first(static_cast<size_t>(moved)),
                                                               [](std::byte byte) { return byte == std::byte{0}; });
        if (!is_zeros) {
            std::ranges::fill(part, std::byte{0});
            moved = pwrite(file, part.data(), part.size(), at);
            if (moved <= 0) return disk_error(moved < 0 ? errno : EIO, "a segment: cannot write zeros");
            wrote = true;
        }
        offset += static_cast<uint64_t>(moved);
        bytes -= static_cast<uint64_t>(moved);
    }
    if (wrote && fdatasync(file) != 0) return disk_error(errno, "a segment: cannot sync");
    return Status::ok();
}

/// A file that is not to be opened, such as one with another name, says nothing about the disk.
bool is_unopened(const Status& cleared) {
    return cleared.error().code == ErrorCode::invalid_argument;
}

}  // namespace

/// Where no hole can be made, zeros are written; the space comes back with the whole segment then.
Result<bool> Segments::punch(uint64_t segment, uint64_t offset, uint64_t bytes, bool may_be_zeros) {
    RONDO_ASSIGN(const OpenFile file, opened(segment));
    int made = -1;
    do {
        made = fallocate(*file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                         static_cast<off_t>(bytes));
    } while (made != 0 && errno == EINTR);
    if (made == 0) return true;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return disk_error(errno, "a segment: cannot make a hole");
    makes_holes_ = false;
    RONDO_TRY(write_zeros(*file, offset, bytes, may_be_zeros));
    return false;
}

Status Segments::give_back(const RecordPlace& place) {
    const auto found = files_.find(place.segment);
    if (found == files_.end()) return Status::ok();
    File& file = found->second;
    assert(place.bytes + disk_alignment <= file.used);
    file.used -= place.bytes;
    file.dead += place.bytes;
    Status cleared = clear(place);
    if (!cleared) (is_unopened(cleared) ? unopened_ : uncleared_).push_back(place);
    return cleared;
}

Status Segments::clear_again() {
    while (!uncleared_.empty()) {
        const RecordPlace place = uncleared_.front();
        uncleared_.pop_front();
        const Status cleared = clear(place);
        if (cleared) continue;
        (is_unopened(cleared) ? unopened_ : uncleared_).push_back(place);
        if (!is_unopened(cleared)) return cleared;
    }
    static_cast<void>(clear_unopened(1));
    return Status::ok();
}

Status Segments::clear_all_again() {
    const Status cleared = clear_again(), others = clear_unopened(unopened_.size());
    return cleared ? others : cleared;
}

/// The first error. A file that cannot be opened is tried once.
Status Segments::clear_unopened(size_t count) {
    Status first;
    std::set<uint64_t> refused;
    for (count = std::min(count, unopened_.size()); count > 0; --count) {
        const RecordPlace place = unopened_.front();
        unopened_.pop_front();
        if (refused.contains(place.segment)) {
            unopened_.push_back(place);
            continue;
        }
        Status cleared = clear(place);
        if (cleared) continue;
        (is_unopened(cleared) ? unopened_ : uncleared_).push_back(place);
        refused.insert(place.segment);
        if (first) first = std::move(cleared);
    }
    return first;
}

Status Segments::clear(const RecordPlace& place) {
    const auto found = files_.find(place.segment);
    if (found == files_.end()) return Status::ok();
    File& file = found->second;
    if (file.used == disk_alignment && place.segment != writing_) return remove(place.segment);
    const Result<bool> hole = punch(place.segment, place.offset, place.bytes);
    if (!hole) {  // what somebody has removed holds nothing any more
        const Result<bool> there = folder_->has(name_of(place.segment));
        if (!there || *there) return hole.error();
    }
    if (hole && !*hole) return Status::ok();
    file.dead -= place.bytes;
    bytes_ -= place.bytes;
    return Status::ok();
}

/// Those that had to stay when their last record went. A disk that refuses is asked again the next time.
void Segments::remove_empty() {
    for (const uint64_t number : numbers())
        if (number != writing_ && files_[number].used == disk_alignment) static_cast<void>(remove(number));
}

Status Segments::keep_in(uint64_t segment, std::span<const RecordPlace> records) {
    if (records.empty()) return remove(segment);
    File& file = files_[segment];
    uint64_t end = disk_alignment, used = disk_alignment, dead = 0;
    for (const RecordPlace& record : records) {
        if (record.offset > end) {
            RONDO_ASSIGN(const bool hole, punch(segment, end, record.offset - end, true));
            dead += hole ? 0 : record.offset - end;
        }
        end = record.offset + record.bytes;
        used += record.bytes;
    }
    bytes_ -= file.used - used - dead;
    file.used = used;
    file.dead = dead;
    if (file.end == end) return Status::ok();
    file.end = end;
    RONDO_ASSIGN(const OpenFile open, opened(segment));
    return ftruncate(*open, static_cast<off_t>(end)) == 0
               ? Status::ok()
               : Status(disk_error(errno, (name_of(segment) + ": cannot cut").c_str()));
}

Status Segments::keep_only(std::vector<RecordPlace> records) {
    std::ranges::sort(records, {}, [](const RecordPlace& place) { return std::pair(place.segment, place.offset); });
    const std::span<const RecordPlace> all(records);
    for (const uint64_t segment : numbers()) {
        const auto own = std::ranges::equal_range(all, segment, {}, &RecordPlace::segment);
        RONDO_TRY(keep_in(segment, {own.begin(), own.end()}));
    }
    return Status::ok();
}

}  // namespace rondo

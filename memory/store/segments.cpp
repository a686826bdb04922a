#include "memory/store/segments.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "config/checked.hpp"
#include "memory/store/aligned_bytes.hpp"
#include "memory/store/byte_io.hpp"
#include "memory/store/random_bytes.hpp"
#include "memory/store/record_header.hpp"

namespace rondo {

namespace {

constexpr uint64_t magic = 0x0a67'6553'6f64'6e52;  // "RndoSeg" and the end of a line
constexpr uint32_t version = 1;

Error failed(uint64_t segment, const char* what) {
    return disk_error(errno, (Segments::name_of(segment) + ": cannot " + what).c_str());
}

/// Memory that may be written past the kernel's cache.
struct Block {
    alignas(disk_alignment) std::array<std::byte, disk_alignment> bytes{};
};

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

Block header_of(uint64_t segment, const Segments::Salt& salt) {
    RecordWriter out;
    out.put(magic);
    out.put(version);
    out.put(segment);
    out.put(std::span<const std::byte>(salt));
    out.put(checksum_of(out.bytes()));
    Block block;
    std::ranges::copy(out.bytes(), block.bytes.begin());
    return block;
}

/// A file that is not to be opened, such as one with another name, says nothing about the disk.
bool is_unopened(const Status& cleared) {
    return cleared.error().code == ErrorCode::invalid_argument;
}

}  // namespace

std::string Segments::name_of(uint64_t segment) {
    char name[32];
    std::snprintf(name, sizeof(name), "kv-%016llx", static_cast<unsigned long long>(segment));
    return name;
}

uint64_t Segments::number_of(const std::string& name) {
    unsigned long long number = 0;
    char more = 0;
    if (std::sscanf(name.c_str(), "kv-%16llx%c", &number, &more) != 1) return 0;
    return name_of(number) == name ? number : 0;
}

bool Segments::fits(const RecordPlace& place, uint64_t end) {
    return place.offset >= disk_alignment && place.bytes > 0 && place.offset % disk_alignment == 0 &&
           place.bytes % disk_alignment == 0 && place.bytes <= end && place.offset <= end - place.bytes;
}

Result<Segments::Salt> Segments::salt_in(uint64_t segment, std::span<const std::byte> header) {
    Salt salt{};
    const bool whole = header.size() == disk_alignment;
    if (whole) std::ranges::copy(header.subspan(20, salt.size()), salt.begin());
    if (whole && std::ranges::equal(header, header_of(segment, salt).bytes)) return salt;
    return make_error(ErrorCode::corrupt, name_of(segment) + ": the header is damaged");
}

Segments::~Segments() {
    std::unique_lock lock(under_way_->mutex);
    under_way_->none.wait(lock, [this] { return under_way_->count == 0; });
}

Result<std::unique_ptr<Segments>> Segments::open(const StoreFolder& folder, DiskQueue& queue, const Options& options) {
    std::unique_ptr<Segments> made(new Segments(folder, queue, options));
    RONDO_ASSIGN(const std::vector<std::string> names, folder.names());
    for (const std::string& name : names) {
        const uint64_t segment = number_of(name);
        if (segment == 0) continue;
        made->last_ = std::max(made->last_, segment);
        RONDO_TRY(made->take_over(segment));
    }
    return made;
}

/// A file system that has no O_DIRECT says so when a file is opened.
Result<Segments::OpenFile> Segments::open_file(const std::string& name, int flags) {
    Result<int> opened = -1;
    if (direct_) {
        opened = folder_->open_file(name, flags | O_DIRECT);
        direct_ = opened || errno != EINVAL;
    }
    if (!direct_) opened = folder_->open_file(name, flags & ~O_EXCL);
    if (!opened) return opened.error();
    return OpenFile(new int(*opened), [](const int* file) {
        close(*file);
        delete file;
    });
}

/// A store may have more files than a process may open.
Result<Segments::OpenFile> Segments::opened(uint64_t segment) {
    if (const OpenFile& file = files_.at(segment).file; file != nullptr) {
        const auto at = std::ranges::find(open_, segment);
        std::rotate(at, at + 1, open_.end());
        return file;
    }
    RONDO_ASSIGN(OpenFile file, open_file(name_of(segment), O_RDWR));
    keep_open(segment, file);
    return file;
}

void Segments::keep_open(uint64_t segment, OpenFile file) {
    const auto at = std::ranges::find_if(open_, [this](uint64_t other) { return other != writing_; });
    if (open_.size() >= options_.open_files_max && at != open_.end()) {
        files_.at(*at).file.reset();
        open_.erase(at);
    }
    files_.at(segment).file = std::move(file);
    open_.push_back(segment);
}

/// One that ends within its header holds nothing: a crash came before its first record. Whose header is damaged keeps
/// its records, which have proofs of their own.
Status Segments::take_over(uint64_t segment) {
    File& made = files_[segment];
    RONDO_ASSIGN(const OpenFile file, opened(segment));
    struct stat what = {};
    if (fstat(*file, &what) != 0) return failed(segment, "look");
    made.end = made.used = static_cast<uint64_t>(what.st_size);
    bytes_ += made.used;
    const ssize_t got = read_salt(segment, *file, made);
    return got >= 0 && got < static_cast<ssize_t>(disk_alignment) ? remove(segment) : Status::ok();
}

ssize_t Segments::read_salt(uint64_t segment, int from, File& file) {
    Block found;
    ssize_t got = -1;
    for (int tries = 0; tries < 2 && got < 0; ++tries) got = pread(from, found.bytes.data(), found.bytes.size(), 0);
    file.has_unread_salt = got < 0;
    if (got < static_cast<ssize_t>(found.bytes.size())) return got;
    if (const auto salt = salt_in(segment, found.bytes); salt) file.salt = *salt;
    return got;
}

Status Segments::begin_segment() {
    const uint64_t segment = last_ + 1;
    Salt salt{};
    if (!fill_random(salt)) return make_error(ErrorCode::internal, "no random numbers for a segment's salt");
    RONDO_ASSIGN(const OpenFile file, open_file(name_of(segment), O_RDWR | O_CREAT | O_EXCL));
    last_ = segment;
    files_[segment] = {nullptr, disk_alignment, disk_alignment, 0, salt};
    keep_open(segment, file);
    bytes_ += disk_alignment;
    const Block header = header_of(segment, salt);
    Status made = Status::ok();
    if (pwrite(*file, header.bytes.data(), header.bytes.size(), 0) != static_cast<ssize_t>(header.bytes.size()))
        made = failed(segment, "write");
    if (made) made = folder_->sync();
    if (!made) {
        static_cast<void>(remove(segment));
        return made;
    }
    writing_ = segment;
    return Status::ok();
}

Result<RecordPlace> Segments::append(uint64_t bytes) {
    assert(bytes > 0 && bytes % disk_alignment == 0);
    const auto found = files_.find(writing_);
    if (found == files_.end() || found->second.end + bytes > std::max(options_.segment_bytes, bytes)) {
        RONDO_TRY(begin_segment());
        remove_empty();
    }
    File& file = files_[writing_];
    const RecordPlace place{writing_, file.end, bytes};
    file.end += bytes;
    file.used += bytes;
    bytes_ += bytes;
    return place;
}

void Segments::write(const RecordPlace& place, uint64_t at, std::span<const std::byte> bytes,
                     std::function<void(Status)> done) {
    assert(at + bytes.size() <= place.bytes);
    const std::span<std::byte> from(const_cast<std::byte*>(bytes.data()), bytes.size());
    submit(place.segment, {DiskWork::Kind::write, -1, place.offset + at, {from}, std::move(done)});
}

void Segments::read(const RecordPlace& place, uint64_t at, MemoryParts into, std::function<void(Status)> done) {
    assert(at + bytes_of(into) <= place.bytes);
    submit(place.segment, {DiskWork::Kind::read, -1, place.offset + at, std::move(into), std::move(done)});
}

void Segments::sync(const RecordPlace& place, std::function<void(Status)> done) {
    submit(place.segment, {DiskWork::Kind::sync, -1, 0, {}, std::move(done)});
}

void Segments::submit(uint64_t segment, DiskWork work) {
    const auto file = opened(segment);
    if (!file) return work.done(file.error());
    work.file = **file;
    {
        const std::lock_guard lock(under_way_->mutex);
        ++under_way_->count;
    }
    work.done = [under_way = under_way_, done = std::move(work.done), file = *file](Status end) {
        done(std::move(end));
        const std::lock_guard lock(under_way->mutex);
        if (--under_way->count == 0) under_way->none.notify_all();
    };
    queue_->submit(std::move(work));
}

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

Status Segments::remove(uint64_t segment) {
    RONDO_TRY(folder_->remove(name_of(segment)));
    const auto found = files_.find(segment);
    bytes_ -= found->second.used + found->second.dead;
    std::erase(open_, segment);
    files_.erase(found);
    if (segment == writing_) writing_ = 0;
    return Status::ok();
}

void Segments::leave(uint64_t segment) {
    if (segment == writing_) writing_ = 0;
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
    if (unopened_.empty()) return Status::ok();
    const RecordPlace place = unopened_.front();  // one each time
    unopened_.pop_front();
    if (const Status cleared = clear(place); !cleared) (is_unopened(cleared) ? unopened_ : uncleared_).push_back(place);
    return Status::ok();
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

uint64_t Segments::bytes_in(uint64_t segment) const {
    const File& file = files_.at(segment);
    return file.used + file.dead;
}

std::vector<uint64_t> Segments::numbers() const {
    std::vector<uint64_t> numbers;
    for (const auto& [number, file] : files_) numbers.push_back(number);
    return numbers;
}

bool Segments::is_there() const {
    const auto found = files_.find(writing_);
    struct stat what = {};
    return found == files_.end() || fstat(*found->second.file, &what) != 0 || what.st_nlink > 0;
}

uint64_t Segments::end_of(uint64_t segment) const {
    const auto found = files_.find(segment);
    return found == files_.end() ? 0 : found->second.end;
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
    return ftruncate(*open, static_cast<off_t>(end)) == 0 ? Status::ok() : Status(failed(segment, "cut"));
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

Result<Segments::Salt> Segments::salt(uint64_t segment) {
    const auto found = files_.find(segment);
    if (found == files_.end()) return make_error(ErrorCode::not_found, name_of(segment) + ": there is no such segment");
    if (found->second.has_unread_salt) {
        RONDO_ASSIGN(const OpenFile file, opened(segment));
        if (read_salt(segment, *file, found->second) < 0) return failed(segment, "read the header");
    }
    if (found->second.salt) return *found->second.salt;
    return make_error(ErrorCode::corrupt, name_of(segment) + ": the header is damaged");
}

}  // namespace rondo

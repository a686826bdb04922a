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

#include "model/files/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace rondo {

namespace {

constexpr uintptr_t read_ahead_step_bytes = 128 << 10;

/// Closes a descriptor on every way out.
struct Descriptor {
    int fd = -1;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

Error refused(const std::string& name, const char* what) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::not_found : ErrorCode::io;
    return make_error(code, name + ": cannot " + what + ": " + std::strerror(errno));
}

uintptr_t page_bytes() {
    return static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
}

/// A regular file; `size` becomes its bytes.
Status open_regular(const std::filesystem::path& path, const std::string& name, Descriptor& file, size_t& size) {
    // Without O_NONBLOCK, opening a FIFO would wait for a writer for ever.
    file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file.fd < 0) return refused(name, "open");
    struct stat info {};
    if (::fstat(file.fd, &info) != 0) return refused(name, "stat");
    if (!S_ISREG(info.st_mode)) return make_error(ErrorCode::io, name + ": not a regular file");
    size = static_cast<size_t>(info.st_size);
    return Status::ok();
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path, const std::string& name) {
    Descriptor file;
    size_t size = 0;
    RONDO_TRY(open_regular(path, name, file, size));
    if (size == 0) return MappedFile({}, false);
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (address == MAP_FAILED) return refused(name, "map");
    return MappedFile({static_cast<const std::byte*>(address), size}, true);
}

MappedFile MappedFile::over(std::span<const std::byte> bytes) {
    return {bytes, false};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), mapped_(std::exchange(other.mapped_, false)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

MappedFile::~MappedFile() {
    if (mapped_) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool MappedFile::contains(std::span<const std::byte> part) const {
    const auto begin = reinterpret_cast<uintptr_t>(bytes_.data());
    const auto address = reinterpret_cast<uintptr_t>(part.data());
    return address >= begin && address - begin <= bytes_.size() && part.size() <= bytes_.size() - (address - begin);
}

void MappedFile::will_need(std::span<const std::byte> part) const {
    if (!mapped_ || part.empty() || !contains(part)) return;
    const auto address = reinterpret_cast<uintptr_t>(part.data());
    const uintptr_t begin = address / page_bytes() * page_bytes();
    // The kernel reads no more than a device's read-ahead for one call, so a large range is asked for piece by piece.
    const uintptr_t end = address + part.size();
    for (uintptr_t at = begin; at < end; at += read_ahead_step_bytes) {
        ::madvise(reinterpret_cast<void*>(at), std::min<uintptr_t>(read_ahead_step_bytes, end - at), MADV_WILLNEED);
    }
}

void MappedFile::done_with(std::span<const std::byte> part) const {
    if (!mapped_ || part.empty() || !contains(part)) return;
    const auto address = reinterpret_cast<uintptr_t>(part.data());
    const uintptr_t begin = (address + page_bytes() - 1) / page_bytes() * page_bytes();
    const uintptr_t end = (address + part.size()) / page_bytes() * page_bytes();
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

Result<std::string> read_text_file(const std::filesystem::path& path, const std::string& name, size_t bytes_max) {
    Descriptor file;
    size_t size = 0;
    RONDO_TRY(open_regular(path, name, file, size));
    const auto too_long = [&](const std::string& bytes) {
        return make_error(ErrorCode::out_of_range,
                          name + ": " + bytes + " bytes, must be at most " + std::to_string(bytes_max));
    };
    if (size > bytes_max) return too_long(std::to_string(size));
    // The size is a hint: the file may grow or shrink meanwhile. One byte more tells whether it has ended.
    std::string text(size + 1, '\0');
    size_t filled = 0;
    for (;;) {
        const ssize_t got = ::read(file.fd, text.data() + filled, text.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return refused(name, "read");
        if (got == 0) break;
        filled += static_cast<size_t>(got);
        if (filled > bytes_max) return too_long("more than " + std::to_string(bytes_max));
        if (filled == text.size()) text.resize(std::min(2 * text.size(), bytes_max) + 1);
    }
    text.resize(filled);
    return text;
}

}  // namespace rondo

#include "tests/memory/store/disk_faults.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <string_view>

namespace rondo::testing {

namespace {

/// The definition that comes after this program's.
template <class Function>
Function* real(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using Open = int(const char*, int, ...);
using OpenAt = int(int, const char*, int, ...);
using Write = ssize_t(int, const void*, size_t);
using MovePartsAt = ssize_t(int, const iovec*, int, off_t);
using WriteAt = ssize_t(int, const void*, size_t, off_t);
using Sync = int(int);
using Allocate = int(int, int, off_t, off_t);

Open* real_open() {
    static Open* const function = real<Open>("open");
    return function;
}
WriteAt* real_write_at() {
    static WriteAt* const function = real<WriteAt>("pwrite");
    return function;
}

constexpr size_t piece_bytes = 4096;

/// Bytes that a file had before they were written over, of what was not synced since.
struct Unsynced {
    struct Piece {
        off_t offset = 0;
        std::string before;
    };
    int file = -1;
    std::vector<Piece> pieces;
};

enum class Fate : uint8_t { goes_on, half, fails };

/// Of the plan under way. One call at a time passes, so that nothing changes while the process is killed.
struct Disk {
    std::mutex mutex;
    DiskFaults::Plan plan;
    std::vector<std::string> met;
    std::map<ino_t, Unsynced> unsynced;
    std::mt19937_64 random;

    bool kills() const { return plan.kind == DiskFaults::Kind::kill || plan.kind == DiskFaults::Kind::kill_and_forget; }
    bool is_below(const std::string& path) const { return path.starts_with(plan.folder + '/') || path == plan.folder; }

    [[noreturn]] void die() {
        for (auto& [inode, file] : unsynced) {
            for (auto piece = file.pieces.rbegin(); piece != file.pieces.rend(); ++piece)
                if (random() % 2 == 0)
                    static_cast<void>(
                        real_write_at()(file.file, piece->before.data(), piece->before.size(), piece->offset));
        }
        kill(getpid(), SIGKILL);
        while (true) pause();
    }
    /// `half`: what it is done to dies behind it.
    Fate meet(const char* call, const std::string& path, bool may_fail) {
        if (plan.bad_byte && !std::string_view(call).starts_with("pread")) return Fate::goes_on;
        std::string file = std::filesystem::path(path).filename().string();
        if (file.starts_with("kv-")) file.resize(3);
        std::erase_if(file, [](char letter) { return letter >= '0' && letter <= '9'; });
        std::string boundary = std::string(call) + ' ' + file;
        if (!plan.only.empty() && boundary != plan.only) return Fate::goes_on;
        met.push_back(std::move(boundary));
        const auto now = static_cast<int64_t>(met.size());
        if (now < plan.from || now >= plan.from + plan.count || plan.kind == DiskFaults::Kind::none)
            return Fate::goes_on;
        if (kills() && !plan.in_middle) die();
        if (kills()) return Fate::half;
        if (!may_fail) return Fate::goes_on;
        return plan.in_middle && now == plan.from ? Fate::half : Fate::fails;
    }
    /// What will be lost unless the file is synced.
    void keep_before(int file, off_t offset, size_t bytes) {
        if (plan.kind != DiskFaults::Kind::kill_and_forget) return;
        struct stat what = {};
        if (fstat(file, &what) != 0) return;
        Unsynced& of = unsynced[what.st_ino];
        if (of.file < 0) of.file = real_open()(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC);
        for (size_t done = 0; done < bytes;) {
            const off_t at = offset + static_cast<off_t>(done);
            const size_t next = std::min(bytes - done, piece_bytes - static_cast<size_t>(at) % piece_bytes);
            std::string before(next, '\0');
            static_cast<void>(!pread(of.file, before.data(), next, at));
            of.pieces.push_back({at, std::move(before)});
            done += next;
        }
    }
    void synced(int file) {
        struct stat what = {};
        if (fstat(file, &what) != 0) return;
        const auto found = unsynced.find(what.st_ino);
        if (found == unsynced.end()) return;
        close(found->second.file);
        unsynced.erase(found);
    }
};

std::atomic<bool> armed = false, fails_reads = false;

Disk& disk() {
    static Disk* const one = new Disk;
    return *one;
}

std::string path_of(int file) {
    std::string path(PATH_MAX, '\0');
    const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path.data(), path.size());
    path.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    return path;
}

std::string path_below(int folder, const char* name) {
    return name[0] == '/' ? std::string(name) : path_of(folder) + '/' + name;
}

/// As a disk does that cannot do what is asked of it.
int refuse() {
    const DiskFaults::Kind kind = disk().plan.kind;
    errno = kind == DiskFaults::Kind::quota ? EDQUOT : kind == DiskFaults::Kind::io_error ? disk().plan.error : ENOSPC;
    return -1;
}

bool is_missing(const std::string& path) {
    return access(path.c_str(), F_OK) != 0;
}

/// A call that changes something at that path, of which nothing can be done by half.
template <class Call>
int pass(const char* name, const std::string& path, bool may_fail, const Call& call) {
    Disk& all = disk();
    const std::lock_guard lock(all.mutex);
    if (!armed || !all.is_below(path)) return call();
    const Fate fate = all.meet(name, path, may_fail);
    if (fate == Fate::fails || (fate == Fate::half && !all.kills())) return refuse();
    const int result = call();
    if (fate == Fate::half) all.die();
    return result;
}

template <class Call>
ssize_t pass_write(const char* name, int file, off_t offset, size_t bytes, const Call& call) {
    Disk& all = disk();
    const std::lock_guard lock(all.mutex);
    const std::string path = path_of(file);
    if (!armed || !all.is_below(path)) return call(bytes);
    const Fate fate = all.meet(name, path, true);
    if (fate == Fate::fails) return refuse();
    const size_t step = (fcntl(file, F_GETFL) & O_DIRECT) != 0 ? piece_bytes : 1;
    if (fate == Fate::half) bytes = all.random() % (bytes / step + 1) * step;
    if (fate == Fate::half && bytes == 0 && !all.kills()) return refuse();
    all.keep_before(file, offset, bytes);
    const ssize_t result = bytes == 0 ? 0 : call(bytes);
    if (fate == Fate::half && all.kills()) all.die();
    return result;
}

template <class Call>
ssize_t pass_read(const char* name, int file, off_t offset, size_t bytes, const Call& call) {
    Disk& all = disk();
    const std::lock_guard lock(all.mutex);
    const std::string path = path_of(file);
    const auto begin = static_cast<uint64_t>(offset);
    if (const auto& bad = all.plan.bad_byte)
        if (!path.ends_with('/' + bad->file) || bad->at / piece_bytes < begin / piece_bytes ||
            bad->at / piece_bytes > (begin + bytes - 1) / piece_bytes)
            return call();
    if (!armed || !all.is_below(path) || all.meet(name, path, true) == Fate::goes_on) return call();
    return refuse();
}

template <class Call>
int pass_sync(const char* name, int file, const Call& call) {
    return pass(name, path_of(file), true, [&] {
        const int result = call();
        if (result == 0) disk().synced(file);
        return result;
    });
}

}  // namespace

void DiskFaults::begin(const Plan& plan) {
    const std::lock_guard lock(disk().mutex);
    disk().plan = plan;
    disk().met.clear();
    disk().random.seed(plan.seed);
    fails_reads = plan.kind == Kind::io_error;
    armed = true;
}

std::vector<std::string> DiskFaults::end() {
    const std::lock_guard lock(disk().mutex);
    armed = fails_reads = false;
    return std::move(disk().met);
}

}  // namespace rondo::testing

// Under names of our own for the compiler, so that the declarations of the library's headers do not matter.
using namespace rondo::testing;

#define RONDO_TAKES(result, name, ...)                           \
    extern "C" result faulty_##name(__VA_ARGS__) __asm__(#name); \
    extern "C" __attribute__((visibility("default"))) result faulty_##name(__VA_ARGS__)

RONDO_TAKES(int, open, const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (!armed || (flags & (O_CREAT | O_TRUNC)) == 0) return real_open()(path, flags, mode);
    return pass("open", path_below(AT_FDCWD, path), is_missing(path), [&] { return real_open()(path, flags, mode); });
}

RONDO_TAKES(int, openat, int folder, const char* name, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    static OpenAt* const function = real<OpenAt>("openat");
    if (!armed || (flags & (O_CREAT | O_TRUNC)) == 0) return function(folder, name, flags, mode);
    const std::string path = path_below(folder, name);
    return pass("openat", path, is_missing(path), [&] { return function(folder, name, flags, mode); });
}

RONDO_TAKES(ssize_t, write, int file, const void* bytes, size_t count) {
    static Write* const function = real<Write>("write");
    if (!armed) return function(file, bytes, count);
    return pass_write("write", file, lseek(file, 0, SEEK_CUR), count,
                      [&](size_t most) { return function(file, bytes, most); });
}

RONDO_TAKES(ssize_t, pwrite, int file, const void* bytes, size_t count, off_t offset) {
    if (!armed) return real_write_at()(file, bytes, count, offset);
    return pass_write("pwrite", file, offset, count,
                      [&](size_t most) { return real_write_at()(file, bytes, most, offset); });
}

RONDO_TAKES(ssize_t, pwritev, int file, const iovec* parts, int count, off_t offset) {
    static MovePartsAt* const function = real<MovePartsAt>("pwritev");
    if (!armed) return function(file, parts, count, offset);
    std::vector<iovec> left(parts, parts + count);
    size_t bytes = 0;
    for (const iovec& part : left) bytes += part.iov_len;
    return pass_write("pwritev", file, offset, bytes, [&](size_t most) {
        for (iovec& part : left) most -= part.iov_len = std::min(part.iov_len, most);
        return function(file, left.data(), count, offset);
    });
}

RONDO_TAKES(ssize_t, pread, int file, void* bytes, size_t count, off_t offset) {
    static auto* const function = real<ssize_t(int, void*, size_t, off_t)>("pread");
    if (!armed || !fails_reads) return function(file, bytes, count, offset);
    return pass_read("pread", file, offset, count, [&] { return function(file, bytes, count, offset); });
}

RONDO_TAKES(ssize_t, preadv, int file, const iovec* parts, int count, off_t offset) {
    static MovePartsAt* const function = real<MovePartsAt>("preadv");
    if (!armed || !fails_reads) return function(file, parts, count, offset);
    size_t bytes = 0;
    for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
    return pass_read("preadv", file, offset, bytes, [&] { return function(file, parts, count, offset); });
}

RONDO_TAKES(int, fsync, int file) {
    static Sync* const function = real<Sync>("fsync");
    if (!armed) return function(file);
    return pass_sync("fsync", file, [&] { return function(file); });
}

RONDO_TAKES(int, fdatasync, int file) {
    static Sync* const function = real<Sync>("fdatasync");
    if (!armed) return function(file);
    return pass_sync("fdatasync", file, [&] { return function(file); });
}

RONDO_TAKES(int, syncfs, int file) {
    static Sync* const function = real<Sync>("syncfs");
    if (!armed) return function(file);
    return pass_sync("syncfs", file, [&] { return function(file); });
}

RONDO_TAKES(int, fallocate, int file, int mode, off_t offset, off_t bytes) {
    static Allocate* const function = real<Allocate>("fallocate");
    if (!armed) return function(file, mode, offset, bytes);
    const bool makes_hole = mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    if (makes_hole && disk().plan.kind == DiskFaults::Kind::no_holes) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return pass(makes_hole ? "hole" : "fallocate", path_of(file), true, [&] {
        if (makes_hole) disk().keep_before(file, offset, static_cast<size_t>(bytes));
        return function(file, mode, offset, bytes);
    });
}

/// Gives the error's number, and not -1.
RONDO_TAKES(int, posix_fallocate, int file, off_t offset, off_t bytes) {
    static auto* const function = real<int(int, off_t, off_t)>("posix_fallocate");
    if (!armed) return function(file, offset, bytes);
    const int result = pass("fallocate", path_of(file), true, [&] { return function(file, offset, bytes); });
    return result < 0 ? errno : result;
}

RONDO_TAKES(int, ftruncate, int file, off_t bytes) {
    static auto* const function = real<int(int, off_t)>("ftruncate");
    if (!armed) return function(file, bytes);
    return pass("ftruncate", path_of(file), false, [&] { return function(file, bytes); });
}

RONDO_TAKES(int, unlink, const char* path) {
    static auto* const function = real<int(const char*)>("unlink");
    if (!armed) return function(path);
    return pass("unlink", path_below(AT_FDCWD, path), false, [&] { return function(path); });
}

RONDO_TAKES(int, unlinkat, int folder, const char* name, int flags) {
    static auto* const function = real<int(int, const char*, int)>("unlinkat");
    if (!armed) return function(folder, name, flags);
    return pass("unlinkat", path_below(folder, name), false, [&] { return function(folder, name, flags); });
}

RONDO_TAKES(int, rename, const char* from, const char* to) {
    static auto* const function = real<int(const char*, const char*)>("rename");
    if (!armed) return function(from, to);
    return pass("rename", path_below(AT_FDCWD, to), true, [&] { return function(from, to); });
}

RONDO_TAKES(int, link, const char* from, const char* to) {
    static auto* const function = real<int(const char*, const char*)>("link");
    if (!armed) return function(from, to);
    return pass("link", path_below(AT_FDCWD, to), true, [&] { return function(from, to); });
}

RONDO_TAKES(int, mkdir, const char* path, mode_t mode) {
    static auto* const function = real<int(const char*, mode_t)>("mkdir");
    if (!armed) return function(path, mode);
    return pass("mkdir", path_below(AT_FDCWD, path), is_missing(path), [&] { return function(path, mode); });
}

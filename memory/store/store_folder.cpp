#include "memory/store/store_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "memory/store/disk_queue.hpp"

namespace rondo {

namespace {

constexpr mode_t for_others = S_IRWXG | S_IRWXO;

Error refused(const std::string& path, const std::string& why) {
    return make_error(ErrorCode::invalid_argument, "memory.disk.path " + path + ": " + why);
}

Error failed(const std::string& path, const char* what) {
    return disk_error(errno, (path + ": cannot " + what).c_str());
}

/// Folders that a store of this process has open. RocksDB tells them apart by their paths' spelling alone, and the
/// kernel's locks by their process alone.
class ClaimedFolders {
public:
    bool add(const struct stat& folder) {
        const std::lock_guard lock(mutex_);
        return claimed_.emplace(folder.st_dev, folder.st_ino).second;
    }
    void remove(const struct stat& folder) {
        const std::lock_guard lock(mutex_);
        claimed_.erase({folder.st_dev, folder.st_ino});
    }

private:
    std::mutex mutex_;
    std::set<std::pair<dev_t, ino_t>> claimed_;
};

ClaimedFolders& claimed_folders() {
    static ClaimedFolders folders;
    return folders;
}

/// Of what a user or a group may have of the disk that a file lies on; without a limit all there is.
uint64_t quota_left(int file, int whose, uint32_t id) {
    constexpr uint64_t unit_bytes = 1024, none = UINT64_MAX;
    struct dqblk quota = {};
    if (syscall(SYS_quotactl_fd, file, QCMD(Q_GETQUOTA, whose), id, &quota) != 0) return none;
    uint64_t limit = none;
    for (const uint64_t one : {quota.dqb_bhardlimit, quota.dqb_bsoftlimit})
        if (one > 0) limit = std::min(limit, one * unit_bytes);
    if (limit == none) return none;
    return limit - std::min<uint64_t>(limit, quota.dqb_curspace);
}

}  // namespace

Result<StoreFolder> StoreFolder::open(const std::string& path) {
    const bool is_new = mkdir(path.c_str(), S_IRWXU) == 0;
    if (!is_new && errno != EEXIST) return refused(path, std::string("cannot be made: ") + std::strerror(errno));
    RONDO_ASSIGN(StoreFolder folder, open_existing(path));
    const Status durable = is_new ? folder.sync_above() : Status::ok();
    if (durable) return folder;
    rmdir(path.c_str());  // whoever opens it next makes it and tries again
    return durable.error();
}

Result<StoreFolder> StoreFolder::open_existing(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();  // behind a slash a link would be followed
    const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) {
        const bool link = errno == ELOOP || errno == ENOTDIR;
        return refused(path, link ? "must be a folder, and not a link" : std::strerror(errno));
    }
    std::error_code unknown;
    const std::string absolute = std::filesystem::absolute(path, unknown);
    StoreFolder made(unknown ? path : absolute, file);
    struct stat what = {};
    if (fstat(file, &what) != 0) return failed(path, "look");
    if (what.st_uid != geteuid()) return refused(path, "must belong to the user who runs this");
    if ((what.st_mode & for_others) != 0) return refused(path, "must be closed to others (chmod 700)");
    return made;
}

StoreFolder::StoreFolder(StoreFolder&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      claimed_(std::exchange(other.claimed_, false)) {}

StoreFolder& StoreFolder::operator=(StoreFolder&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(file_, other.file_);
    std::swap(claimed_, other.claimed_);
    return *this;
}

StoreFolder::~StoreFolder() {
    struct stat what = {};
    if (claimed_ && fstat(file_, &what) == 0) claimed_folders().remove(what);
    if (file_ >= 0) close(file_);
}

Status StoreFolder::claim() {
    struct stat what = {};
    if (fstat(file_, &what) != 0) return failed(path_, "look");
    if (!claimed_folders().add(what)) return refused(path_, "another engine of this process has this store open");
    claimed_ = true;
    return Status::ok();
}

bool StoreFolder::is_there() const {
    struct stat now = {}, ours = {};
    if (fstat(file_, &ours) != 0) return true;
    if (lstat(path_.c_str(), &now) != 0) return errno != ENOENT && errno != ENOTDIR;  // another error says nothing
    return now.st_dev == ours.st_dev && now.st_ino == ours.st_ino;
}

Result<int> StoreFolder::open_file(const std::string& name, int flags) const {
    const std::string shown = path_ + "/" + name;
    const int file = openat(file_, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0) return failed(shown, "open");
    struct stat what = {};
    const bool known = fstat(file, &what) == 0;
    if (known && S_ISREG(what.st_mode) && what.st_uid == geteuid() && what.st_nlink == 1) return file;
    close(file);
    return refused(shown, "must be a file of the user who runs this, without another name");
}

bool StoreFolder::has_direct_files() const {
    const int file = openat(file_, ".", O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file >= 0) close(file);
    return file >= 0 || errno != EINVAL;
}

Status StoreFolder::remove(const std::string& name) const {
    if (unlinkat(file_, name.c_str(), 0) != 0 && errno != ENOENT) return failed(path_ + "/" + name, "remove");
    return Status::ok();
}

Result<bool> StoreFolder::has(const std::string& name) const {
    struct stat what = {};
    if (fstatat(file_, name.c_str(), &what, AT_SYMLINK_NOFOLLOW) == 0) return true;
    if (errno == ENOENT) return false;
    return failed(path_ + "/" + name, "look");
}

Status StoreFolder::write_new(const std::string& name, std::span<const std::byte> bytes) const {
    RONDO_TRY(remove(name));
    RONDO_ASSIGN(const int file, open_file(name, O_WRONLY | O_CREAT | O_EXCL));
    Status end;
    while (end && !bytes.empty()) {
        const ssize_t written = write(file, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0)
            end = failed(path_ + "/" + name, "write");
        else
            bytes = bytes.subspan(static_cast<size_t>(written));
    }
    if (end && fsync(file) != 0) end = failed(path_ + "/" + name, "sync");
    close(file);
    return end;
}

Status StoreFolder::replace(const std::string& name, std::span<const std::byte> bytes) const {
    const std::string by = name + ".new";
    Status end = write_new(by, bytes);
    if (end && renameat(file_, by.c_str(), file_, name.c_str()) != 0) end = failed(path_ + "/" + name, "replace");
    if (end) return sync();
    static_cast<void>(remove(by));  // what is left of it goes the next time
    return end;
}

Status StoreFolder::sync() const {
    return fsync(file_) == 0 ? Status::ok() : Status(failed(path_, "sync"));
}

Status StoreFolder::sync_above() const {
    const int above = openat(file_, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0 && errno == EACCES)  // who may write it need not be allowed to read it
        return syncfs(file_) == 0 ? Status::ok() : Status(failed(path_, "sync the file system that it lies on"));
    if (above < 0) return failed(path_, "open the folder that it lies in");
    Status end;
    if (fsync(above) != 0) end = failed(path_, "sync the folder that it lies in");
    close(above);
    return end;
}

Result<std::vector<std::string>> StoreFolder::names() const {
    const int again = openat(file_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (again < 0) return failed(path_, "list");
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(fdopendir(again), closedir);
    if (folder == nullptr) {
        close(again);
        return failed(path_, "list");
    }
    std::vector<std::string> names;
    while (const dirent* const entry = readdir(folder.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
}

Result<uint64_t> StoreFolder::bytes_free() const {
    struct statvfs disk = {};
    if (fstatvfs(file_, &disk) != 0) return failed(path_, "ask for its free space");
    const bool tells = disk.f_blocks > 0;  // some file systems do not say how large they are
    return std::min({tells ? uint64_t{disk.f_bavail} * disk.f_frsize : UINT64_MAX,
                     quota_left(file_, USRQUOTA, geteuid()), quota_left(file_, GRPQUOTA, getegid())});
}

}  // namespace rondo

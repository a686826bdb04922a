#include "memory/store/disk_reserve.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rondo {

void DiskReserve::take() {
    if (taken_) return;
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0) return;
    taken_ = posix_fallocate(file, 0, static_cast<off_t>(bytes_)) == 0;
    close(file);
    if (!taken_) unlink(path_.c_str());
}

void DiskReserve::give_up() {
    unlink(path_.c_str());
    taken_ = false;
}

}  // namespace rondo

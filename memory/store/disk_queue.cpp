#include "memory/store/disk_queue.hpp"

#include <limits.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "memory/store/disk_threads.hpp"
#include "memory/store/disk_uring.hpp"

namespace rondo {

Result<std::unique_ptr<DiskQueue>> DiskQueue::open(const Options& options) {
    if (options.depth < 1 || options.depth > 1024)
        return make_error(ErrorCode::out_of_range,
                          "a disk queue's depth is " + std::to_string(options.depth) + ", must be 1 to 1024");
    if (options.way != Way::threads) {
        Result<std::unique_ptr<DiskQueue>> made = DiskUring::open(options.depth);
        if (made || options.way == Way::io_uring) return made;
    }
    return std::unique_ptr<DiskQueue>(std::make_unique<DiskThreads>(options.depth));
}

std::vector<iovec> memory_left(const MemoryParts& memory, size_t moved) {
    constexpr size_t parts_max = IOV_MAX;
    std::vector<iovec> left;
    for (const auto part : memory) {
        const size_t gone = std::min(moved, part.size());
        moved -= gone;
        if (gone == part.size()) continue;
        if (left.size() == parts_max) break;
        left.push_back({part.data() + gone, part.size() - gone});
    }
    return left;
}

Error disk_error(int number, const char* what) {
    const bool lacks_room = number == ENOSPC || number == EDQUOT || number == ENOMEM;
    return make_error(lacks_room ? ErrorCode::out_of_memory : ErrorCode::io,
                      std::string(what) + ": " + std::strerror(number));
}

}  // namespace rondo

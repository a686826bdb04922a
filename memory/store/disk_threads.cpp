#include "memory/store/disk_threads.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "config/go_behind.hpp"

namespace rondo {

namespace {

using Kind = DiskWork::Kind;

Status do_all(const DiskWork& work) {
    if (work.kind == Kind::sync) return fdatasync(work.file) == 0 ? Status::ok() : Status(disk_error(errno, "sync"));
    const bool writes = work.kind == Kind::write;
    const size_t bytes = bytes_of(work.memory);
    for (size_t moved = 0; moved < bytes;) {
        const std::vector<iovec> left = memory_left(work.memory, moved);
        const auto parts = static_cast<int>(left.size());
        const auto offset = static_cast<off_t>(work.offset + moved);
        const ssize_t count =
            writes ? pwritev(work.file, left.data(), parts, offset) : preadv(work.file, left.data(), parts, offset);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return disk_error(errno, writes ? "write" : "read");
        if (count == 0) return make_error(ErrorCode::corrupt, "read: the file ends too early");
        moved += static_cast<size_t>(count);
    }
    return Status::ok();
}

}  // namespace

DiskThreads::DiskThreads(int depth) {
    constexpr int threads_max = 8;  // each costs a stack; more find little more on a disk
    for (int i = 0; i < std::min(depth, threads_max); ++i) threads_.emplace_back([this] { work(); });
}

DiskThreads::~DiskThreads() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void DiskThreads::submit(DiskWork work) {
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(work));
    }
    changed_.notify_one();
}

void DiskThreads::work() {
    go_behind_others();
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        DiskWork next = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        next.done(do_all(next));
        next = {};  // what the callback holds goes outside the lock
        lock.lock();
    }
}

}  // namespace rondo

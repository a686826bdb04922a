#include "memory/store/disk_uring.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "config/go_behind.hpp"

namespace rondo {

namespace {

using Kind = DiskWork::Kind;

constexpr int tellers = 2;  // one proves what has come while the other one's goes on

const char* name_of(Kind kind) {
    constexpr const char* names[] = {"read", "write", "sync"};
    return names[static_cast<size_t>(kind)];
}

/// A kernel refuses what it does not know only once it is asked to do it.
bool knows_all_calls(io_uring& ring) {
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring);
    if (probe == nullptr) return false;
    constexpr std::array calls = {IORING_OP_READ, IORING_OP_READV, IORING_OP_WRITEV, IORING_OP_FSYNC};
    const bool all = std::ranges::all_of(calls, [&](int call) { return io_uring_opcode_supported(probe, call) != 0; });
    io_uring_free_probe(probe);
    return all;
}

}  // namespace

Result<std::unique_ptr<DiskQueue>> DiskUring::open(int depth) {
    std::unique_ptr<DiskUring> made(new DiskUring(depth));
    made->wakes_ = eventfd(0, EFD_CLOEXEC);
    if (made->wakes_ < 0) return disk_error(errno, "eventfd");
    // One entry more wakes the thread.
    const int result = io_uring_queue_init(static_cast<unsigned>(depth) + 1, &made->ring_, 0);
    if (result < 0) return disk_error(-result, "io_uring");
    if (!knows_all_calls(made->ring_)) {
        io_uring_queue_exit(&made->ring_);
        return make_error(ErrorCode::unsupported, "io_uring: the kernel is too old");
    }
    made->thread_ = std::thread([queue = made.get()] { queue->run(); });
    for (int i = 0; i < tellers; ++i) made->tellers_.emplace_back([queue = made.get()] { queue->tell(); });
    return std::unique_ptr<DiskQueue>(std::move(made));
}

DiskUring::~DiskUring() {
    if (thread_.joinable()) {
        {
            const std::lock_guard lock(mutex_);
            stop_ = true;
        }
        wake();
        thread_.join();
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        changed_.notify_all();
        for (std::thread& teller : tellers_) teller.join();
        io_uring_queue_exit(&ring_);
    }
    if (wakes_ >= 0) close(wakes_);
}

void DiskUring::submit(DiskWork work) {
    auto piece = std::make_unique<Piece>(Piece{std::move(work)});
    piece->bytes = bytes_of(piece->work.memory);
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(piece));
    }
    wake();
}

void DiskUring::wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t wrote = ::write(wakes_, &one, sizeof(one));  // a full counter wakes too
}

/// It does little, and the disk waits for it. So it does not go behind others, as those who prove do.
void DiskUring::run() {
    put_wake();
    while (put_waiting()) {
        io_uring_submit_and_wait(&ring_, 1);  // should it refuse, it is asked again
        io_uring_cqe* end = nullptr;
        while (io_uring_peek_cqe(&ring_, &end) == 0) {
            auto* const piece = static_cast<Piece*>(io_uring_cqe_get_data(end));
            const int result = end->res;
            io_uring_cqe_seen(&ring_, end);
            if (piece == nullptr) {
                put_wake();
            } else {
                ended(piece, result);
            }
        }
    }
}

/// False: everything has ended and is told, and nothing will come.
bool DiskUring::put_waiting() {
    const std::lock_guard lock(mutex_);
    for (; !waiting_.empty() && under_way_ < depth_; ++under_way_) {
        put(waiting_.front().release());
        waiting_.pop_front();
    }
    return !stop_ || under_way_ > 0 || telling_ > 0;
}

/// There is an entry for each piece that may be under way.
void DiskUring::put(Piece* piece) {
    const DiskWork& work = piece->work;
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    piece->left = memory_left(work.memory, piece->moved);
    const auto parts = static_cast<unsigned>(piece->left.size());
    switch (work.kind) {
        case Kind::read:
            io_uring_prep_readv(entry, work.file, piece->left.data(), parts, work.offset + piece->moved);
            break;
        case Kind::write:
            io_uring_prep_writev(entry, work.file, piece->left.data(), parts, work.offset + piece->moved);
            break;
        case Kind::sync:
            io_uring_prep_fsync(entry, work.file, IORING_FSYNC_DATASYNC);
            break;
    }
    io_uring_sqe_set_data(entry, piece);
}

void DiskUring::put_wake() {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    io_uring_prep_read(entry, wakes_, &woken_, sizeof(woken_), 0);
    io_uring_sqe_set_data(entry, nullptr);
}

void DiskUring::ended(Piece* piece, int result) {
    const bool again = result == -EINTR || result == -EAGAIN;
    if (result < 0 && !again) return finish(piece, disk_error(-result, name_of(piece->work.kind)));
    if (result == 0 && piece->bytes > 0)
        return finish(piece, make_error(ErrorCode::corrupt, "read: the file ends too early"));
    piece->moved += static_cast<size_t>(std::max(result, 0));
    if (!again && piece->moved == piece->bytes) return finish(piece, Status::ok());
    put(piece);
}

void DiskUring::finish(Piece* piece, Status status) {
    --under_way_;
    {
        const std::lock_guard lock(mutex_);
        ended_.push_back({std::unique_ptr<Piece>(piece), std::move(status)});
        ++telling_;
    }
    changed_.notify_one();
}

void DiskUring::tell() {
    go_behind_others();
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return over_ || !ended_.empty(); });
        if (ended_.empty()) return;
        Ended next = std::move(ended_.front());
        ended_.pop_front();
        lock.unlock();
        next.piece->work.done(std::move(next.status));
        next.piece.reset();  // what the callback holds goes outside the lock
        lock.lock();
        if (--telling_ == 0 && stop_) wake();
    }
}

}  // namespace rondo

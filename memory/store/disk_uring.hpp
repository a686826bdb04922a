#pragma once

#include <liburing.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "memory/store/disk_queue.hpp"

namespace rondo {

/// A disk queue of the kernel's: many pieces of work at a time. One thread gives them to the kernel and hears of their
/// ends, for the kernel cancels what a thread has asked for when that thread ends. Others tell who asked, so that what
/// they do with it holds up no disk.
class DiskUring final : public DiskQueue {
public:
    static Result<std::unique_ptr<DiskQueue>> open(int depth);
    ~DiskUring() override;

    void submit(DiskWork work) override;
    Way way() const override { return Way::io_uring; }

private:
    struct Piece {
        DiskWork work;
        size_t bytes = 0, moved = 0;
        std::vector<iovec> left = {};  // the kernel reads it until the end
    };
    explicit DiskUring(int depth) : depth_(depth) {}
    void wake() const;
    void run();
    bool put_waiting();
    void put(Piece* piece);
    void put_wake();
    void ended(Piece* piece, int result);
    void finish(Piece* piece, Status status);
    void tell();

    const int depth_;
    int wakes_ = -1;  // an eventfd that the thread reads by the ring
    std::mutex mutex_;
    std::deque<std::unique_ptr<Piece>> waiting_;
    bool stop_ = false;
    struct Ended {
        std::unique_ptr<Piece> piece;
        Status status;
    };
    std::deque<Ended> ended_;
    size_t telling_ = 0;  // those of them that are told, too
    bool over_ = false;   // nothing will end any more
    std::condition_variable changed_;
    std::vector<std::thread> tellers_;
    // The thread's own:
    io_uring ring_{};
    uint64_t woken_ = 0;
    int under_way_ = 0;
    std::thread thread_;
};

}  // namespace rondo

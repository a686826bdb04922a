#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "config/result.hpp"

namespace rondo {

class Ops;

enum class DeviceKind { cpu, cuda };

/// Where memory lives: host RAM (ordinal 0) or one GPU. Weights and KV pools belong to a space, not to a device:
/// two CPU devices of one process share one copy.
struct MemorySpace {
    DeviceKind kind = DeviceKind::cpu;
    int ordinal = 0;
    bool operator==(const MemorySpace&) const = default;
};

/// Owns bytes of one memory space; 64-byte aligned, contents unspecified. Move-only.
class Buffer {
public:
    using Free = std::function<void(void*, size_t)>;

    Buffer() = default;
    Buffer(void* data, size_t bytes, MemorySpace space, Free free)
        : data_(data), bytes_(bytes), space_(space), free_(std::move(free)) {}
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        Buffer taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~Buffer() {
        if (data_ != nullptr) free_(data_, bytes_);
    }

    void* data() const { return data_; }
    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }
    size_t bytes() const { return bytes_; }
    MemorySpace space() const { return space_; }

private:
    void swap(Buffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(space_, other.space_);
        std::swap(free_, other.free_);
    }

    void* data_ = nullptr;
    size_t bytes_ = 0;
    MemorySpace space_;
    Free free_;
};

/// The three queues of a device. Work on one stream happens in order; marks put one stream behind another.
enum class StreamId { compute, load, store };

/// A place on a stream: it is reached when everything put on the stream before it is complete. A mark that nobody
/// recorded is reached.
struct Mark {
    StreamId stream = StreamId::compute;
    uint64_t number = 0;
};

/// One compute device: memory, copies, completion. One thread at a time issues to each stream: in an engine the
/// device's runner to compute, the store to load and store. Any thread may take memory and give it back. Every Ops call
/// enqueues on `StreamId::compute`. On a CPU that stream runs inline; load and store have a thread each.
class Device {
public:
    virtual ~Device() = default;

    virtual std::string name() const = 0;  ///< "cpu (2 threads, amx, bf16 in tiles)" or "cuda:0 (NVIDIA H200)"
    virtual MemorySpace space() const = 0;
    virtual Ops& ops() = 0;

    virtual Result<Buffer> allocate(size_t bytes) = 0;
    /// For a pool, which fills by and by, perhaps never to its end: on a CPU its pages come when they are written.
    virtual Result<Buffer> allocate_pool(size_t bytes) { return allocate(bytes); }
    /// Of a stretch of a pool, which begins at `stretch`, bytes [from, to) will be written too, after those before
    /// them. A CPU gives a huge page to what fills one.
    virtual void expect_pool(std::byte* /*stretch*/, size_t /*from*/, size_t /*to*/) {}
    /// Host memory that copies from and to this device go through without a stop on the way. On a GPU it is pinned, and
    /// begins at a page.
    virtual Result<Buffer> allocate_host(size_t bytes) = 0;
    bool computes_in_host_memory() const { return space().kind == DeviceKind::cpu; }
    /// Enqueues a copy; either side may be host memory or this device's. Both stay valid until the stream has passed
    /// it.
    virtual Status copy(void* dst, const void* src, size_t bytes, StreamId stream) = 0;
    /// Several copies, as if each were asked for. All of what is in `copies` stays valid but the span itself.
    struct Copy {
        void* to = nullptr;
        const void* from = nullptr;
        size_t bytes = 0;
    };
    virtual Status copy_all(std::span<const Copy> copies, StreamId stream) {
        for (const Copy& one : copies)
            if (Status copied = copy(one.to, one.from, one.bytes, stream); !copied) return copied;
        return Status::ok();
    }
    /// What is on the stream now.
    virtual Result<Mark> record(StreamId stream) = 0;
    /// Work put on `stream` from now on waits for the mark. Nothing calls it yet: messages order restoring and compute.
    virtual Status wait(StreamId stream, Mark mark) = 0;
    /// Blocks until the mark is reached. For staging that is written anew; a mark is mostly reached long before.
    virtual Status reach(Mark mark) = 0;
    /// Calls `done` once everything now on the stream is complete (or has failed). Runs on a thread of the device
    /// (for the CPU's compute stream: inline) and must only post a message.
    virtual Status notify(StreamId stream, std::function<void(Status)> done) = 0;
    /// Runs plain host work, each task once, on the threads that compute (a CPU) or on the caller's; done when it
    /// returns.
    virtual void run_tasks(int64_t count, const std::function<void(int64_t)>& task) {
        for (int64_t i = 0; i < count; ++i) task(i);
    }
    /// Threads that `run_tasks` uses.
    virtual int host_threads() const { return 1; }
    /// Blocks until the stream is empty. For loading, tools and tests, and where work has failed or an actor ends. An
    /// actor that goes on uses `notify`.
    virtual Status drain(StreamId stream) = 0;
};

}  // namespace rondo

#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "config/result.hpp"
#include "memory/store/memory_parts.hpp"

namespace rondo {

/// Bytes of an open file on their way to or from memory, or (`sync`) all that has been written to it on its way to the
/// disk. With a file opened by O_DIRECT offset, memory and length are multiples of `disk_alignment`.
struct DiskWork {
    enum class Kind : uint8_t { read, write, sync };

    Kind kind = Kind::read;
    int file = -1;
    uint64_t offset = 0;
    MemoryParts memory;  ///< read into or written from, until `done`
    /// All of the bytes have moved, or why not. On a thread of the queue's, where nothing may wait.
    std::function<void(Status)> done;
};

inline constexpr size_t disk_alignment = 4096;

/// Reads and writes files, many at a time, in no order. By io_uring, or by threads where the kernel refuses that. Safe
/// from any thread.
class DiskQueue {
public:
    enum class Way : uint8_t { io_uring, threads };
    struct Options {
        int depth = 32;          ///< pieces of work under way at a time; what is beyond that waits in memory
        std::optional<Way> way;  ///< none: the first that works
    };
    static Result<std::unique_ptr<DiskQueue>> open(const Options& options);
    /// Waits for everything that was submitted.
    virtual ~DiskQueue() = default;

    virtual void submit(DiskWork work) = 0;
    virtual Way way() const = 0;
};

/// What is left of the memory once so many bytes have moved, as the kernel takes it: not more parts than it takes at a
/// time.
std::vector<iovec> memory_left(const MemoryParts& memory, size_t moved);

/// What the kernel said of a piece of work, where `what` it is done to is named: ENOSPC, EDQUOT and ENOMEM are
/// out_of_memory, anything else is io.
Error disk_error(int number, const char* what);

}  // namespace rondo

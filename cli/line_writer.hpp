#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace rondo::cli {

/// Writes lines to a file descriptor on a thread of its own: a terminal that is stopped, or a pipe that nobody reads,
/// holds up nobody else. Lines beyond a bound are dropped, and how many is told once there is room. Safe from any
/// thread.
class LineWriter {
public:
    explicit LineWriter(int file, size_t bytes_max = size_t{1} << 20);
    /// Waits a moment for what is left to be written.
    ~LineWriter();
    LineWriter(const LineWriter&) = delete;
    LineWriter& operator=(const LineWriter&) = delete;

    /// `line` with its end. Never blocks.
    void write(std::string line);
    /// Waits a moment for what is there to be written.
    void settle() const;

private:
    struct Lines;
    std::shared_ptr<Lines> lines_;  // also the thread's, which may outlive this while it is held up
};

}  // namespace rondo::cli

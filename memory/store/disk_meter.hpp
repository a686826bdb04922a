#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "memory/store/busy_time.hpp"
#include "memory/store/disk_queue.hpp"

namespace rondo {

/// A disk queue that tells how many bytes wait to be written, how long the disk was busy, and how fast it reads. Owns
/// the queue that does the work. Safe from any thread.
class DiskMeter final : public DiskQueue {
public:
    static constexpr uint64_t probe_bytes = uint64_t{4} << 20;

    explicit DiskMeter(std::unique_ptr<DiskQueue> queue) : queue_(std::move(queue)) {}

    void submit(DiskWork work) override;
    Way way() const override { return queue_->way(); }

    /// Bytes that were submitted for writing and are not written yet.
    uint64_t bytes_to_write() const { return bytes_to_write_; }
    /// For which it was asked to read, or to write and to bring to the disk what was written; the probe apart.
    double seconds_reading() const { return reading_.seconds(); }
    double seconds_writing() const { return writing_.seconds(); }
    /// Reads `probe_bytes` of a file from `offset` on, past the kernel's cache where the file system can. Returns at
    /// once, so that a disk that hangs holds nobody up. A probe that fails measures nothing.
    void probe(const std::string& path, uint64_t offset);
    /// What the probe has measured; 0 as long as that is nothing.
    double probed_seconds_per_byte() const { return probed_seconds_per_byte_; }

private:
    std::atomic<uint64_t> bytes_to_write_{0};
    BusyTime reading_, writing_;
    std::atomic<double> probed_seconds_per_byte_{0.0};
    const std::unique_ptr<DiskQueue> queue_;  // goes first: its work uses the figures until it has ended
};

}  // namespace rondo

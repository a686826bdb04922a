#include "memory/store/disk_meter.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "memory/store/aligned_bytes.hpp"

namespace rondo {

namespace {

/// What the disk still reads for a probe holds it.
struct Probe {
    static constexpr size_t piece_bytes = size_t{1} << 20;  // as a restore reads
    static std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

    explicit Probe(int opened) : file(opened) {}
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;
    ~Probe() { close(file); }

    const int file;
    const AlignedBytes bytes{DiskMeter::probe_bytes};  // written once: taking pages would be measured as reading
    std::atomic<size_t> left{DiskMeter::probe_bytes / piece_bytes};
    std::atomic<bool> failed{false};
    std::chrono::steady_clock::time_point begin;
};

}  // namespace

void DiskMeter::submit(DiskWork work) {
    const uint64_t to_write = work.kind == DiskWork::Kind::write ? bytes_of(work.memory) : 0;
    BusyTime& busy = work.kind == DiskWork::Kind::read ? reading_ : writing_;
    bytes_to_write_ += to_write;
    busy.begin();
    work.done = [this, to_write, &busy, done = std::move(work.done)](Status end) {
        busy.end();
        bytes_to_write_ -= to_write;
        done(std::move(end));
    };
    queue_->submit(std::move(work));
}

void DiskMeter::probe(const std::string& path, uint64_t offset) {
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
    int file = ::open(path.c_str(), flags | O_DIRECT);
    if (file < 0 && errno == EINVAL) file = ::open(path.c_str(), flags);
    if (file < 0) return;
    const auto probe = std::make_shared<Probe>(file);
    probe->begin = Probe::now();
    for (size_t at = 0; at < probe_bytes; at += Probe::piece_bytes) {
        const auto ended = [this, probe](const Status& end) {
            if (!end) probe->failed = true;
            if (--probe->left > 0 || probe->failed) return;
            const std::chrono::duration<double> taken = Probe::now() - probe->begin;
            probed_seconds_per_byte_ = taken.count() / static_cast<double>(probe_bytes);
        };
        queue_->submit(
            {DiskWork::Kind::read, file, offset + at, {probe->bytes.span().subspan(at, Probe::piece_bytes)}, ended});
    }
}

}  // namespace rondo

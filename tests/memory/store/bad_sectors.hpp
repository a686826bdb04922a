#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "memory/store/disk_queue.hpp"

namespace rondo::testing {

/// A disk queue whose disk cannot read some bytes, or write some pieces, or make them durable. Who submits also says
/// which: the test's thread.
class BadSectors : public DiskQueue {
public:
    explicit BadSectors(std::unique_ptr<DiskQueue> disk) : disk_(std::move(disk)) {}

    void submit(DiskWork work) override {
        const bool reads = work.kind == DiskWork::Kind::read;
        const bool refuses_write = work.kind == DiskWork::Kind::write && writes_left >= 0 && writes_left-- == 0;
        const bool refuses_sync = work.kind == DiskWork::Kind::sync && syncs_left >= 0 && syncs_left-- == 0;
        if (refuses_write || refuses_sync || (reads && is_bad(work))) {
            ++refused;
            // The queue has something to do, and moves nothing.
            work.kind = DiskWork::Kind::sync;
            work.memory.clear();
            work.done = [error = error, done = std::move(work.done)](const Status&) {
                done(disk_error(error, "refused"));
            };
        }
        disk_->submit(std::move(work));
    }
    Way way() const override { return disk_->way(); }

    /// Whether bytes of a file, by its name, cannot be read now.
    std::function<bool(const std::string& file, uint64_t begin, uint64_t end)> bad = [](const auto&, auto, auto) {
        return false;
    };
    int error = EIO;       ///< what the kernel says then
    int writes_left = -1;  ///< until one fails; -1: none does
    int syncs_left = -1;   ///< likewise
    int refused = 0;

private:
    bool is_bad(const DiskWork& work) const {
        const std::string link = "/proc/self/fd/" + std::to_string(work.file);
        const std::string name = std::filesystem::read_symlink(link).filename().string();
        return bad(name, work.offset, work.offset + bytes_of(work.memory));
    }

    const std::unique_ptr<DiskQueue> disk_;
};

}  // namespace rondo::testing

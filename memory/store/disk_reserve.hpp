#pragma once

#include <cstdint>
#include <string>

namespace rondo {

/// A file that holds some bytes of a disk, so that they are there when the disk is full. Used by one thread.
class DiskReserve {
public:
    DiskReserve(std::string path, uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}

    /// Takes the bytes, all or none.
    void take();
    void give_up();
    uint64_t bytes_missing() const { return taken_ ? 0 : bytes_; }

private:
    std::string path_;
    uint64_t bytes_;
    bool taken_ = false;
};

}  // namespace rondo

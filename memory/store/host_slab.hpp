#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "config/result.hpp"
#include "kernels/device.hpp"

namespace rondo {

/// Host memory that a disk reads into and a device copies from and to; it begins at a multiple of `disk_alignment`.
/// Copies of a slab are the same memory, which goes with the last of them, on whatever thread.
class HostSlab {
public:
    HostSlab() = default;
    /// On a GPU pinned, so that copies are asynchronous and go straight to it. Fails where the host has no more of it.
    static Result<HostSlab> pinned(Device& device, size_t bytes);
    /// The same where it is to be had, else ordinary memory in large pages, which a CPU always gets.
    static HostSlab any(Device& device, size_t bytes);

    std::span<std::byte> span() const { return bytes_; }
    size_t size() const { return bytes_.size(); }

private:
    HostSlab(std::shared_ptr<void> holder, std::span<std::byte> bytes) : holder_(std::move(holder)), bytes_(bytes) {}

    std::shared_ptr<void> holder_;
    std::span<std::byte> bytes_;
};

}  // namespace rondo

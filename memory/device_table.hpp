#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"

namespace rondo {

/// A small table of one device, which the host writes and kernels read. On a CPU device kernels read the host's own
/// memory. Elsewhere `send` copies the table behind what the compute stream holds, and the host may write it again at
/// once: the stream reads pinned staging, which is written anew when its last copy has ended. A GPU may read ordinary
/// memory later than the copy is asked for, so `host_` itself is never the source.
template <class T>
class DeviceTable {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    DeviceTable() = default;
    DeviceTable(DeviceTable&& other) noexcept { swap(other); }
    DeviceTable& operator=(DeviceTable&& other) noexcept {
        DeviceTable taken(std::move(other));
        swap(taken);
        return *this;
    }

    std::vector<T>& host() { return host_; }
    const std::vector<T>& host() const { return host_; }

    /// Takes room for `count` entries: up to so many, writing and sending them allocates nothing.
    /// Where that moves the table, what was sent before is gone: it must be sent again.
    Status reserve(Device& device, size_t count) {
        const bool in_host_memory = device.computes_in_host_memory();
        if (in_host_memory && count > host_.capacity()) data_ = nullptr;
        host_.reserve(count);
        if (in_host_memory) return Status::ok();
        RONDO_TRY(device.reach(sent_));
        return take_room(device, count * sizeof(T));
    }
    /// A table that is longer than what was reserved takes more room first, with some to spare.
    Status send(Device& device) {
        if (device.computes_in_host_memory()) {
            data_ = host_.data();
            return Status::ok();
        }
        const size_t bytes = host_.size() * sizeof(T);
        RONDO_TRY(device.reach(sent_));
        if (buffer_.bytes() < bytes) RONDO_TRY(take_room(device, 2 * bytes));
        std::ranges::copy(host_, staging_.template as<T>());
        data_ = nullptr;  // until the copy has been asked for
        RONDO_TRY(device.copy(buffer_.data(), staging_.data(), bytes, StreamId::compute));
        RONDO_ASSIGN(sent_, device.record(StreamId::compute));
        data_ = buffer_.template as<T>();
        return Status::ok();
    }
    /// What kernels read; valid after `send`. Null: nothing was sent, or it must be sent again.
    const T* data() const { return data_; }

private:
    Status take_room(Device& device, size_t bytes) {
        if (buffer_.bytes() >= bytes) return Status::ok();
        RONDO_ASSIGN(staging_, device.allocate_host(bytes));
        RONDO_ASSIGN(buffer_, device.allocate(bytes));
        data_ = nullptr;
        return Status::ok();
    }
    void swap(DeviceTable& other) noexcept {
        std::swap(host_, other.host_);
        std::swap(staging_, other.staging_);
        std::swap(buffer_, other.buffer_);
        std::swap(sent_, other.sent_);
        std::swap(data_, other.data_);
    }

    std::vector<T> host_;
    Buffer staging_, buffer_;  // both empty on a CPU device
    Mark sent_;                // the host may write the staging again
    const T* data_ = nullptr;
};

}  // namespace rondo

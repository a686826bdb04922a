#pragma once

#include <algorithm>
#include <type_traits>
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
    std::vector<T>& host() { return host_; }
    const std::vector<T>& host() const { return host_; }

    /// Takes room for `count` entries: up to so many, writing and sending them allocates nothing.
    Status reserve(Device& device, size_t count) {
        host_.reserve(count);
        if (device.computes_in_host_memory()) return Status::ok();
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
        data_ = buffer_.template as<T>();
        RONDO_TRY(device.copy(buffer_.data(), staging_.data(), bytes, StreamId::compute));
        RONDO_ASSIGN(sent_, device.record(StreamId::compute));
        return Status::ok();
    }
    /// What kernels read; valid after `send`.
    const T* data() const { return data_; }

private:
    Status take_room(Device& device, size_t bytes) {
        if (buffer_.bytes() >= bytes) return Status::ok();
        RONDO_ASSIGN(staging_, device.allocate_host(bytes));
        RONDO_ASSIGN(buffer_, device.allocate(bytes));
        return Status::ok();
    }

    std::vector<T> host_;
    Buffer staging_, buffer_;  // both empty on a CPU device
    Mark sent_;                // the host may write the staging again
    const T* data_ = nullptr;
};

}  // namespace rondo

#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"

namespace rondo {

/// A small table that the host writes and kernels read. On a CPU device it is the host's own memory; elsewhere `send`
/// copies it behind what the compute stream holds.
template <class T>
class DeviceTable {
public:
    std::vector<T>& host() { return host_; }
    const std::vector<T>& host() const { return host_; }

    Status send(Device& device) {
        if (device.computes_in_host_memory()) {
            data_ = host_.data();
            return Status::ok();
        }
        const size_t bytes = host_.size() * sizeof(T);
        if (buffer_.bytes() < bytes) {
            RONDO_ASSIGN(buffer_, device.allocate(2 * bytes));
        }
        data_ = buffer_.template as<T>();
        return device.copy(buffer_.data(), host_.data(), bytes, StreamId::compute);
    }
    /// What kernels read; valid after `send`.
    const T* data() const { return data_; }

private:
    std::vector<T> host_;
    Buffer buffer_;
    const T* data_ = nullptr;
};

}  // namespace rondo

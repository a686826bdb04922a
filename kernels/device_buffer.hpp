#pragma once

#include <span>

#include "config/result.hpp"
#include "kernels/device.hpp"

namespace rondo {

/// Makes room for at least so many bytes. A buffer that grows loses what it held, and gets some bytes to spare.
inline Status grow(Device& device, Buffer& buffer, size_t bytes) {
    if (buffer.bytes() >= bytes) return Status::ok();
    RONDO_ASSIGN(buffer, device.allocate(bytes + bytes / 2));
    return Status::ok();
}

/// A copy in the device's memory, complete when this returns.
template <class T>
Result<Buffer> copied_to(Device& device, std::span<const T> values) {
    RONDO_ASSIGN(Buffer buffer, device.allocate(values.size_bytes()));
    RONDO_TRY(device.copy(buffer.data(), values.data(), values.size_bytes(), StreamId::compute));
    RONDO_TRY(device.drain(StreamId::compute));
    return buffer;
}

}  // namespace rondo

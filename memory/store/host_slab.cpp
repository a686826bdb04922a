#include "memory/store/host_slab.hpp"

#include <cassert>
#include <cstdint>

#include "memory/store/aligned_bytes.hpp"

namespace rondo {

Result<HostSlab> HostSlab::pinned(Device& device, size_t bytes) {
    RONDO_ASSIGN(Buffer taken, device.allocate_host(bytes));
    const std::span<std::byte> span(taken.as<std::byte>(), bytes);
    assert(reinterpret_cast<uintptr_t>(span.data()) % disk_alignment == 0);
    return HostSlab(std::make_shared<Buffer>(std::move(taken)), span);
}

HostSlab HostSlab::any(Device& device, size_t bytes) {
    if (!device.computes_in_host_memory())
        if (Result<HostSlab> slab = pinned(device, bytes)) return std::move(*slab);
    const auto memory = std::make_shared<AlignedBytes>(AlignedBytes::unwritten(bytes));
    return {memory, memory->span()};
}

}  // namespace rondo

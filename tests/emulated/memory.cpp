#include "tests/emulated/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>

namespace rondo::emulated {
namespace {

constexpr size_t total_bytes = size_t{8} << 30;
constexpr size_t alignment = 256;
constexpr int poison = 0xff;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t guard_bytes = 0;  // AddressSanitizer has its own, and says who wrote there
#else
constexpr size_t guard_bytes = 128;
#endif

struct Memory {
    std::mutex mutex;
    std::map<const std::byte*, size_t, std::greater<>> allocations;  // guarded by mutex, as all of it
    size_t used = 0;
};

Memory& memory() {
    static Memory one;
    return one;
}

}  // namespace

void* allocate(size_t bytes) {
    Memory& m = memory();
    const std::lock_guard lock(m.mutex);
    if (bytes > total_bytes - m.used) return nullptr;
    void* made = nullptr;
    if (posix_memalign(&made, alignment, bytes + guard_bytes) != 0) return nullptr;
    std::memset(made, poison, bytes + guard_bytes);
    m.allocations.emplace(static_cast<const std::byte*>(made), bytes);
    m.used += bytes;
    return made;
}

bool free_memory(void* data) {
    Memory& m = memory();
    const std::lock_guard lock(m.mutex);
    const auto found = m.allocations.find(static_cast<const std::byte*>(data));
    if (found == m.allocations.end()) return false;
    m.used -= found->second;
    m.allocations.erase(found);
    std::free(data);
    return true;
}

size_t memory_bytes() {
    return total_bytes;
}

size_t memory_bytes_free() {
    Memory& m = memory();
    const std::lock_guard lock(m.mutex);
    return total_bytes - m.used;
}

std::optional<size_t> bytes_left_at(const void* pointer) {
    Memory& m = memory();
    const std::lock_guard lock(m.mutex);
    const auto* at = static_cast<const std::byte*>(pointer);
    const auto found = m.allocations.lower_bound(at);  // the last that begins at or before it
    if (found == m.allocations.end()) return std::nullopt;
    const auto offset = static_cast<size_t>(at - found->first);
    if (offset >= found->second) return std::nullopt;
    return found->second - offset;
}

std::optional<std::string> broken_guard() {
    Memory& m = memory();
    const std::lock_guard lock(m.mutex);
    for (const auto& [begin, bytes] : m.allocations) {
        std::byte* const guard = const_cast<std::byte*>(begin) + bytes;
        const auto* const end = guard + guard_bytes;
        const auto* const written =
            std::find_if(guard, const_cast<std::byte*>(end), [](std::byte b) { return b != std::byte{poison}; });
        if (written == end) continue;
        const auto beyond = static_cast<size_t>(written - guard);
        std::memset(guard, poison, guard_bytes);
        return "it wrote " + std::to_string(beyond) + " bytes beyond the end of an allocation of " +
               std::to_string(bytes);
    }
    return std::nullopt;
}

}  // namespace rondo::emulated

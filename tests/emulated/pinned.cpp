#include "tests/emulated/pinned.hpp"

#include <cstdlib>
#include <map>
#include <mutex>

namespace rondo::emulated {
namespace {

struct Pinned {
    std::mutex mutex;
    std::map<const std::byte*, size_t> all;
};

Pinned& pinned() {
    static Pinned one;
    return one;
}

}  // namespace

void* allocate_pinned(size_t bytes) {
    constexpr size_t page = 4096;  // at which it begins, as on a real GPU's host
    if (bytes > (size_t{1} << 40)) return nullptr;
    void* const data = std::aligned_alloc(page, (bytes + page - 1) / page * page);
    if (data == nullptr) return nullptr;
    const std::lock_guard lock(pinned().mutex);
    pinned().all.emplace(static_cast<std::byte*>(data), bytes);
    return data;
}

bool free_pinned(void* data) {
    {
        const std::lock_guard lock(pinned().mutex);
        if (pinned().all.erase(static_cast<std::byte*>(data)) == 0) return false;
    }
    std::free(data);
    return true;
}

bool is_pinned(const void* pointer, size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(pointer);
    const std::lock_guard lock(pinned().mutex);
    auto after = pinned().all.upper_bound(begin);
    if (after == pinned().all.begin()) return false;
    const auto& [first, size] = *--after;
    return begin + bytes <= first + size;
}

}  // namespace rondo::emulated

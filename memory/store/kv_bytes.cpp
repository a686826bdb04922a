#include "memory/store/kv_bytes.hpp"

#include <algorithm>
#include <cassert>

#include "memory/store/disk_queue.hpp"

namespace rondo {

namespace {

// On average. A disk reads smaller parts more slowly than one piece that is copied: 8 KiB at half its rate, 64 KiB at
// 5/6 of it.
constexpr size_t part_bytes_min = size_t{64} << 10;

size_t bytes_of_block(const KvPool& pool) {
    return static_cast<size_t>(pool.shape().kv_heads) * pool.shape().atom.bytes();
}

/// A layer's blocks where they lie, those that follow one another in one part.
MemoryParts blocks_of_layer(const KvPool& pool, int layer, std::span<const int32_t> blocks) {
    const KvLayer at = pool.layer(layer);
    const size_t bytes = bytes_of_block(pool);
    MemoryParts parts;
    for (const int32_t block : blocks) {
        std::byte* const begin = at.at(block, 0);
        if (parts.empty() || parts.back().data() + parts.back().size() != begin) {
            parts.emplace_back(begin, bytes);
        } else {
            parts.back() = {parts.back().data(), parts.back().size() + bytes};
        }
    }
    return parts;
}

void clear(std::byte* from, size_t bytes) {
    std::fill_n(from, bytes, std::byte{0});
}

/// The slots of an atom from `first` on (kernels/kv_layout.hpp).
void clear_slots(const KvAtom& atom, int first, std::byte* bytes) {
    const auto d = static_cast<size_t>(atom.head_dim);
    const size_t number = traits(atom.dtype).block_bytes, row = d * number, half = atom.half_bytes();
    const auto used = static_cast<size_t>(first);
    clear(bytes + used * row, half - used * row);
    std::byte* const values = bytes + half;
    if (atom.dtype != DType::bf16) {
        clear(values + used * row, half - used * row);
    } else {  // tokens stand in pairs: of a pair that is half used every second number goes
        const size_t pairs = used / 2;
        if (used % 2 == 1)
            for (size_t c = 0; c < d; ++c) clear(values + pairs * 2 * row + (2 * c + 1) * number, number);
        const size_t whole = (used + 1) / 2 * 2;
        clear(values + whole * row, half - whole * row);
    }
    if (atom.dtype != DType::i8) return;
    const size_t scales = kv_block_tokens * sizeof(float), gone = scales - used * sizeof(float);
    for (const size_t part : {size_t{0}, scales})
        clear(bytes + atom.scales_offset() + part + used * sizeof(float), gone);
}

}  // namespace

size_t bytes_of_layer(const KvPool& pool, size_t blocks) {
    return blocks * bytes_of_block(pool);
}

Status copy_out(Device& device, const KvPool& pool, int layer, std::span<const int32_t> blocks,
                std::span<std::byte> to) {
    assert(to.size() >= bytes_of_layer(pool, blocks.size()));
    std::vector<Device::Copy> copies;
    std::byte* next = to.data();
    for (const auto part : blocks_of_layer(pool, layer, blocks)) {
        copies.push_back({next, part.data(), part.size()});
        next += part.size();
    }
    return device.copy_all(copies, StreamId::store);
}

void clear_unwritten(const KvAtom& atom, int heads, int64_t tokens, std::span<std::byte> layer) {
    const auto used = static_cast<int>(tokens % kv_block_tokens);
    if (used == 0) return;
    const auto all = static_cast<size_t>(heads) * atom.bytes();
    const auto last = static_cast<size_t>(tokens / kv_block_tokens) * all;
    assert(last + all <= layer.size());
    for (int head = 0; head < heads; ++head)
        clear_slots(atom, used, layer.data() + last + static_cast<size_t>(head) * atom.bytes());
}

MemoryParts parts_of_layer(const Device& device, const KvPool& pool, int layer, std::span<const int32_t> blocks) {
    if (!device.computes_in_host_memory()) return {};
    MemoryParts parts = blocks_of_layer(pool, layer, blocks);
    const bool aligned = std::ranges::all_of(parts, [](std::span<std::byte> part) {
        return part.size() % disk_alignment == 0 && reinterpret_cast<uintptr_t>(part.data()) % disk_alignment == 0;
    });
    if (!aligned || bytes_of_layer(pool, blocks.size()) < parts.size() * part_bytes_min) return {};
    return parts;
}

Status copy_in(Device& device, const KvPool& pool, int layer, std::span<const int32_t> blocks,
               const MemoryParts& from) {
    assert(bytes_of(from) >= bytes_of_layer(pool, blocks.size()));
    std::vector<Device::Copy> copies;
    size_t part = 0, used = 0;  // bytes of it
    for (const auto to : blocks_of_layer(pool, layer, blocks)) {
        for (size_t done = 0; done < to.size();) {  // it may lie in two parts
            const size_t count = std::min(to.size() - done, from[part].size() - used);
            copies.push_back({to.data() + done, from[part].data() + used, count});
            done += count;
            used += count;
            if (used == from[part].size()) {
                ++part;
                used = 0;
            }
        }
    }
    return device.copy_all(copies, StreamId::load);
}

}  // namespace rondo

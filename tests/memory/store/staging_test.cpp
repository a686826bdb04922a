#include "memory/store/staging.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "memory/store/disk_queue.hpp"
#include "tests/memory/store/stand_in_gpu.hpp"

namespace rondo {
namespace {

/// Pinned memory is given back by the end alone: a GPU stops meanwhile.
TEST(Staging, OnAGpuItIsPinnedAndStays) {
    testing::StandInGpu gpu;
    Staging staging(gpu);
    for (int i = 0; i < 100; ++i) {
        std::vector<Staging::Piece> pieces;
        for (const size_t bytes : {size_t{4096}, size_t{3} << 20, size_t{64} << 10, size_t{5} << 20, size_t{1} << 20})
            pieces.push_back(staging.take(bytes));
        for (size_t a = 0; a < pieces.size(); ++a) {
            pieces[a].bytes.front() = pieces[a].bytes.back() = static_cast<std::byte>(a);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces[a].bytes.data()) % disk_alignment, 0U);
        }
        for (size_t a = 0; a < pieces.size(); ++a) {
            EXPECT_EQ(pieces[a].bytes.front(), static_cast<std::byte>(a));
            EXPECT_EQ(pieces[a].bytes.back(), static_cast<std::byte>(a));
            staging.give(pieces[a]);
        }
        if (i % 10 == 0) staging.clear();
    }
    EXPECT_LE(gpu.host_allocations, 3);
}

TEST(Staging, WithoutPinnedMemoryItGoesOn) {
    testing::StandInGpu gpu;
    gpu.host_bytes_left = 0;
    Staging staging(gpu);
    const Staging::Piece piece = staging.take(1 << 20);
    std::ranges::fill(piece.bytes, std::byte{1});
    staging.give(piece);
    EXPECT_EQ(gpu.host_allocations, 0);
}

/// A hundred megabytes are taken; what is over goes.
TEST(Staging, SomeStays) {
    const auto cpu = open_device({DeviceKind::cpu, 0, 1}).value();
    Staging staging(*cpu);
    std::vector<std::weak_ptr<Staging::Slab>> slabs;
    std::vector<Staging::Piece> pieces;
    for (int i = 0; i < 100; ++i) {
        pieces.push_back(staging.take(1 << 20));
        if (slabs.empty() || slabs.back().lock() != pieces.back().slab) slabs.push_back(pieces.back().slab);
    }
    for (Staging::Piece& piece : pieces) staging.give(std::exchange(piece, {}));
    staging.clear();
    size_t kept = 0;
    for (const auto& slab : slabs)
        if (const auto one = slab.lock()) kept += one->memory.size();
    EXPECT_GT(kept, size_t{32} << 20);
    EXPECT_LE(kept, size_t{64} << 20);
}

}  // namespace
}  // namespace rondo

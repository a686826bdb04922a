#include "memory/store/host_arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "tests/memory/store/stand_in_gpu.hpp"

namespace rondo {
namespace {

constexpr size_t frame = 8192, layer_bytes = 12'288, layers = 2;  // three frames a record

StoreName named(int number) {
    StoreName name{};
    name[0] = static_cast<std::byte>(number);
    return name;
}

std::vector<int32_t> ids_of(int number) {
    return {number, number + 1, number + 2};
}

class HostArenaTest : public ::testing::Test {
protected:
    /// Room for so many records; three of them are a slab.
    HostArena arena_for(size_t records) {
        return HostArena(gpu_, {.bytes_max = records * 3 * frame, .frame_bytes = frame, .slab_bytes = 9 * frame});
    }
    static HostArena::RecordPtr begin(HostArena& arena, int number) {
        return arena.begin(named(number), ids_of(number), layers, layer_bytes);
    }
    static void fill(const HostArena::RecordPtr& record, int number) {
        for (size_t layer = 0; layer < layers; ++layer)
            for (const auto part : HostArena::layer_of(*record, layer))
                std::ranges::fill(part, static_cast<std::byte>(number));
    }
    /// False: there was no room.
    static bool put(HostArena& arena, int number) {
        const HostArena::RecordPtr record = begin(arena, number);
        if (record == nullptr) return false;
        fill(record, number);
        arena.keep(record);
        return true;
    }
    static bool is_there(HostArena& arena, int number) {
        const HostArena::RecordPtr record = arena.find(named(number), ids_of(number));
        return record != nullptr && holds(*record, number);
    }
    static bool holds(const HostArena::Record& record, int number) {
        for (size_t layer = 0; layer < layers; ++layer) {
            const MemoryParts parts = HostArena::layer_of(record, layer);
            EXPECT_EQ(bytes_of(parts), layer_bytes);
            for (const auto part : parts)
                if (std::ranges::any_of(part, [=](std::byte byte) { return byte != static_cast<std::byte>(number); }))
                    return false;
        }
        return true;
    }

    testing::StandInGpu gpu_;
};

TEST_F(HostArenaTest, WhatIsKeptIsFoundByNameAndIds) {
    HostArena arena = arena_for(3);
    ASSERT_TRUE(put(arena, 1));
    EXPECT_TRUE(is_there(arena, 1));
    EXPECT_EQ(arena.bytes(), layers * layer_bytes);
    EXPECT_NE(arena.find(named(1), std::vector<int32_t>{1, 2}), nullptr) << "a beginning";
    EXPECT_EQ(arena.find(named(1), std::vector<int32_t>{1, 3}), nullptr) << "a name is not believed";
    EXPECT_EQ(arena.find(named(1), std::vector<int32_t>{1, 2, 3, 4}), nullptr);
    EXPECT_EQ(arena.find(named(2), ids_of(1)), nullptr);
    EXPECT_EQ(begin(arena, 1), nullptr) << "it is there";
}

TEST_F(HostArenaTest, WhatIsOnItsWayIsNotFound) {
    HostArena arena = arena_for(3);
    HostArena::RecordPtr record = begin(arena, 1);
    EXPECT_EQ(arena.find(named(1), ids_of(1)), nullptr);
    EXPECT_EQ(begin(arena, 1), nullptr) << "another one brings it";
    record = nullptr;
    EXPECT_TRUE(put(arena, 1)) << "who was to bring it has gone";
}

TEST_F(HostArenaTest, MemoryIsTakenAsItFillsAndNeverMoreThanTheLimit) {
    HostArena arena = arena_for(4);
    EXPECT_EQ(gpu_.host_allocations, 0);
    const size_t before = gpu_.host_bytes_left;
    for (int i = 1; i <= 3; ++i) ASSERT_TRUE(put(arena, i));
    EXPECT_EQ(gpu_.host_allocations, 1);
    for (int i = 4; i <= 50; ++i) ASSERT_TRUE(put(arena, i));
    EXPECT_EQ(gpu_.host_allocations, 2);
    EXPECT_EQ(before - gpu_.host_bytes_left, 12 * frame);
    EXPECT_EQ(arena.records(), 4U);
    EXPECT_EQ(arena.bytes(), 4 * layers * layer_bytes);
    EXPECT_EQ(arena.counts().evicted, 46);
}

TEST_F(HostArenaTest, WhatWasUsedLeastRecentlyGoesFirst) {
    HostArena arena = arena_for(3);
    for (int i = 1; i <= 3; ++i) ASSERT_TRUE(put(arena, i));
    arena.use(named(1));
    arena.use(named(9));  // which is not there
    ASSERT_TRUE(put(arena, 4));
    EXPECT_FALSE(is_there(arena, 2));
    for (const int i : {1, 3, 4}) EXPECT_TRUE(is_there(arena, i)) << i;
}

TEST_F(HostArenaTest, WhatIsHeldDoesNotGoAndIsNotWrittenTo) {
    HostArena arena = arena_for(2);
    ASSERT_TRUE(put(arena, 1));
    ASSERT_TRUE(put(arena, 2));
    HostArena::RecordPtr held = arena.find(named(1), ids_of(1)), other = arena.find(named(2), ids_of(2));
    EXPECT_FALSE(put(arena, 3));
    EXPECT_EQ(arena.records(), 2U) << "nobody goes in vain";
    other = nullptr;
    ASSERT_TRUE(put(arena, 3));
    EXPECT_FALSE(is_there(arena, 2));
    arena.drop(named(1));
    EXPECT_FALSE(is_there(arena, 1));
    ASSERT_TRUE(put(arena, 4)) << "in place of the third";
    EXPECT_TRUE(holds(*held, 1)) << "somebody copies from it";
    std::thread([&held] { held = nullptr; }).join();
    ASSERT_TRUE(put(arena, 5));
    EXPECT_TRUE(is_there(arena, 4));
    EXPECT_TRUE(is_there(arena, 5));
}

TEST_F(HostArenaTest, WhatIsDroppedIsOverwritten) {
    HostArena arena = arena_for(2);
    ASSERT_TRUE(put(arena, 7));
    const MemoryParts parts = HostArena::layer_of(*arena.find(named(7), ids_of(7)), 1);
    arena.drop(named(7));
    arena.drop(named(7));
    EXPECT_EQ(arena.bytes(), 0U);
    for (const auto part : parts)
        EXPECT_TRUE(std::ranges::all_of(part, [](std::byte byte) { return byte == std::byte{0}; }));
    EXPECT_TRUE(put(arena, 7)) << "it may come again";
    EXPECT_TRUE(is_there(arena, 7));
}

TEST_F(HostArenaTest, WhatIsDroppedOnItsWayIsNotKept) {
    HostArena arena = arena_for(2);
    const HostArena::RecordPtr late = begin(arena, 1);
    fill(late, 1);
    arena.drop(named(1));
    ASSERT_TRUE(put(arena, 1)) << "written once more";
    arena.keep(late);
    EXPECT_EQ(arena.records(), 1U);
    EXPECT_NE(arena.find(named(1), ids_of(1)), late);
}

TEST_F(HostArenaTest, WhatDoesNotFitEvictsNobody) {
    HostArena arena = arena_for(2);
    ASSERT_TRUE(put(arena, 1));
    EXPECT_EQ(arena.begin(named(2), ids_of(2), 7, frame), nullptr);
    EXPECT_NE(arena.begin(named(3), ids_of(3), 3, frame), nullptr);
    EXPECT_TRUE(is_there(arena, 1));
}

TEST_F(HostArenaTest, AnArenaOfNothingHasRoomForNothing) {
    HostArena arena = arena_for(0);
    EXPECT_FALSE(put(arena, 1));
    EXPECT_EQ(gpu_.host_allocations, 0);
}

TEST_F(HostArenaTest, WhatTheHostDoesNotGiveLeavesItSmaller) {
    HostArena arena = arena_for(10);
    gpu_.host_bytes_left = 10 * frame;
    for (int i = 1; i <= 10; ++i) ASSERT_TRUE(put(arena, i));
    EXPECT_EQ(arena.records(), 3U);
    EXPECT_EQ(gpu_.host_allocations, 1);
    HostArena none = arena_for(10);
    gpu_.host_bytes_left = 0;
    EXPECT_FALSE(put(none, 1));
}

TEST_F(HostArenaTest, RecordsMayOutliveIt) {
    std::optional<HostArena> arena(
        std::in_place, gpu_, HostArena::Options{.bytes_max = 9 * frame, .frame_bytes = frame, .slab_bytes = frame});
    ASSERT_TRUE(put(*arena, 1));
    const HostArena::RecordPtr record = arena->find(named(1), ids_of(1));
    arena.reset();
    EXPECT_TRUE(holds(*record, 1));
}

}  // namespace
}  // namespace rondo

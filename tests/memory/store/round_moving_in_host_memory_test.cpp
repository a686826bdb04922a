// Rounds that come back from host memory, and those that must not.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/flip_bit.hpp"
#include "tests/memory/store/round_moving_fixture.hpp"

namespace rondo {
namespace {

using testing::RoundCase;

constexpr auto as_on_a_gpu = RoundCase::Device::stand_in_gpu, on_a_gpu = RoundCase::Device::gpu;

class RoundMovingInHostMemory : public testing::RoundMovingTest {
protected:
    size_t groups() const { return GetParam().lower_layers > 0 ? 2 : 1; }
    /// Brings all of it back into another sequence, and says whether the bytes are those.
    bool comes_back(const SequenceKv& kv, const std::vector<int64_t>& ends) {
        SequenceKv back(*pool_);
        back.plan_rounds(ends);
        return bring_back(back, kv.tokens()) == ends.size() && contents(back) == contents(kv);
    }
    /// Everything in host memory is in the store.
    bool is_of_the_store() const {
        size_t both = 0;
        store_->index().each([&](const StoredRecord& record) { both += arena_->has(record.name); });
        return both == arena_->records();
    }
    /// The name of a record is taken until a thread of the disk's has let go of the one that was written before.
    void put_again(const SequenceKv& kv) {
        const int64_t all = store_->counts().written + 3 * static_cast<int64_t>(groups());
        for (int i = 0; i < 5000 && store_->counts().written < all; ++i) {
            tasks_->run_all();
            put(kv);
            wait_for_the_writer();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    void remove_all() {
        std::vector<StoreName> names;
        store_->index().each([&](const StoredRecord& record) { names.push_back(record.name); });
        EXPECT_TRUE(store_->remove(names));
    }

    const std::vector<int64_t> ends_{20, 52, 84};
};

const auto name_of = [](const auto& of) { return testing::name_of_case(of.param); };
INSTANTIATE_TEST_SUITE_P(Rounds, RoundMovingInHostMemory,
                         ::testing::Values(RoundCase{DType::f32, 0, 1, false, 8, as_on_a_gpu, 16 << 20},
                                           RoundCase{DType::bf16, 1, 1 << 20, true, 8, as_on_a_gpu, 16 << 20},
                                           RoundCase{DType::i8, 2, 10'000, false, 8, as_on_a_gpu, 16 << 20}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OnGpu, RoundMovingInHostMemory,
                         ::testing::Values(RoundCase{DType::bf16, 1, 10'000, true, 8, on_a_gpu, 16 << 20},
                                           RoundCase{DType::i8, 0, 1 << 20, false, 8, on_a_gpu, 16 << 20}),
                         name_of);

TEST_P(RoundMovingInHostMemory, WhatWasWrittenIsNotReadFromTheDisk) {
    const SequenceKv kv = sequence(ends_);
    put(kv);
    wait_for_the_writer();
    EXPECT_EQ(arena_->records(), 3 * groups());
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(comes_back(kv, ends_));
    EXPECT_EQ(layers_.back(), 3);
    EXPECT_EQ(store_->counts().bytes_read, 0U);
    EXPECT_EQ(store_->counts().read, 0);
    EXPECT_EQ(arena_->counts().found, std::ssize(ends_) * 2 * static_cast<int64_t>(groups()));
    EXPECT_EQ(arena_->counts().bytes_copied, 2 * arena_->bytes());
    store_->index().each([&](const StoredRecord& record) { EXPECT_FALSE(reader_->needs_disk(record.name)); });
}

TEST_P(RoundMovingInHostMemory, WhatWasReadIsNotReadAgain) {
    const SequenceKv kv = sequence(ends_);
    put(kv);
    wait_for_the_writer();
    start();
    EXPECT_EQ(arena_->records(), 0U);
    EXPECT_TRUE(comes_back(kv, ends_));
    const uint64_t bytes = store_->counts().bytes_read;
    EXPECT_GT(bytes, 0U);
    EXPECT_TRUE(comes_back(kv, ends_));
    EXPECT_EQ(store_->counts().bytes_read, bytes);
}

TEST_P(RoundMovingInHostMemory, TheBeginningOfARoundComesFromThere) {
    const SequenceKv kv = sequence({20, 300});
    put(kv);
    wait_for_the_writer();
    SequenceKv back(*pool_), from_disk(*pool_);
    back.plan_rounds({20});
    from_disk.plan_rounds({20});
    EXPECT_EQ(bring_back(back, 200), 2U);
    EXPECT_EQ(store_->counts().bytes_read, 0U);
    start();
    EXPECT_EQ(bring_back(from_disk, 200), 2U);
    EXPECT_GT(store_->counts().bytes_read, 0U);
    ASSERT_EQ(back.tokens(), 148);
    EXPECT_EQ(contents(back), contents(from_disk));
}

TEST_P(RoundMovingInHostMemory, WhatTheStoreHasNoMoreIsNotThere) {
    const SequenceKv kv = sequence(ends_);
    put(kv);
    wait_for_the_writer();
    remove_all();
    EXPECT_EQ(arena_->records(), 0U);
    EXPECT_EQ(arena_->bytes(), 0U);
    EXPECT_FALSE(comes_back(kv, ends_));
    put_again(kv);
    EXPECT_TRUE(comes_back(kv, ends_)) << "it was written once more";
    EXPECT_EQ(store_->counts().bytes_read, 0U);
}

/// What somebody copies from stays as it is until he has ended.
TEST_P(RoundMovingInHostMemory, WhatIsRemovedWhileItIsCopiedComesAllTheSame) {
    const SequenceKv kv = sequence(ends_);
    put(kv);
    wait_for_the_writer();
    on_arrived_ = [this](int) { remove_all(); };
    EXPECT_TRUE(comes_back(kv, ends_));
    EXPECT_EQ(arena_->records(), 0U);
    on_arrived_ = {};
    EXPECT_FALSE(comes_back(kv, ends_));
}

TEST_P(RoundMovingInHostMemory, WhatIsRemovedWhileItIsReadDoesNotStay) {
    const SequenceKv kv = sequence(ends_);
    put(kv);
    wait_for_the_writer();
    start();
    on_arrived_ = [this](int) { remove_all(); };
    comes_back(kv, ends_);
    EXPECT_GT(store_->counts().bytes_read, 0U);
    EXPECT_EQ(arena_->records(), 0U);
}

TEST_P(RoundMovingInHostMemory, WhatIsDamagedDoesNotStay) {
    const SequenceKv kv = sequence(ends_);
    put(kv);
    wait_for_the_writer();
    RecordPlace place;
    store_->index().each([&](const StoredRecord& record) {
        if (record.tokens_before == 20 && record.group == LayerGroup::upper) place = record.place;
    });
    close();
    for (const auto& file : segment_files()) testing::flip_bit(file, place.offset + place.bytes - disk_alignment + 1);
    start();
    EXPECT_FALSE(comes_back(kv, ends_));
    EXPECT_EQ(store_->counts().damaged, 1);
    EXPECT_TRUE(is_of_the_store());
    SequenceKv back(*pool_);
    back.plan_rounds(ends_);
    EXPECT_EQ(bring_back(back, 84), 1U);
}

TEST_P(RoundMovingInHostMemory, WhatTheStoreEvictsGoes) {
    options_.bytes_max = 150 << 10;
    start();
    const SequenceKv kv = sequence(ends_);
    for (int32_t i = 0; i < 40 && store_->counts().evicted < 3; ++i) {
        std::vector<int32_t> ids = ids_of(84);
        ids.front() = 1000 + i;
        put(kv, ids);
        wait_for_the_writer();
        EXPECT_TRUE(is_of_the_store());
    }
    EXPECT_GE(store_->counts().evicted, 3);
    EXPECT_GT(arena_->records(), 0U);
}

TEST_P(RoundMovingInHostMemory, CancelledItLeavesNothingHalf) {
    const SequenceKv kv = sequence(ends_);
    put(kv);
    wait_for_the_writer();
    for (const bool restarted : {false, true}) {
        if (restarted) start();
        cancels_ = true;
        EXPECT_FALSE(comes_back(kv, ends_));
        cancels_ = false;
        EXPECT_TRUE(comes_back(kv, ends_));
    }
}

/// Where host memory is short, some come from there and some from the disk.
TEST_P(RoundMovingInHostMemory, WithoutPinnedMemoryTheDiskServes) {
    auto* const gpu = dynamic_cast<testing::StandInGpu*>(device_.get());
    for (const size_t left : {size_t{0}, size_t{100} << 10}) {
        start();
        if (gpu != nullptr) gpu->host_bytes_left = left;  // the host of a GPU has enough of it
        const SequenceKv kv = sequence(ends_);
        std::vector<int32_t> ids = ids_of(84);
        put(kv, ids);
        wait_for_the_writer();
        EXPECT_TRUE(comes_back(kv, ends_));
        EXPECT_TRUE(is_of_the_store());
    }
    EXPECT_GT(store_->counts().bytes_read, 0U);
}

}  // namespace
}  // namespace rondo

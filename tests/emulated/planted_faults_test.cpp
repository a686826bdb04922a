#include "tests/emulated/planted_faults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/emulated/grid.hpp"
#include "tests/emulated/health.hpp"

/// What must be found, and by what. A kernel without the fault must pass the same checks, or they would say nothing.
namespace rondo::emulated {
namespace {

using ::testing::HasSubstr;

constexpr int rows = 3;
constexpr Order orders[] = {Order::forward, Order::reverse, Order::random};

#if defined(RONDO_EMULATED_TSAN)
constexpr bool with_tsan = true;
#else
constexpr bool with_tsan = false;
#endif

/// A row more than the kernel has, for the one that reads it.
std::vector<float> inputs() {
    std::vector<float> values((rows + 1) * sum_threads);
    std::iota(values.begin(), values.end(), 1.0F);
    return values;
}

class PlantedFaults : public ::testing::Test {
protected:
    void SetUp() override {
        GTEST_FLAG_SET(death_test_style, "threadsafe");  // streams are threads
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    }

    void TearDown() override {
        reset_order();
        (void)take_fault();
        (void)cudaStreamDestroy(stream_);
    }

    using Launch = cudaError_t (*)(Plant, cudaStream_t, float*, const float*);
    struct Run {
        std::vector<float> values;
        std::string fault;  ///< empty: none
    };

    Run run(Launch launch, Plant plant, Order order, size_t outputs) {
        set_order(order);
        const std::vector<float> in = inputs();
        Run result{std::vector<float>(outputs), {}};
        void* from = nullptr;
        void* to = nullptr;
        EXPECT_EQ(cudaMalloc(&from, in.size() * sizeof(float)), cudaSuccess);
        EXPECT_EQ(cudaMalloc(&to, outputs * sizeof(float)), cudaSuccess);
        (void)cudaMemcpyAsync(from, in.data(), in.size() * sizeof(float), cudaMemcpyDefault, stream_);
        EXPECT_EQ(launch(plant, stream_, static_cast<float*>(to), static_cast<const float*>(from)), cudaSuccess);
        (void)cudaMemcpyAsync(result.values.data(), to, outputs * sizeof(float), cudaMemcpyDefault, stream_);
        result.fault = take_fault().value_or("");
        (void)cudaFree(from);
        (void)cudaFree(to);
        return result;
    }

    static cudaError_t row_sums(Plant plant, cudaStream_t stream, float* out, const float* in) {
        return launch_row_sums(plant, stream, out, in, rows);
    }
    static cudaError_t running_sums(Plant plant, cudaStream_t stream, float* out, const float* in) {
        return launch_running_sums(plant, stream, out, in, rows);
    }

    Run sum_rows(Plant plant, Order order = Order::forward) { return run(row_sums, plant, order, rows); }

    static std::vector<float> expected_sums() {
        const std::vector<float> in = inputs();
        std::vector<float> sums;
        for (int r = 0; r < rows; ++r) {
            const auto row = in.begin() + r * sum_threads;
            sums.push_back(3 * std::accumulate(row, row + sum_threads, 0.0F));
        }
        return sums;
    }

    cudaStream_t stream_ = nullptr;
};

TEST_F(PlantedFaults, NoneIsFoundInKernelsThatAreRightInAnyOrder) {
    for (const Order order : orders) {
        const Run sums = sum_rows(Plant::none, order);
        EXPECT_EQ(sums.values, expected_sums());
        EXPECT_EQ(sums.fault, "");
        const Run swapped = run(launch_swap, Plant::none, order, 32);
        EXPECT_EQ(swapped.values[6], inputs()[7]);
        const Run running = run(running_sums, Plant::none, order, rows);
        EXPECT_EQ(running.values, (std::vector<float>{1, 3, 6}));
        EXPECT_EQ(running.fault, "");
    }
}

TEST_F(PlantedFaults, ADivergentBarrierIsFoundByItsTwoPlaces) {
    const Run found = sum_rows(Plant::divergent_barrier);
    EXPECT_THAT(found.fault, HasSubstr("threads meet at different places: the barrier of planted_faults.cu:"));
    EXPECT_THAT(found.fault, HasSubstr("block (0, 0, 0), thread "));
}

TEST_F(PlantedFaults, ABarrierThatHalfOfTheBlockSkipsIsFoundInAnyOrder) {
    EXPECT_THAT(sum_rows(Plant::skipped_barrier, Order::forward).fault,
                HasSubstr("a thread has ended while others wait at the barrier of planted_faults.cu:"));
    EXPECT_THAT(sum_rows(Plant::skipped_barrier, Order::reverse).fault,
                HasSubstr("after other threads of the block have ended"));
}

TEST_F(PlantedFaults, AShuffleThatALaneSkipsIsFoundBecauseNobodyCanGoOn) {
    for (const Order order : orders) {
        EXPECT_THAT(sum_rows(Plant::skipped_shuffle, order).fault, HasSubstr("no thread can go on"));
    }
}

TEST_F(PlantedFaults, UnwrittenSharedMemoryIsFoundByItsPoison) {
    for (const float sum : sum_rows(Plant::unwritten_shared).values) EXPECT_TRUE(std::isnan(sum));
    EXPECT_TRUE(std::isnan(run(launch_swap, Plant::unwritten_shared, Order::forward, 32).values[2]));
}

TEST_F(PlantedFaults, AWrongRowIsFoundByItsValues) {
    EXPECT_NE(sum_rows(Plant::wrong_row).values, expected_sums());
}

TEST_F(PlantedFaults, BlocksThatCountOnTheirOrderAreFoundByAnotherOrder) {
    const std::vector<float> right = {1, 3, 6};
    EXPECT_EQ(run(running_sums, Plant::blocks_in_order, Order::forward, rows).values, right);
    EXPECT_NE(run(running_sums, Plant::blocks_in_order, Order::reverse, rows).values, right);
}

/// By the compiler's own check of indices, which every .cu file here is built with.
TEST_F(PlantedFaults, AnOverrunOfSharedMemoryIsFoundByItsIndex) {
    EXPECT_DEATH((void)sum_rows(Plant::shared_overrun), "index 4 out of bounds for type 'float \\[4\\]'");
}

TEST_F(PlantedFaults, AnOverrunOfAnAllocationIsFound) {
#if defined(__SANITIZE_ADDRESS__)
    EXPECT_DEATH((void)sum_rows(Plant::global_overrun), "heap-buffer-overflow");
#else
    EXPECT_THAT(sum_rows(Plant::global_overrun).fault,
                HasSubstr("it wrote 0 bytes beyond the end of an allocation of 12"));
#endif
}

TEST_F(PlantedFaults, AReadBeyondAnAllocationIsFound) {
#if defined(__SANITIZE_ADDRESS__)
    EXPECT_DEATH((void)sum_rows(Plant::global_read_overrun), "heap-buffer-overflow");
#else
    const std::vector<float> sums = sum_rows(Plant::global_read_overrun).values;
    EXPECT_EQ(sums[0], expected_sums()[0]);
    EXPECT_TRUE(std::isnan(sums[2])) << "the guard behind an allocation is no number";
#endif
}

/// Before a barrier that is missing some values are read which nobody wrote yet: in one order of threads or another.
TEST_F(PlantedFaults, AMissingBarrierIsFoundByValuesInSomeOrder) {
    if (with_tsan) GTEST_SKIP() << "ThreadSanitizer ends the program first";
    const auto is_wrong = [&](Order order) {
        return sum_rows(Plant::missing_barrier, order).values != expected_sums();
    };
    EXPECT_TRUE(std::any_of(std::begin(orders), std::end(orders), is_wrong));
}

#if defined(RONDO_EMULATED_TSAN)

/// A race ends the program with ThreadSanitizer's status.
class PlantedRaces : public PlantedFaults {};

TEST_F(PlantedRaces, NoneIsFoundInKernelsThatAreRight) {
    EXPECT_EXIT(((void)sum_rows(Plant::none), (void)run(launch_swap, Plant::none, Order::forward, 32), std::exit(0)),
                ::testing::ExitedWithCode(0), "");
}

TEST_F(PlantedRaces, AMissingBarrierIsFoundInAnyOrder) {
    for (const Order order : orders) {
        EXPECT_EXIT(((void)sum_rows(Plant::missing_barrier, order), std::exit(0)), ::testing::ExitedWithCode(66),
                    "data race");
    }
}

TEST_F(PlantedRaces, AMissingBarrierBeforeReuseIsFoundInAnyOrder) {
    for (const Order order : orders) {
        EXPECT_EXIT(((void)sum_rows(Plant::missing_reuse_barrier, order), std::exit(0)), ::testing::ExitedWithCode(66),
                    "data race");
    }
}

TEST_F(PlantedRaces, AMissingWarpBarrierIsFoundInAnyOrder) {
    for (const Order order : orders) {
        EXPECT_EXIT(((void)run(launch_swap, Plant::missing_warp_barrier, order, 32), std::exit(0)),
                    ::testing::ExitedWithCode(66), "data race");
    }
}

#endif

}  // namespace
}  // namespace rondo::emulated

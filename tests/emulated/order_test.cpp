#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "tests/emulated/grid.hpp"
#include "tests/emulated/health.hpp"
#include "tests/emulated/primitives.hpp"

namespace rondo::emulated {
namespace {

/// Two halves that shuffle by masks of their own: in a shuffled order of threads their lanes come mixed.
TEST(EmulatedOrder, HalvesOfAWarpMeetByThemselvesInAny) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    std::vector<uint32_t> in(primitives::lanes);
    std::iota(in.begin(), in.end(), 100);
    const size_t bytes = in.size() * sizeof(uint32_t);
    void* from = nullptr;
    void* to = nullptr;
    ASSERT_EQ(cudaMalloc(&from, bytes), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&to, bytes), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(from, in.data(), bytes, cudaMemcpyDefault, stream), cudaSuccess);
    for (const Order order : {Order::forward, Order::reverse, Order::random}) {
        set_order(order);
        std::vector<uint32_t> out(in.size());
        EXPECT_EQ(primitives::shuffle(stream, primitives::Shuffle::exchange, true, 5, static_cast<uint32_t*>(to),
                                      static_cast<const uint32_t*>(from)),
                  cudaSuccess);
        (void)cudaMemcpyAsync(out.data(), to, bytes, cudaMemcpyDefault, stream);
        EXPECT_EQ(take_fault().value_or(""), "");
        for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i], in[i ^ 5]) << i;
    }
    reset_order();
    (void)cudaFree(from);
    (void)cudaFree(to);
    (void)cudaStreamDestroy(stream);
}

constexpr Shape eight_of_eight = {{8, 1, 1}, {8, 1, 1}};

/// The numbers of a grid's threads in the order in which they ran.
std::vector<unsigned> order_of_threads(Order order, unsigned seed = 1) {
    set_order(order, seed);
    std::vector<unsigned> ran(64);
    std::atomic<unsigned> next = 0;
    const auto fault = run_grid(eight_of_eight, [&] {
        ran[next.fetch_add(1, std::memory_order_relaxed)] = blockIdx.x * blockDim.x + threadIdx.x;
    });
    EXPECT_EQ(fault.value_or(""), "");
    reset_order();
    return ran;
}

TEST(EmulatedOrder, IsThatOfThreadsAndOfBlocks) {
    std::vector<unsigned> in_order(64);
    std::iota(in_order.begin(), in_order.end(), 0);
    EXPECT_EQ(order_of_threads(Order::forward), in_order);
    std::reverse(in_order.begin(), in_order.end());
    EXPECT_EQ(order_of_threads(Order::reverse), in_order);
}

TEST(EmulatedOrder, ASeedGivesItAgainAndAnotherSeedAnother) {
    const auto blocks_of = [](const std::vector<unsigned>& threads) {
        std::vector<unsigned> blocks;
        for (size_t i = 0; i < threads.size(); i += 8) blocks.push_back(threads[i] / 8);
        return blocks;
    };
    const auto first = order_of_threads(Order::random, 1), second = order_of_threads(Order::random, 2);
    EXPECT_NE(first, second);
    EXPECT_NE(blocks_of(first), blocks_of(second));
    EXPECT_EQ(order_of_threads(Order::random, 1), first) << "whatever ran before";
    std::vector<unsigned> all(64);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_THAT(first, ::testing::UnorderedElementsAreArray(all));
    std::vector<unsigned> lanes(8);  // of two blocks
    std::transform(first.begin(), first.begin() + 8, lanes.begin(), [](unsigned thread) { return thread % 8; });
    EXPECT_FALSE(std::equal(lanes.begin(), lanes.end(), first.begin() + 8,
                            [](unsigned lane, unsigned thread) { return lane == thread % 8; }));
}

TEST(EmulatedOrder, RefusesAnotherNameInOneLine) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // streams are threads
    for (const char* const wrong : {"backward", "random:", "random:1 ", "random:99999999999"}) {
        EXPECT_EXIT((::setenv("RONDO_EMULATED_ORDER", wrong, 1), reset_order()), ::testing::ExitedWithCode(2),
                    "must be forward, reverse, random or random:SEED")
            << wrong;
    }
    EXPECT_EXIT((::setenv("RONDO_EMULATED_ORDER", "random:4294967295", 1), reset_order(), std::exit(0)),
                ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rondo::emulated

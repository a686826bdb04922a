#include <gtest/gtest.h>

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

}  // namespace
}  // namespace rondo::emulated

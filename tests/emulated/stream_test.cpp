#include "tests/emulated/stream.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>

/// A late GPU, which begins nothing until the host waits for it, and what it finds.
namespace rondo::emulated {
namespace {

class EmulatedStreams : public ::testing::Test {
protected:
    EmulatedStreams() {
        EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
        EXPECT_EQ(cudaMalloc(&on_gpu_, sizeof(int)), cudaSuccess);
        void* made = nullptr;
        EXPECT_EQ(cudaHostAlloc(&made, sizeof(int), cudaHostAllocDefault), cudaSuccess);
        pinned_ = static_cast<int*>(made);
    }

    ~EmulatedStreams() override {
        if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
        (void)cudaFree(on_gpu_);
        (void)cudaFreeHost(pinned_);
    }
    EmulatedStreams(const EmulatedStreams&) = delete;
    EmulatedStreams& operator=(const EmulatedStreams&) = delete;

    void copy(void* to, const void* from, cudaStream_t stream) {
        EXPECT_EQ(cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyDefault, stream), cudaSuccess);
    }

    int value_on_gpu() {
        int value = 0;
        copy(&value, on_gpu_, stream_);  // waits: the memory is not pinned
        return value;
    }

    cudaStream_t stream_ = nullptr;
    void* on_gpu_ = nullptr;
    int* pinned_ = nullptr;
};

TEST_F(EmulatedStreams, PinnedMemoryIsReadWhenTheStreamGetsThere) {
    const LateGpu late;
    *pinned_ = 1;
    copy(on_gpu_, pinned_, stream_);
    *pinned_ = 2;  // the mistake: nobody waited
    EXPECT_EQ(value_on_gpu(), 2);
}

TEST_F(EmulatedStreams, PinnedMemoryIsReadBeforeAMarkThatTheHostWaitsFor) {
    const LateGpu late;
    cudaEvent_t copied = nullptr;
    ASSERT_EQ(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming), cudaSuccess);
    *pinned_ = 1;
    copy(on_gpu_, pinned_, stream_);
    EXPECT_EQ(cudaEventRecord(copied, stream_), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(copied), cudaSuccess);
    *pinned_ = 2;
    EXPECT_EQ(value_on_gpu(), 1);
    (void)cudaEventDestroy(copied);
}

TEST_F(EmulatedStreams, OrdinaryMemoryIsReadAtOnce) {
    const LateGpu late;
    int value = 1;
    copy(on_gpu_, &value, stream_);
    value = 2;
    EXPECT_EQ(value_on_gpu(), 1);
}

TEST_F(EmulatedStreams, PinnedMemoryIsWrittenWhenTheHostHasWaited) {
    const int value = 7;
    copy(on_gpu_, &value, stream_);
    const LateGpu late;
    *pinned_ = 0;
    copy(pinned_, on_gpu_, stream_);
    EXPECT_EQ(*pinned_, 0);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(*pinned_, 7);
}

TEST_F(EmulatedStreams, WhoWaitsForOneStreamHasWhatItWaitsForInAnother) {
    const LateGpu late;
    cudaStream_t other = nullptr;
    cudaEvent_t copied = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming), cudaSuccess);
    *pinned_ = 5;
    copy(on_gpu_, pinned_, other);
    EXPECT_EQ(cudaEventRecord(copied, other), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream_, copied, 0), cudaSuccess);
    EXPECT_EQ(value_on_gpu(), 5);
    (void)cudaEventDestroy(copied);
    (void)cudaStreamDestroy(other);
}

TEST_F(EmulatedStreams, AStreamThatIsClosedDoesWhatIsQueued) {
    const LateGpu late;
    const int value = 3;
    copy(on_gpu_, &value, stream_);
    *pinned_ = 0;
    copy(pinned_, on_gpu_, stream_);
    (void)cudaStreamDestroy(stream_);
    stream_ = nullptr;
    EXPECT_EQ(*pinned_, 3);
}

TEST(EmulatedLateGpu, IsRefusedUnlessItIsNoughtOrOne) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // reads the environment in a process of its own
    EXPECT_EXIT((::setenv("RONDO_EMULATED_LATE", "2", 1), LateGpu()), ::testing::ExitedWithCode(2),
                "RONDO_EMULATED_LATE is \"2\"; it must be 0 or 1");
}

}  // namespace
}  // namespace rondo::emulated

#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "kernels/device.hpp"

namespace rondo::testing {

/// Host memory behind the Device interface, filled with a pattern so that a test can see who wrote to it. The
/// `fails_at`th allocation (from 1) is refused; 0: none is.
class FakeDevice : public Device {
public:
    static constexpr unsigned char pattern = 0xA5;

    explicit FakeDevice(int fails_at = 0) : fails_at_(fails_at) {}

    std::string name() const override { return "fake"; }
    MemorySpace space() const override { return {}; }
    Ops& ops() override { std::abort(); }

    Result<Buffer> allocate(size_t bytes) override {
        if (++allocations_ == fails_at_) return make_error(ErrorCode::out_of_memory, "fake: refused");
        if (bytes > bytes_max) return make_error(ErrorCode::out_of_memory, "fake: too large");
        void* data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
        std::memset(data, pattern, bytes);
        ++live_;
        bytes_ += bytes;
        return Buffer(data, bytes, space(), [this](void* freed, size_t) {
            std::free(freed);
            --live_;
        });
    }

    Status copy(void*, const void*, size_t, StreamId) override { std::abort(); }
    Result<Buffer> allocate_host(size_t bytes) override { return allocate(bytes); }
    Result<Mark> record(StreamId stream) override { return Mark{stream, 0}; }
    Status wait(StreamId, Mark) override { std::abort(); }
    Status reach(Mark) override { return {}; }
    Status notify(StreamId, std::function<void(Status)>) override { std::abort(); }
    Status drain(StreamId) override { return {}; }

    int allocations() const { return allocations_; }
    int live() const { return live_; }
    size_t bytes() const { return bytes_; }

private:
    static constexpr size_t bytes_max = size_t{1} << 30;
    int fails_at_;
    int allocations_ = 0;
    int live_ = 0;
    size_t bytes_ = 0;
};

}  // namespace rondo::testing

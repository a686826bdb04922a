#pragma once

#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.hpp"
#include "memory/store/aligned_bytes.hpp"

namespace rondo::testing {

/// A CPU that says it is a GPU, so that rounds are moved as on one. It has `host_bytes_left` of pinned memory.
class StandInGpu : public Device {
public:
    std::string name() const override { return "a CPU in a GPU's place"; }
    MemorySpace space() const override { return {DeviceKind::cuda, 0}; }
    Ops& ops() override { return cpu_->ops(); }
    Result<Buffer> allocate(size_t bytes) override { return cpu_->allocate(bytes); }
    Result<Buffer> allocate_host(size_t bytes) override {
        if (bytes > host_bytes_left) return make_error(ErrorCode::out_of_memory, "no pinned memory is left");
        host_bytes_left -= bytes;
        ++host_allocations;
        auto memory = std::make_shared<AlignedBytes>(bytes);
        void* const data = memory->data();
        return Buffer(data, bytes, {}, [memory](void*, size_t) {});
    }
    Status copy(void* dst, const void* src, size_t bytes, StreamId stream) override {
        return cpu_->copy(dst, src, bytes, stream);
    }
    Result<Mark> record(StreamId stream) override { return cpu_->record(stream); }
    Status wait(StreamId stream, Mark mark) override { return cpu_->wait(stream, mark); }
    Status reach(Mark mark) override { return cpu_->reach(mark); }
    Status notify(StreamId stream, std::function<void(Status)> done) override {
        if (stream == StreamId::store && store_notifies_left >= 0 && store_notifies_left-- == 0)
            return make_error(ErrorCode::device, "an event could not be recorded");
        return cpu_->notify(stream, std::move(done));
    }
    Status drain(StreamId stream) override { return cpu_->drain(stream); }

    size_t host_bytes_left = size_t{1} << 30;
    int host_allocations = 0;
    int store_notifies_left = -1;  ///< of the store stream, until one fails; -1: none does

private:
    const std::unique_ptr<Device> cpu_ = open_device({DeviceKind::cpu, 0, 1}).value();
};

}  // namespace rondo::testing

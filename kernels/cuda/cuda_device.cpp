#include "kernels/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <exception>
#include <string>
#include <utility>

#include "kernels/cuda/completion_queue.hpp"
#include "kernels/cuda/cuda_ops.hpp"
#include "kernels/cuda/cuda_status.hpp"
#include "kernels/cuda/device_memory.hpp"
#include "kernels/cuda/gemm.hpp"

namespace rondo {
namespace cuda {
namespace {

constexpr int streams = 3;  // of StreamId

// Marks of a stream that are told apart. Who waits for an older one waits for the oldest of these, which lies behind
// it.
constexpr uint64_t marks_kept = 64;

/// A stream of the GPU, its marks, and the queue that reports when work on it has ended.
struct CudaStream {
    cudaStream_t handle = nullptr;
    // Of mark n at n mod marks_kept. Recording an event anew leaves waits that are already enqueued alone.
    std::array<cudaEvent_t, marks_kept> events{};
    uint64_t recorded = 0;
    std::unique_ptr<CompletionQueue> completions;

    cudaEvent_t& event_of(uint64_t mark) { return events[mark % marks_kept]; }
    cudaEvent_t& event_behind(uint64_t mark) {
        return event_of(recorded - mark < marks_kept ? mark : recorded - marks_kept + 1);
    }
};

/// One GPU as one device, with three streams (none waits for the legacy default stream). Its issuing thread may
/// change over time, so each call selects the GPU first, which costs nothing when it is selected already.
class CudaDevice final : public Device {
public:
    explicit CudaDevice(int ordinal) : ordinal_(ordinal) {}

    /// Waits for all that is enqueued, and reports it.
    ~CudaDevice() override {
        (void)cudaSetDevice(ordinal_);
        for (CudaStream& stream : streams_) {
            if (stream.handle != nullptr) (void)cudaStreamSynchronize(stream.handle);
            stream.completions.reset();
        }
        ops_.reset();
        for (CudaStream& stream : streams_) {
            for (cudaEvent_t event : stream.events)
                if (event != nullptr) (void)cudaEventDestroy(event);
            if (stream.handle != nullptr) (void)cudaStreamDestroy(stream.handle);
        }
    }
    CudaDevice(const CudaDevice&) = delete;
    CudaDevice& operator=(const CudaDevice&) = delete;

    Status open() {
        RONDO_TRY(select());
        cudaDeviceProp properties{};
        RONDO_TRY(check(cudaGetDeviceProperties(&properties, ordinal_), "reading the GPU's properties"));
        name_ = "cuda:" + std::to_string(ordinal_) + " (" + properties.name +
                (Gemm::available() ? ")" : "; slow: " + Gemm::available().error().message + ")");
        if (properties.major < 8) {
            return make_error(ErrorCode::unsupported, name_ + ": compute capability " +
                                                          std::to_string(properties.major) + "." +
                                                          std::to_string(properties.minor) + ", must be 8.0 or more");
        }
        for (CudaStream& stream : streams_) {
            RONDO_TRY(check(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking), "creating a stream"));
            for (cudaEvent_t& event : stream.events)
                RONDO_TRY(check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event"));
            stream.completions = std::make_unique<CompletionQueue>(ordinal_);
        }
        RONDO_ASSIGN(ops_, CudaOps::create(ordinal_, stream_of(StreamId::compute).handle));
        return {};
    }

    std::string name() const override { return name_; }
    MemorySpace space() const override { return {DeviceKind::cuda, ordinal_}; }
    Ops& ops() override { return *ops_; }

    Result<Buffer> allocate(size_t bytes) override { return allocate_on_gpu(ordinal_, bytes); }
    Result<Buffer> allocate_host(size_t bytes) override { return allocate_pinned(ordinal_, bytes); }

    // From or to host memory that is not pinned the driver stages the bytes, and the call may wait for the stream to
    // get there.
    Status copy(void* dst, const void* src, size_t bytes, StreamId stream) override {
        if (bytes == 0) return {};
        RONDO_TRY(select());
        return check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream_of(stream).handle), "copying");
    }

    Result<Mark> record(StreamId stream) override {
        CudaStream& of = stream_of(stream);
        RONDO_TRY(select());
        RONDO_TRY(check(cudaEventRecord(of.event_of(of.recorded + 1), of.handle), "recording an event"));
        return Mark{stream, ++of.recorded};
    }

    Status wait(StreamId stream, Mark mark) override {
        if (stream == mark.stream || mark.number == 0) return {};
        RONDO_TRY(select());
        return check(cudaStreamWaitEvent(stream_of(stream).handle, stream_of(mark.stream).event_behind(mark.number), 0),
                     "ordering two streams");
    }

    Status reach(Mark mark) override {
        if (mark.number == 0) return {};
        RONDO_TRY(select());
        return check(cudaEventSynchronize(stream_of(mark.stream).event_behind(mark.number)), "work on a stream");
    }

    Status notify(StreamId stream, std::function<void(Status)> done) override {
        RONDO_TRY(select());
        return stream_of(stream).completions->add(stream_of(stream).handle, std::move(done));
    }

    Status drain(StreamId stream) override {
        RONDO_TRY(select());
        const Status drained = check(cudaStreamSynchronize(stream_of(stream).handle), "work on a stream");
        stream_of(stream).completions->settle();
        return drained;
    }

private:
    CudaStream& stream_of(StreamId stream) { return streams_[static_cast<size_t>(stream)]; }
    Status check(cudaError_t error, const char* doing) const { return cuda_status(error, ordinal_, doing); }
    Status select() const { return check(cudaSetDevice(ordinal_), "selecting the GPU"); }

    const int ordinal_;
    std::string name_;
    std::array<CudaStream, streams> streams_;
    std::unique_ptr<CudaOps> ops_;
};

}  // namespace
}  // namespace cuda

int count_cuda_devices() {
    int count = 0;  // left alone by a call that fails
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return count;
}

Result<std::unique_ptr<Device>> make_cuda_device(int ordinal) {
    const std::string name = "device cuda:" + std::to_string(ordinal);
    int count = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
        (void)cudaGetLastError();
        return make_error(ErrorCode::device, name + ": no usable GPU here: " + cudaGetErrorString(error) +
                                                 "; install NVIDIA's driver or use the device cpu");
    }
    if (ordinal < 0 || ordinal >= count) {
        return make_error(ErrorCode::invalid_argument, name + ": this machine has " + std::to_string(count) +
                                                           " GPUs; the number must be below that");
    }
    try {
        auto device = std::make_unique<cuda::CudaDevice>(ordinal);
        RONDO_TRY(device->open());
        return std::unique_ptr<Device>(std::move(device));
    } catch (const std::exception& failed) {  // no thread, no host memory
        return make_error(ErrorCode::device, name + ": " + failed.what());
    }
}

}  // namespace rondo

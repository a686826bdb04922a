// The CUDA runtime's streams and events.

#include <cuda_runtime_api.h>

#include <mutex>
#include <set>

#include "tests/emulated/health.hpp"
#include "tests/emulated/stream.hpp"

namespace rondo::emulated {
namespace {

struct Streams {
    std::mutex mutex;
    std::set<cudaStream_t> all;
};

Streams& streams() {
    static Streams one;
    return one;
}

}  // namespace

/// As cudaFree does.
void wait_for_all_streams() {
    const std::lock_guard lock(streams().mutex);
    for (cudaStream_t stream : streams().all) stream->wait();
}

}  // namespace rondo::emulated

using namespace rondo::emulated;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    *stream = new CUstream_st;
    const std::lock_guard lock(streams().mutex);
    streams().all.insert(*stream);
    return answer(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    {
        const std::lock_guard lock(streams().mutex);
        streams().all.erase(stream);
    }
    delete stream;
    return answer(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    stream->wait();
    return answer(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    stream->add([mark = event->mark, record = event->mark->recorded()] { mark->wait_for(record); });
    return answer(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    *event = new CUevent_st;
    return answer(cudaSuccess);
}

/// Its mark lives on where a stream has yet to pass it.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return answer(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    stream->add([mark = event->mark, record = event->mark->record()] { mark->pass(record); });
    return answer(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    const HostWaits waits;
    event->mark->wait_for(event->mark->recorded());
    return answer(cudaSuccess);
}

}  // extern "C"

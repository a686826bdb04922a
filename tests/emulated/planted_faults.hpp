#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rondo::emulated {

/// A mistake in one of the kernels of planted_faults.cu; with `none` they are right.
enum class Plant {
    none,
    missing_barrier,        ///< shared memory is read without a barrier after the writes
    missing_reuse_barrier,  ///< shared memory is written again without a barrier after the reads
    missing_warp_barrier,   ///< the same within a warp
    divergent_barrier,      ///< two halves of a block wait at two barriers
    skipped_barrier,        ///< half of a block ends without the barrier where the other half waits
    skipped_shuffle,        ///< one lane of a warp never comes to the shuffle that names it
    shared_overrun,         ///< one element beyond an array in shared memory is written
    global_overrun,         ///< one element beyond an allocation is written
    global_read_overrun,    ///< one element beyond an allocation is read
    unwritten_shared,       ///< shared memory is read that nobody wrote
    wrong_row,              ///< each block reads the row after its own
    blocks_in_order,        ///< a block counts on the one before it having run
};

inline constexpr int sum_threads = 128;

/// out[b] = Σ in[b, ·] + 2 · Σ in[b, ·], the two sums by way of the same shared memory. One block a row of
/// `sum_threads` columns; out has `rows` elements.
cudaError_t launch_row_sums(Plant plant, cudaStream_t stream, float* out, const float* in, int rows);
/// out[i] = in[i ^ 1] by way of shared memory: one warp.
cudaError_t launch_swap(Plant plant, cudaStream_t stream, float* out, const float* in);
/// out[b] = in[0] + … + in[b], each block on its own.
cudaError_t launch_running_sums(Plant plant, cudaStream_t stream, float* out, const float* in, int blocks);

}  // namespace rondo::emulated

#include "config/limits.hpp"
#include "kernels/cuda/kv_atom.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

constexpr int threads = 128;
constexpr int warps = threads / 32;
constexpr int head_dim_max = static_cast<int>(limits::head_size_max);
constexpr int channels = head_dim_max / threads;  // of one thread, at most
constexpr int stretch_blocks = 32;

/// The last sequence that begins at or before `row`: an empty one never owns a row, so this is the one that does.
__device__ int sequence_of(const SequenceTables& sequences, int row) {
    int low = 0;
    int high = sequences.sequences;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (sequences.row_begin[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/// out, q [rows, heads·d]. One block a (row, query head): it walks the sequence's KV blocks in order with an online
/// softmax in f32, so a row's bits depend on its own keys alone. For each block of 16 keys the warps share out the
/// scores and then the threads the channels. Weights are added up by stretches of blocks, and the stretches in order:
/// one by one, 100,000 weights would lose some tenths of a percent to rounding. The grid begins at the first sequence's
/// first row, which in a batch of prompts and answers stands behind the prompts' rows. Rows that no sequence owns are
/// left alone.
template <DType type>
__global__ void __launch_bounds__(threads)
    attend_kernel(Rows2d out, Rows2d q, PagedKv kv, SequenceTables sequences, float scale) {
    __shared__ float query[head_dim_max];
    __shared__ float scores[2][kv_block_tokens];  // in turn, so that one barrier a block is enough
    const int row = sequences.row_begin[0] + static_cast<int>(blockIdx.x);
    const int head = static_cast<int>(blockIdx.y);
    const int kv_head = head / (static_cast<int>(gridDim.y) / kv.heads);
    const int thread = static_cast<int>(threadIdx.x);
    const int d = kv.head_dim;
    const int64_t first_channel = int64_t{head} * d;
    if (row >= sequences.row_begin[sequences.sequences]) return;

    const int s = sequence_of(sequences, row);
    const int rows = sequences.row_begin[s + 1] - sequences.row_begin[s];
    const int visible = sequences.kv_length[s] - rows + (row - sequences.row_begin[s]) + 1;
    const int32_t* blocks = sequences.blocks + s * sequences.blocks_stride;
    const int32_t* block_begin = sequences.block_begin + s * sequences.blocks_stride;

    for (int c = thread; c < d; c += threads) query[c] = q.load(row, first_channel + c) * scale;
    __syncthreads();

    float largest = -INFINITY;
    float sum = 0.0F;
    float mean[channels] = {};  // Σ weight · value of a stretch; channel j of this thread is thread + j·threads
    float whole_largest = -INFINITY, whole_sum = 0.0F, whole_mean[channels] = {};  // of the stretches before it
    const auto end_stretch = [&] {
        const float shrink = expf(whole_largest - largest);
        whole_largest = largest;
        whole_sum = whole_sum * shrink + sum;
        sum = 0.0F;
#pragma unroll
        for (int j = 0; j < channels; ++j) {
            whole_mean[j] = whole_mean[j] * shrink + mean[j];
            mean[j] = 0.0F;
        }
    };
    int turn = 0;  // blocks done
    for (int i = 0; i < sequences.block_count[s]; ++i) {
        const int first = block_begin[i];
        if (first >= visible) break;
        const int end = block_begin[i + 1] < visible ? block_begin[i + 1] : visible;
        const int keys = end - first;
        if (keys == 0) continue;
        const Atom<type> atom(kv, blocks[i], kv_head);

        for (int t = thread / 32; t < keys; t += warps) {
            float dot = 0.0F;
            for (int c = thread % 32; c < d; c += 32) dot = fmaf(query[c], atom.key(t, c), dot);
            dot = over_warp<Sum>(dot);
            if (thread % 32 == 0) scores[turn % 2][t] = dot;
        }
        __syncthreads();

        float larger = largest;
        for (int t = 0; t < keys; ++t) larger = fmaxf(larger, scores[turn % 2][t]);
        const float shrink = expf(largest - larger);
        largest = larger;
        sum *= shrink;
        for (float& channel : mean) channel *= shrink;
        for (int t = 0; t < keys; ++t) {
            const float weight = expf(scores[turn % 2][t] - largest);
            sum += weight;
#pragma unroll
            for (int j = 0; j < channels; ++j) {
                const int c = thread + j * threads;
                if (c < d) mean[j] = fmaf(weight, atom.value(t, c), mean[j]);
            }
        }
        if (++turn % stretch_blocks == 0) end_stretch();
    }
    end_stretch();
#pragma unroll
    for (int j = 0; j < channels; ++j) {
        const int c = thread + j * threads;
        if (c < d) out.store(row, first_channel + c, whole_mean[j] / whole_sum);
    }
}

}  // namespace

Status CudaOps::attend(const AttendArgs& args) {
    assert(args.kv.heads > 0 && args.heads % args.kv.heads == 0);
    assert(args.kv.atom.head_dim <= head_dim_max && args.q.columns == int64_t{args.heads} * args.kv.atom.head_dim);
    assert(args.out.columns == args.q.columns && args.out.rows >= args.sequences.rows &&
           args.q.rows >= args.sequences.rows);
    assert(is_activation(args.q.dtype) && is_activation(args.out.dtype));
    if (args.sequences.rows == 0 || args.sequences.sequences == 0) return {};
    const dim3 grid(static_cast<unsigned>(args.sequences.rows), static_cast<unsigned>(args.heads));
    return for_kv_type(args.kv.atom.dtype, [&](auto type) {
        return launch(queue_, "attend", grid, threads, attend_kernel<type>, Rows2d(args.out), Rows2d(args.q),
                      PagedKv(args.kv), args.sequences, args.scale);
    });
}

}  // namespace rondo::cuda

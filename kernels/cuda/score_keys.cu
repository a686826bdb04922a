#include "config/limits.hpp"
#include "kernels/cuda/kv_atom.cuh"
#include "kernels/cuda/launch.cuh"

namespace rondo::cuda {
namespace {

constexpr int threads = 128;
constexpr int warps = threads / 32;
constexpr int head_dim_max = static_cast<int>(limits::head_size_max);
constexpr int lane_channels = head_dim_max / 32;
constexpr int stretch_blocks = 32;

/// The blocks of the one sequence whose keys are scored.
struct KeyBlocks {
    const int32_t* count;
    const int32_t* blocks;
    const int32_t* begin;
    int keys;  ///< those from here on are not scored

    explicit KeyBlocks(const ScoreArgs& args)
        : count(args.sequence.block_count),
          blocks(args.sequence.blocks),
          begin(args.sequence.block_begin),
          keys(static_cast<int>(args.keys)) {}
    __device__ int end(int block, int limit) const { return begin[block + 1] < limit ? begin[block + 1] : limit; }
};

/// out [rows, heads, 2]: a query's largest score, and the sum of its exponentials below that. One block a (row, query
/// head). Its warps take the sequence's blocks in turn, and their sums are added in order. Sums go by stretches of
/// blocks, as attend's do, for the same reason.
template <DType type>
__global__ void __launch_bounds__(threads)
    query_sums_kernel(float* out, Rows2d q, PagedKv kv, KeyBlocks keys, const int32_t* row_keys, float scale) {
    __shared__ float query[head_dim_max];
    __shared__ float largest_of[warps], sum_of[warps];
    const int row = static_cast<int>(blockIdx.x);
    const int head = static_cast<int>(blockIdx.y);
    const int kv_head = head / (static_cast<int>(gridDim.y) / kv.heads);
    const int thread = static_cast<int>(threadIdx.x);
    const int d = kv.head_dim;
    for (int c = thread; c < d; c += threads) query[c] = q.load(row, int64_t{head} * d + c) * scale;
    __syncthreads();

    const int visible = row_keys[row] + 1 < keys.keys ? row_keys[row] + 1 : keys.keys;
    float largest = Largest::identity, whole = 0.0F, sum = 0.0F;
    int turn = 0;  // blocks done
    for (int i = thread / 32; i < keys.count[0] && keys.begin[i] < visible; i += warps) {
        const Atom<type> atom(kv, keys.blocks[i], kv_head);
        for (int t = 0; t < keys.end(i, visible) - keys.begin[i]; ++t) {
            float dot = 0.0F;
            for (int c = thread % 32; c < d; c += 32) dot = fmaf(query[c], atom.key(t, c), dot);
            dot = over_warp<Sum>(dot);
            const float larger = fmaxf(largest, dot);
            const float shrink = expf(largest - larger);
            whole *= shrink;
            sum = sum * shrink + expf(dot - larger);
            largest = larger;
        }
        if (++turn % stretch_blocks == 0) {
            whole += sum;
            sum = 0.0F;
        }
    }
    if (thread % 32 == 0) {
        largest_of[thread / 32] = largest;
        sum_of[thread / 32] = whole + sum;
    }
    __syncthreads();
    if (thread > 0) return;
    for (int warp = 1; warp < warps; ++warp) largest = fmaxf(largest, largest_of[warp]);
    sum = 0.0F;
    for (int warp = 0; warp < warps; ++warp) sum += sum_of[warp] * expf(largest_of[warp] - largest);
    float* const to = out + 2 * (int64_t{row} * gridDim.y + head);
    to[0] = largest;
    to[1] = sum;
}

/// out [KV heads, keys]: a key's weights summed over the rows that see it, mean over the group's heads. One block a
/// (block of keys, KV head). A warp takes a key and adds up its queries in order.
template <DType type>
__global__ void __launch_bounds__(threads)
    key_sums_kernel(Rows2d out, const float* sums, Rows2d q, PagedKv kv, KeyBlocks keys, const int32_t* row_keys,
                    int rows, int group, float scale) {
    const int block = static_cast<int>(blockIdx.x);
    const int kv_head = static_cast<int>(blockIdx.y);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int d = kv.head_dim;
    if (block >= keys.count[0] || keys.begin[block] >= keys.keys) return;
    const Atom<type> atom(kv, keys.blocks[block], kv_head);
    const int heads = kv.heads * group;
    for (int t = static_cast<int>(threadIdx.x) / 32; t < keys.end(block, keys.keys) - keys.begin[block]; t += warps) {
        float key[lane_channels] = {};
#pragma unroll
        for (int j = 0; j < lane_channels; ++j)
            if (lane + 32 * j < d) key[j] = atom.key(t, lane + 32 * j);
        const int number = keys.begin[block] + t;
        float total = 0.0F;
        for (int row = 0; row < rows; ++row) {
            if (row_keys[row] < number) continue;
            float of_row = 0.0F;
            for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
                float dot = 0.0F;
#pragma unroll
                for (int j = 0; j < lane_channels; ++j) {
                    const int c = lane + 32 * j;
                    if (c < d) dot = fmaf(q.load(row, int64_t{head} * d + c) * scale, key[j], dot);
                }
                dot = over_warp<Sum>(dot);
                const float* const of = sums + 2 * (int64_t{row} * heads + head);
                of_row += expf(dot - of[0]) / of[1];
            }
            total += of_row;
        }
        if (lane == 0) out.store(kv_head, number, total / static_cast<float>(group));
    }
}

}  // namespace

Status CudaOps::score_keys(const Tensor& out, const ScoreArgs& args) {
    const int kv_heads = args.kv.heads, rows = static_cast<int>(args.q.rows);
    assert(kv_heads > 0 && args.heads % kv_heads == 0 && args.kv.atom.head_dim <= head_dim_max);
    assert(out.rows == kv_heads && out.columns == args.keys && out.dtype == DType::f32 && is_activation(args.q.dtype));
    const int64_t blocks = args.sequence.blocks_stride - 1;  // or fewer
    if (args.keys == 0 || blocks <= 0) return {};
    RONDO_ASSIGN(void* const sums, query_sums_.reserve(static_cast<size_t>(rows * args.heads) * 2 * sizeof(float)));
    return for_kv_type(args.kv.atom.dtype, [&](auto type) -> Status {
        const KeyBlocks keys(args);
        if (rows > 0) {
            RONDO_TRY(launch(queue_, "score_keys", dim3(static_cast<unsigned>(rows), static_cast<unsigned>(args.heads)),
                             threads, query_sums_kernel<type>, static_cast<float*>(sums), Rows2d(args.q),
                             PagedKv(args.kv), keys, args.row_keys, args.scale));
        }
        return launch(queue_, "score_keys", dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(kv_heads)),
                      threads, key_sums_kernel<type>, Rows2d(out), static_cast<const float*>(sums), Rows2d(args.q),
                      PagedKv(args.kv), keys, args.row_keys, rows, args.heads / kv_heads, args.scale);
    });
}

}  // namespace rondo::cuda

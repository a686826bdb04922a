#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "config/result.hpp"
#include "kernels/kv_layout.hpp"
#include "kernels/tensor.hpp"

namespace rondo {

/// A weight as it lies in a model file (host memory, row-major [rows = outputs, columns = inputs], any weight type).
struct HostMatrix {
    const std::byte* data = nullptr;
    DType dtype = DType::f32;
    int64_t rows = 0;
    int64_t columns = 0;
    /// Output row i is the file's row `row_order[i]`; empty: as it lies. (GGUF permutes the rows of Llama's q and k.)
    std::span<const int32_t> row_order;
};

/// A weight in the form a backend multiplies with: one copy that serves GEMM, GEMV and row look-up.
class PackedMatrix {
public:
    virtual ~PackedMatrix() = default;
    virtual int64_t outputs() const = 0;
    virtual int64_t inputs() const = 0;
    virtual size_t bytes() const = 0;
};

/// How the rows of a product may be computed. `bulk`: whatever is fastest for this many rows. `invariant`: each row's
/// bits depend on that row alone, never on how many others share the call, so a conversation's decode steps do not
/// change with the batch around it.
enum class Rows { bulk, invariant };

struct MatmulArgs {
    Tensor out;                       ///< [M, N] f32 or bf16
    Tensor x;                         ///< [M, K] f32 or bf16
    const PackedMatrix* w = nullptr;  ///< [N, K]
    const float* bias = nullptr;      ///< [N] or none
    bool accumulate = false;          ///< out += instead of out = (f32 out only)
    Rows rows = Rows::bulk;
};

/// The sequences of a batch, as index tables in device memory with fixed capacity (so a captured graph stays valid).
/// Sequence s owns rows [row_begin[s], row_begin[s+1]). Its keys lie in blocks blocks[s·blocks_stride + i], i <
/// block_count[s]. Block i holds keys [block_begin[s·blocks_stride + i], …[i+1]) of the sequence; it may be partly
/// filled, because a round starts on a fresh block. So block_begin has block_count[s] + 1 entries, and the last is
/// kv_length[s], this batch's keys included. Row r of the sequence is key kv_length[s] − rows(s) + r and sees the keys
/// up to itself.
struct SequenceTables {
    int sequences = 0;
    int rows = 0;
    int64_t blocks_stride = 0;
    const int32_t* row_begin = nullptr;
    const int32_t* kv_length = nullptr;
    const int32_t* block_count = nullptr;
    const int32_t* blocks = nullptr;       ///< [sequences, blocks_stride]
    const int32_t* block_begin = nullptr;  ///< [sequences, blocks_stride]; blocks_stride > block_count[s]
};

struct AttendArgs {
    Tensor out;     ///< [rows, heads·d] f32 or bf16
    Tensor q;       ///< [rows, heads·d] f32 or bf16, after RoPE
    int heads = 0;  ///< query heads; a multiple of kv.heads
    KvLayer kv;     ///< this batch's keys already appended
    SequenceTables sequences;
    float scale = 1.0F;  ///< of q·k, before the softmax
    Rows rows = Rows::bulk;
};

/// Up to 16 keys of one KV head: an atom anywhere in the pool and which of its tokens count.
struct KvEntry {
    int32_t atom = 0;      ///< KvPool::atom_index
    uint16_t allowed = 0;  ///< bit t: token t is a key
    uint16_t filled = 0;   ///< tokens [0, filled) hold something; the others may be any bytes
    bool operator==(const KvEntry&) const = default;
};

/// What one sequence's rows attend to in a layer instead of all its keys: entries chosen for each KV head, and all of
/// the sequence's own keys from `tail_begin` on. No entries and a tail that begins at 0 is dense attention.
struct AttendedKeys {
    const KvEntry* entries = nullptr;  ///< [kv_heads, stride]; every row sees their keys
    const int32_t* counts = nullptr;   ///< [kv_heads] or none
    int32_t stride = 0;
    int32_t tail_begin = 0;
};

/// Which entries of attention the rows of one sequence compute, by query head: the union of columns, bands and blocks,
/// as far as a row sees it. Blocks are counted in the sequence; a row's own block is the one its key lies in. A band is
/// a diagonal of blocks: row and all keys of the block `band` before its own.
struct LineTables {
    const int32_t* column_begin = nullptr;  ///< [heads + 1] into columns
    const int32_t* columns = nullptr;       ///< keys, ascending within a head
    const int32_t* band_begin = nullptr;    ///< [heads + 1] into bands
    const int32_t* bands = nullptr;         ///< ascending within a head, 0 the first
    const int32_t* block_begin = nullptr;   ///< [heads + 1] into blocks
    const int32_t* blocks = nullptr;        ///< pairs (row block, key block), ascending within a head
    const int32_t* dense_rows = nullptr;    ///< [heads]: so many of the last rows attend to everything
};

/// Some rows of one sequence, to be scored against its keys [0, keys).
struct ScoreArgs {
    Tensor q;  ///< [rows, heads·d] f32 or bf16, after RoPE
    int heads = 0;
    KvLayer kv;
    SequenceTables sequence;            ///< of one sequence; only its blocks are read
    const int32_t* row_keys = nullptr;  ///< [rows] ascending: row i sees the keys up to this one
    int64_t keys = 0;
    float scale = 1.0F;
};

/// What a backend computes: one method = one file per backend (kernels/cpu/NAME.cpp, kernels/cuda/NAME.cu). All calls
/// enqueue on the compute stream; pointers are device memory unless they say host. Shapes are the caller's promise
/// (assert); what can fail at run time (memory, the device) is the Status.
class Ops {
public:
    virtual ~Ops() = default;

    /// Stacks `parts` along the outputs (q over k over v; gate over up) into one weight. Inputs must agree.
    virtual Result<std::unique_ptr<PackedMatrix>> pack(std::span<const HostMatrix> parts) = 0;
    /// The bytes of what `pack` makes of them. Their data is not read and may be absent. Where weights do not lie in
    /// host memory this is `unsupported`, because there the allocation itself says whether there is room.
    virtual Result<size_t> packed_bytes(std::span<const HostMatrix> /*parts*/) const {
        return make_error(ErrorCode::unsupported, "packed bytes before packing");
    }
    virtual Status matmul(const MatmulArgs& args) = 0;
    /// Takes what this product needs beside its operands, whose data may be absent, so that neither it nor one of fewer
    /// rows asks the device for memory. For whoever sets a model up.
    virtual Status reserve(const MatmulArgs& args) = 0;
    /// out[i] = row ids[i] of the table. out f32. A negative id leaves its row alone, as negative slots and indices
    /// below do: so a batch can be padded to the size a captured graph was made for.
    virtual Status embed(const Tensor& out, const int32_t* ids, const PackedMatrix& table) = 0;
    /// Per row: out = x / sqrt(mean(x²) + eps) · weight. weight f32 [columns]. In place is allowed.
    virtual Status rms_norm(const Tensor& out, const Tensor& x, const float* weight, float eps) = 0;
    /// The same for each head of x [rows, heads·d] apart, in place; weight f32 [d] (Qwen3's norm of q and k).
    virtual Status head_norm(const Tensor& x, const float* weight, int heads, float eps) = 0;
    /// out[i, 0..d/2) = cos, out[i, d/2..d) = sin of positions[i] · inverse_frequency[·]; the angle in double. out f32
    /// [rows, d].
    virtual Status rope_angles(const Tensor& out, const int32_t* positions, const double* inverse_frequency) = 0;
    /// Rotates each head of x [rows, heads·d] in place, halves paired (Hugging Face's order). angles from rope_angles.
    virtual Status rope(const Tensor& x, const Tensor& angles, int heads) = 0;
    /// Writes row i of k and v [rows, kv_heads·d] to slots[i] = block·16 + token within it.
    virtual Status append_kv(const KvLayer& kv, const Tensor& k, const Tensor& v, const int32_t* slots) = 0;
    /// Reads slots back as rows [count, kv_heads·d] f32: for codecs, tests and moves between layouts.
    virtual Status read_kv(const Tensor& k, const Tensor& v, const KvLayer& kv, const int32_t* slots) = 0;
    virtual Status attend(const AttendArgs& args) = 0;
    /// Attention over chosen keys: `selected` [sequences] in host memory, read before this returns; their entries are
    /// counted from `atoms` (KvPool::atoms).
    virtual Status attend_selected(const AttendArgs& args, const AttendedKeys* selected, const std::byte* atoms) = 0;
    /// Attention of one sequence's rows over chosen lines; work in proportion to what they cover.
    virtual Status attend_lines(const AttendArgs& args, const LineTables& lines) = 0;
    /// out [kv_heads, keys] f32: each key's softmax weights, summed over the rows, mean over the heads of its group.
    virtual Status score_keys(const Tensor& out, const ScoreArgs& args) = 0;
    /// Hands the softmax weights of each query head to `consume` as [rows, keys] f32 in host memory, zero beyond what a
    /// row sees. Calls come from any thread, several at a time, and end before this returns.
    using ConsumeRows = std::function<void(int head, const Tensor& weights)>;
    virtual Status score_rows(const ScoreArgs& args, const ConsumeRows& consume) = 0;
    /// Scores blocks of keys for blocks of rows: out [heads · row blocks, blocks] f32 in host memory. An element is the
    /// scaled product of the mean of the rows' queries and the mean of the block's keys, zero for blocks behind the
    /// rows' own. `args.q` are the sequence's last rows; row blocks are the blocks they lie in. args.row_keys is not
    /// read.
    virtual Status score_blocks(const Tensor& out, const ScoreArgs& args) = 0;
    /// The weight that attend_selected gives each key for one row, mean over the heads of its group. `args.q` is that
    /// row, which sees all of args.keys; args.row_keys is not read. out [kv_heads, columns] f32 has 16 columns an atom:
    /// a KV head's entries, then the sequence's blocks from the tail's first on. It is zero where no key counts.
    /// `selected` is one, in host memory, with entries.
    virtual Status score_selected(const Tensor& out, const ScoreArgs& args, const AttendedKeys& selected,
                                  const std::byte* atoms) = 0;
    /// Copies `count` keys with their values from one slot (atom·16 + token, counted from `atoms`) to another. A source
    /// of −1 writes zeros. Destinations are ascending where they share an atom; no slot is both read and written.
    virtual Status move_kv(const KvAtom& atom, std::byte* atoms, const int32_t* from, const int32_t* to,
                           int64_t count) = 0;
    /// out[r, c] = silu(x[r, c]) · x[r, F + c], x [rows, 2F].
    virtual Status silu_mul(const Tensor& out, const Tensor& x) = 0;
    /// Row-wise softmax of f32; in place allowed.
    virtual Status softmax(const Tensor& out, const Tensor& x) = 0;
    /// out row i = x row rows[i]; same type.
    virtual Status take_rows(const Tensor& out, const Tensor& x, const int32_t* rows) = 0;
};

}  // namespace rondo

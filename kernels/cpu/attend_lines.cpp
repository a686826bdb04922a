#include "kernels/cpu/attend_lines.hpp"

#include <algorithm>
#include <cassert>

#include "config/checked.hpp"
#include "kernels/cpu/key_list.hpp"
#include "kernels/cpu/move_kv.hpp"

namespace rondo::cpu {

namespace {

constexpr int gather_pieces = 8;

/// Rows of one block: all of them are dense rows, or none is.
struct RowTile {
    int32_t row;  // of the sequence's rows
    int32_t rows;
    int32_t block;
};

struct Call {
    const AttendArgs& args;
    const LineTables& lines;
    const int32_t* column_blocks;
    const std::byte* gathered = nullptr;
    int first_head = 0;  // whose columns are gathered first

    const int32_t* block_begin() const { return args.sequences.block_begin; }
    int64_t rows() const { return args.sequences.row_begin[1] - args.sequences.row_begin[0]; }
    int64_t first_key() const { return args.sequences.kv_length[0] - rows(); }
    int kv_head(int head) const { return head / (args.heads / args.kv.heads); }
    int64_t atoms_before(int head) const { return lines.column_begin[head] / kv_block_tokens + head; }
    /// Where column i of a head is gathered, the first of an atom.
    size_t gathered_at(int head, int64_t i) const {
        const int64_t atom = atoms_before(head) - atoms_before(first_head);
        return static_cast<size_t>(atom + (i - lines.column_begin[head]) / kv_block_tokens) * args.kv.atom.bytes();
    }
    size_t gathered_bytes(int begin, int end) const {
        return static_cast<size_t>(atoms_before(end) - atoms_before(begin)) * args.kv.atom.bytes();
    }
};

/// The rows cut at the bounds of blocks.
int64_t cut_rows(const Call& call, RowTile* tiles) {
    const int64_t blocks = call.args.sequences.block_count[0];
    int64_t block = block_of_key(call.block_begin(), blocks, call.first_key());
    int64_t count = 0;
    for (int64_t row = 0; row < call.rows(); ++block) {
        const int64_t end = std::min(call.rows(), call.block_begin()[block + 1] - call.first_key());
        tiles[count++] = {static_cast<int32_t>(row), static_cast<int32_t>(end - row), static_cast<int32_t>(block)};
        row = end;
    }
    return count;
}

/// One of the pieces of a head's columns, so that all threads gather when there are few heads.
void gather_columns(const Call& call, int head, int64_t piece, int32_t* column_blocks, std::byte* gathered) {
    const KvLayer& kv = call.args.kv;
    const SequenceTables& tables = call.args.sequences;
    const int32_t head_begin = call.lines.column_begin[head], head_end = call.lines.column_begin[head + 1];
    const int32_t each = round_up<int32_t>((head_end - head_begin) / gather_pieces + 1, kv_block_tokens);
    const int64_t begin = head_begin + piece * each, end = std::min<int64_t>(begin + each, head_end);
    if (begin >= end) return;
    int64_t block = block_of_key(call.block_begin(), tables.block_count[0], call.lines.columns[begin]);
    KeySource sources[kv_block_tokens];
    for (int64_t i = begin; i < end; i += kv_block_tokens) {
        const auto count = static_cast<int>(std::min<int64_t>(kv_block_tokens, end - i));
        for (int t = 0; t < count; ++t) {
            const int32_t key = call.lines.columns[i + t];
            while (call.block_begin()[block + 1] <= key) ++block;
            column_blocks[i + t] = static_cast<int32_t>(block);
            sources[t] = {kv.at(tables.blocks[block], call.kv_head(head)), key - call.block_begin()[block]};
        }
        gather_atom(kv.atom, sources, count, gathered + call.gathered_at(head, i));
    }
}

/// Marks in `taken` the blocks that rows of block `own` attend to as a whole.
void mark_blocks(const Call& call, int head, int32_t own, bool dense, uint8_t* taken) {
    std::fill(taken, taken + own + 1, dense ? uint8_t{1} : uint8_t{0});
    if (dense) return;
    const LineTables& lines = call.lines;
    for (int32_t i = lines.band_begin[head]; i < lines.band_begin[head + 1]; ++i) {
        if (lines.bands[i] <= own) taken[own - lines.bands[i]] = 1;
    }
    struct Pair {
        int32_t row_block, key_block;
    };
    const auto* const pairs = reinterpret_cast<const Pair*>(lines.blocks);
    const Pair* const end = pairs + lines.block_begin[head + 1];
    const Pair* pair =
        std::partition_point(pairs + lines.block_begin[head], end, [&](const Pair& p) { return p.row_block < own; });
    for (; pair != end && pair->row_block == own; ++pair) {
        if (pair->key_block <= own) taken[pair->key_block] = 1;
    }
}

/// Lists what a tile attends to: the marked blocks, and the columns that lie in none of them.
int64_t list_keys(const Call& call, int head, int32_t own, bool dense, uint8_t* taken, TileKeys* list) {
    mark_blocks(call, head, own, dense, taken);
    int64_t count = 0;
    if (!dense) {
        const int32_t begin = call.lines.column_begin[head], end = call.lines.column_begin[head + 1];
        for (int32_t i = begin; i < end; i += kv_block_tokens) {
            uint32_t allowed = 0;
            const int filled = std::min<int>(kv_block_tokens, end - i);
            for (int t = 0; t < filled; ++t) {
                const int32_t block = call.column_blocks[i + t];
                if (block < own && taken[block] == 0) allowed |= 1U << t;
            }
            if (allowed == 0) continue;
            list[count++] = {call.gathered + call.gathered_at(head, i), everyone_sees, static_cast<uint16_t>(allowed),
                             kv_block_tokens};
        }
    }
    for (int64_t block = 0; block <= own; ++block) {
        if (taken[block] != 0)
            list[count++] = block_keys(call.args.kv, call.args.sequences, 0, call.kv_head(head), block);
    }
    return count;
}

}  // namespace

/// Some heads at a time, because the columns of all of them could take any amount of memory.
Status AttendLines::run(const AttendArgs& args, const LineTables& lines) {
    assert(args.sequences.sequences == 1 && args.heads % args.kv.heads == 0);
    const int64_t d = args.kv.atom.head_dim, blocks = args.sequences.block_count[0];
    const auto columns = static_cast<size_t>(lines.column_begin[args.heads]);
    auto* const column_blocks = column_blocks_.get<int32_t>(columns * sizeof(int32_t));
    Call call{args, lines, column_blocks};
    auto* const tiles = tiles_.get<RowTile>(static_cast<size_t>(blocks) * sizeof(RowTile));
    const int64_t tile_count = cut_rows(call, tiles);
    const auto attend = [&](int head, const RowTile& rows, PerThread& own) {
        auto* const taken = own.taken.get<uint8_t>(static_cast<size_t>(blocks));
        const int64_t head_atoms = ceil_div<int64_t>(lines.column_begin[head + 1] - lines.column_begin[head], 16);
        auto* const list = own.keys.get<TileKeys>(static_cast<size_t>(blocks + head_atoms) * sizeof(TileKeys));
        const int64_t first_dense = call.rows() - lines.dense_rows[head];
        for (int64_t row = rows.row; row < rows.row + rows.rows;) {
            const bool dense = row >= first_dense;
            const int64_t end = dense ? rows.row + rows.rows : std::min<int64_t>(rows.row + rows.rows, first_dense);
            AttendTile tile;
            tile.bf16 = bf16_;
            tile.of_lines = true;
            tile.q = args.q.slice_rows(args.sequences.row_begin[0] + row, end - row);
            tile.atom = args.kv.atom;
            tile.first_head = head;
            tile.scale = args.scale;
            tile.first_visible = call.first_key() + row + 1;
            tile.count = list_keys(call, head, rows.block, dense, taken, list);
            tile.keys = list;
            const int64_t floats = sums_floats(16, d);
            const AttendSums sums =
                place_sums(own.sums.get<float>(static_cast<size_t>(floats) * sizeof(float)), 16, 0, d);
            attend_tile(tile, own.kernel, sums);
            write_tile(tile, 1, sums, args.out, args.sequences.row_begin[0] + row);
            row = end;
        }
    };
    for (int end = 0; end < args.heads;) {
        call.first_head = end++;
        while (end < args.heads && call.gathered_bytes(call.first_head, end + 1) <= scratch_kept_bytes) ++end;
        const int heads = end - call.first_head;
        auto* const gathered = gathered_.get(call.gathered_bytes(call.first_head, end));
        call.gathered = gathered;
        pool_.run(heads * gather_pieces, [&](int64_t task, int) {
            gather_columns(call, call.first_head + static_cast<int>(task / gather_pieces), task % gather_pieces,
                           column_blocks, gathered);
        });
        pool_.run_stretches(heads * tile_count, [&](int64_t i, int thread) {
            attend(call.first_head + static_cast<int>(i / tile_count), tiles[i % tile_count],
                   scratch_[static_cast<size_t>(thread)]);
        });
    }
    gathered_.give_back();
    return Status::ok();
}

}  // namespace rondo::cpu

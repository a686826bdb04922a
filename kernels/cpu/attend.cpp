#include "kernels/cpu/attend.hpp"

#include <algorithm>
#include <cassert>

#include "config/checked.hpp"
#include "kernels/cpu/key_list.hpp"

namespace rondo::cpu {

namespace {

constexpr int64_t queries_per_tile = 64;
constexpr int64_t split_atoms = 32;    // in a split of a sequence with few rows: 512 keys of full blocks
constexpr int64_t split_rows_max = 8;  // more rows in bulk than this give enough tiles without splitting the keys
constexpr int64_t atoms_ahead = 4;     // of the next split, which a tile prefetches

/// A tile and where its sums go. Tiles of one (sequence, head, rows) stand next to each other, split by split.
struct Work {
    int32_t sequence;
    int32_t head;
    int32_t row;  // first, in the batch
    int32_t rows;
    int32_t split;  // which, of
    int32_t splits;
    int64_t first_query;  // of the partial sums, when splits > 1
};

int64_t rows_per_tile(int group) {
    return std::max<int64_t>(1, queries_per_tile / group);
}

struct Call {
    const AttendArgs& args;
    const AttendedKeys* selected;
    const std::byte* atoms;

    int group() const { return args.heads / args.kv.heads; }
    int64_t rows(int s) const { return args.sequences.row_begin[s + 1] - args.sequences.row_begin[s]; }
    bool many_rows(int s) const { return args.rows == Rows::bulk && rows(s) > split_rows_max; }
    /// For one KV head: the keys of sequence s that its rows [row, row + count) see between them.
    KeyList keys(int s, int head, int64_t row, int64_t count) const {
        const int64_t visible = args.sequences.kv_length[s] - rows(s) + row + count;
        return {args.kv, args.sequences, s, head, visible, selected == nullptr ? nullptr : selected + s, atoms};
    }
};

/// The plan of a call: every tile, in the order in which threads claim them.
struct Planner {
    const Call& call;
    Work* work = nullptr;  // null while counting
    int64_t count = 0;
    int64_t partial_queries = 0;

    void add(int s) {
        const int64_t rows = call.rows(s), step = rows_per_tile(call.group());
        for (int64_t row = 0; row < rows; row += step) {
            const int64_t used = std::min(step, rows - row);
            for (int head = 0; head < call.args.kv.heads; ++head) {
                const int64_t atoms = call.keys(s, head, row, used).count();
                const int64_t splits = call.many_rows(s) ? 1 : ceil_div(atoms, split_atoms);
                for (int64_t split = 0; split < splits; ++split, ++count) {
                    if (work != nullptr) {
                        work[count] = {s,
                                       head,
                                       static_cast<int32_t>(call.args.sequences.row_begin[s] + row),
                                       static_cast<int32_t>(used),
                                       static_cast<int32_t>(split),
                                       static_cast<int32_t>(splits),
                                       partial_queries};
                    }
                    if (splits > 1) partial_queries += round_up<int64_t>(used * call.group(), 16);
                }
            }
        }
    }
};

AttendTile tile_of(const Call& call, const Work& work, Scratch* scratch) {
    const AttendArgs& args = call.args;
    const int64_t row = work.row - args.sequences.row_begin[work.sequence];
    AttendTile tile;
    tile.q = args.q.slice_rows(work.row, work.rows);
    tile.atom = args.kv.atom;
    tile.first_head = work.head * call.group();
    tile.group = call.group();
    tile.scale = args.scale;
    tile.many_rows = call.many_rows(work.sequence);
    tile.first_visible = args.sequences.kv_length[work.sequence] - call.rows(work.sequence) + row + 1;
    if (scratch == nullptr) return tile;
    const KeyList keys = call.keys(work.sequence, work.head, row, work.rows);
    const int64_t first = work.splits == 1 ? 0 : work.split * split_atoms;
    tile.count = work.splits == 1 ? keys.count() : std::min(split_atoms, keys.count() - first);
    tile.behind = std::min(atoms_ahead, keys.count() - first - tile.count);
    const int64_t written = tile.count + tile.behind;
    auto* const list = scratch->get<TileKeys>(static_cast<size_t>(written) * sizeof(TileKeys));
    keys.write(first, written, list);
    tile.keys = list;
    return tile;
}

}  // namespace

Status Attend::run(const AttendArgs& args, const AttendedKeys* selected, const std::byte* atoms) {
    const Call call{args, selected, atoms};
    const int64_t d = args.kv.atom.head_dim;
    assert(args.heads % args.kv.heads == 0 && args.q.columns == args.heads * d);

    Planner counted{call};
    for (int s = 0; s < args.sequences.sequences; ++s) counted.add(s);
    Planner plan{call, plan_.get<Work>(static_cast<size_t>(counted.count) * sizeof(Work))};
    for (int s = 0; s < args.sequences.sequences; ++s) plan.add(s);
    const Work* const work = plan.work;

    const int64_t partial_queries = plan.partial_queries;
    auto* const partials = partials_.get<float>(static_cast<size_t>(sums_floats(partial_queries, d)) * sizeof(float));
    pool_.run_stretches(plan.count, [&](int64_t i, int thread) {
        PerThread& own = scratch_[static_cast<size_t>(thread)];
        AttendTile tile = tile_of(call, work[i], &own.keys);
        tile.bf16 = bf16_;
        const int64_t queries = round_up<int64_t>(tile.queries(), 16);
        if (work[i].splits > 1) {
            attend_tile(tile, own.kernel, place_sums(partials, partial_queries, work[i].first_query, d));
            return;
        }
        auto* const memory = own.sums.get<float>(static_cast<size_t>(sums_floats(queries, d)) * sizeof(float));
        const AttendSums sums = place_sums(memory, queries, 0, d);
        attend_tile(tile, own.kernel, sums);
        write_tile(tile, 1, sums, args.out, work[i].row);
    });
    if (partial_queries == 0) return Status::ok();
    pool_.run(plan.count, [&](int64_t i, int) {
        if (work[i].splits == 1 || work[i].split != 0) return;
        const AttendSums sums = place_sums(partials, partial_queries, work[i].first_query, d);
        write_tile(tile_of(call, work[i], nullptr), work[i].splits, sums, args.out, work[i].row);
    });
    return Status::ok();
}

}  // namespace rondo::cpu

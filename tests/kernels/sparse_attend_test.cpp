#include "kernels/cpu/scratch.hpp"
#include "tests/kernels/heap_bytes.hpp"
#include "tests/kernels/one_sequence.hpp"

namespace rondo::test {
namespace {

struct HeadLines {
    std::set<int32_t> columns, bands;
    std::set<std::pair<int32_t, int32_t>> blocks;
    int32_t dense_rows = 0;
};

class SparseAttend : public OneSequence {
protected:
    LineTables tables_of(const std::vector<HeadLines>& lines) {
        std::vector<int32_t> column_begin{0}, columns, band_begin{0}, bands, block_begin{0}, blocks, dense;
        for (const HeadLines& head : lines) {
            columns.insert(columns.end(), head.columns.begin(), head.columns.end());
            bands.insert(bands.end(), head.bands.begin(), head.bands.end());
            for (const auto& [row, key] : head.blocks) blocks.insert(blocks.end(), {row, key});
            column_begin.push_back(static_cast<int32_t>(columns.size()));
            band_begin.push_back(static_cast<int32_t>(bands.size()));
            block_begin.push_back(static_cast<int32_t>(blocks.size() / 2));
            dense.push_back(head.dense_rows);
        }
        return {upload(column_begin), upload(columns), upload(band_begin), upload(bands),
                upload(block_begin),  upload(blocks),  upload(dense)};
    }
};
RONDO_ON_EVERY_CPU(SparseAttend);

TEST_P(SparseAttend, ADecodeRowAttendsToTheChosenKeysAndTheTail) {
    uint64_t seed = 1;
    for (DType kv : kv_types) {
        for (const std::vector<int64_t>& rounds :
             std::vector<std::vector<int64_t>>{{40}, {300}, {5, 33, 7, 200}, {1300}}) {
            for (double share : {0.0, 0.1, 0.6}) {
                const Case c = make_case({.heads = 14, .kv_heads = 2, .kv = kv, .rounds = rounds}, ++seed);
                const int64_t tail = c.paged.keys() - 1 - static_cast<int64_t>(seed % 21);
                const auto chosen = some_keys(c, tail, share, seed);
                const AttendedKeys selected = mark(c, chosen, tail);
                const AttendArgs args = args_of(c, Rows::invariant);
                expect_ok(ops().attend_selected(args, &selected, c.atoms()));
                SCOPED_TRACE(testing::Message() << traits(kv).name << ", " << c.paged.keys() << " keys, " << share);
                expect_near(args.out,
                            expected(c,
                                     [&](int64_t, int head, int64_t key) {
                                         return key >= tail || chosen[static_cast<size_t>(head / 7)].contains(key);
                                     }),
                            op_tolerance(kv));
            }
        }
    }
}

TEST_P(SparseAttend, WithoutEntriesItIsDenseBitForBit) {
    for (DType kv : kv_types) {
        const Case c = make_case({.kv = kv, .rounds = {17, 900}}, 5);
        const AttendArgs dense = args_of(c, Rows::invariant), chosen = args_of(c, Rows::invariant);
        const AttendedKeys nothing;
        expect_ok(ops().attend(dense));
        expect_ok(ops().attend_selected(chosen, &nothing, c.atoms()));
        EXPECT_EQ(download_bytes(dense.out), download_bytes(chosen.out));
    }
}

TEST_P(SparseAttend, MovedKeysAttendAsThoseWhereTheyLay) {
    uint64_t seed = 40;
    for (DType kv : kv_types) {
        const int spare = 24;
        Case c = make_case({.heads = 6, .kv_heads = 3, .kv = kv, .rounds = {21, 260}}, ++seed, spare);
        const int64_t tail = c.paged.keys() - 1;
        const auto chosen = some_keys(c, tail, 0.3, seed);
        // Blocks that the sequence does not own, from the end of the pool.
        std::set<int32_t> used(c.paged.blocks.begin(), c.paged.blocks.end());
        std::vector<int32_t> free_atoms;
        for (int32_t block = 0; std::ssize(free_atoms) < spare * 3; ++block) {
            if (used.contains(block)) continue;
            for (int head = 0; head < 3; ++head) free_atoms.push_back(c.atom(block, head));
        }
        std::vector<int32_t> from, to, counts;
        std::vector<KvEntry> entries;
        size_t next = 0, stride = 0;
        for (const auto& keys : chosen) stride = std::max(stride, (keys.size() + 15) / 16);
        for (size_t head = 0; head < chosen.size(); ++head) {
            const size_t first = entries.size();
            size_t t = 16;
            for (const int64_t key : chosen[head]) {
                if (t == 16) {
                    entries.push_back({free_atoms.at(next++), 0, 16});
                    t = 0;
                }
                const auto block = static_cast<size_t>(c.block_of(key));
                from.push_back(c.atom(c.paged.blocks[block], static_cast<int>(head)) * 16 + static_cast<int32_t>(key) -
                               c.paged.block_begin[block]);
                to.push_back(entries.back().atom * 16 + static_cast<int32_t>(t));
                entries.back().allowed |= static_cast<uint16_t>(1U << t++);
            }
            for (; t < 16; ++t) {
                from.push_back(-1);
                to.push_back(entries.back().atom * 16 + static_cast<int32_t>(t));
            }
            counts.push_back(static_cast<int32_t>(entries.size() - first));
            entries.resize(first + stride, {-1, 0xffff, 16});
        }
        expect_ok(
            ops().move_kv(c.kv.atom, const_cast<std::byte*>(c.atoms()), upload(from), upload(to), std::ssize(from)));
        const AttendedKeys selected{upload(entries), upload(counts), static_cast<int32_t>(stride),
                                    static_cast<int32_t>(tail)};
        const AttendArgs args = args_of(c, Rows::invariant);
        expect_ok(ops().attend_selected(args, &selected, c.atoms()));
        SCOPED_TRACE(traits(kv).name);
        expect_near(args.out,
                    expected(c,
                             [&](int64_t, int head, int64_t key) {
                                 return key >= tail || chosen[static_cast<size_t>(head / 2)].contains(key);
                             }),
                    op_tolerance(kv));
    }
}

TEST_P(SparseAttend, RowsAttendToTheUnionOfTheirLines) {
    uint64_t seed = 100;
    for (DType kv : kv_types) {
        for (const Shape& shape : {Shape{.heads = 6, .kv_heads = 2, .kv = kv, .rounds = {200}, .rows = 200},
                                   Shape{.heads = 2, .kv_heads = 2, .kv = kv, .rounds = {37, 400}, .rows = 131},
                                   Shape{.heads = 4, .kv_heads = 1, .kv = kv, .rounds = {9, 3, 90}, .rows = 95},
                                   Shape{.heads = 2, .kv_heads = 1, .kv = kv, .rounds = {1}, .rows = 1}}) {
            const Case c = make_case(shape, ++seed);
            std::mt19937_64 random(seed);
            std::vector<HeadLines> lines(static_cast<size_t>(shape.heads));
            for (size_t h = 0; h < lines.size(); ++h) {
                HeadLines& head = lines[h];
                const auto count = static_cast<int32_t>(c.paged.blocks.size());
                head.bands.insert(0);
                for (int64_t key = 0; key < c.paged.keys(); ++key) {
                    if (random() % 5 == 0 && h != 1) head.columns.insert(static_cast<int32_t>(key));
                }
                for (int i = 0; i < count / 5; ++i) head.bands.insert(static_cast<int32_t>(random() % count));
                if (h == 0) {
                    for (int i = 0; i < 2 * count; ++i)
                        head.blocks.insert(
                            {static_cast<int32_t>(random() % count), static_cast<int32_t>(random() % count)});
                }
                if (h % 2 == 1) head.dense_rows = static_cast<int32_t>(random() % (shape.rows + 1));
            }
            const AttendArgs args = args_of(c, Rows::bulk);
            expect_ok(ops().attend_lines(args, tables_of(lines)));
            SCOPED_TRACE(testing::Message() << traits(kv).name << ", " << shape.rows << " of " << c.paged.keys());
            expect_near(args.out,
                        expected(c,
                                 [&](int64_t row, int h, int64_t key) {
                                     const HeadLines& head = lines[static_cast<size_t>(h)];
                                     const int32_t own = c.block_of(c.first_key() + row), other = c.block_of(key);
                                     return head.columns.contains(static_cast<int32_t>(key)) ||
                                            head.bands.contains(own - other) || head.blocks.contains({own, other}) ||
                                            row >= shape.rows - head.dense_rows;
                                 }),
                        op_tolerance(kv));
        }
    }
}

TEST_P(SparseAttend, ColumnsOfManyHeadsAreGatheredInBoundedMemory) {
    const Case c =
        make_case({.heads = 64, .kv_heads = 1, .head_dim = 32, .kv = DType::f32, .rounds = {8000}, .rows = 2}, 190);
    std::vector<HeadLines> lines(64);
    const auto in_columns = [](int head, int64_t key) { return (key + head) % 16 != 0; };
    for (int head = 0; head < 64; ++head) {
        HeadLines& own = lines[static_cast<size_t>(head)];
        own.bands.insert(0);
        for (int32_t key = 0; key < 8000; ++key)
            if (in_columns(head, key)) own.columns.insert(own.columns.end(), key);
    }
    const AttendArgs args = args_of(c, Rows::bulk);
    const LineTables tables = tables_of(lines);
    const size_t before = heap_bytes();
    expect_ok(ops().attend_lines(args, tables));
    EXPECT_LE(heap_bytes(), before + cpu::scratch_kept_bytes + heap_slack_bytes);
    expect_near(args.out,
                expected(c,
                         [&](int64_t row, int head, int64_t key) {
                             return in_columns(head, key) || c.block_of(c.first_key() + row) == c.block_of(key);
                         }),
                op_tolerance(DType::f32));
}

/// Columns, bands, blocks and last rows share everything among themselves, and much of it twice: shapes, chunks and
/// groups of heads are drawn.
TEST_P(SparseAttend, LinesThatHoldEverythingBetweenThemAreDense) {
    std::mt19937_64 random(300);
    const auto draw = [&](int64_t least, int64_t most) {
        return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
    };
    for (DType kv : kv_types) {
        for (int i = 0; i < 6; ++i) {
            Shape shape{.head_dim = 32 << draw(0, 2), .kv = kv, .rounds = {}};
            shape.kv_heads = static_cast<int>(draw(1, 3));
            shape.heads = shape.kv_heads * static_cast<int>(draw(1, 7));
            for (int64_t rounds = draw(1, 4); rounds > 0; --rounds) shape.rounds.push_back(draw(1, 60));
            shape.rows = draw(1, std::accumulate(shape.rounds.begin(), shape.rounds.end(), int64_t{0}));
            const Case c = make_case(shape, random());
            const auto count = static_cast<int32_t>(c.paged.blocks.size());
            std::vector<HeadLines> lines(static_cast<size_t>(shape.heads));
            for (HeadLines& head : lines) {
                head.bands.insert(0);
                for (int32_t band = 1; band < count; ++band)
                    if (draw(0, 2) == 0) head.bands.insert(band);
                std::set<int32_t> in_columns;
                for (int32_t block = 0; block < count; ++block) {
                    const bool whole = draw(0, 1) == 0;
                    if (whole) in_columns.insert(block);
                    for (int32_t key = c.paged.block_begin[static_cast<size_t>(block)];
                         key < c.paged.block_begin[static_cast<size_t>(block) + 1]; ++key)
                        if (whole || draw(0, 3) == 0) head.columns.insert(key);
                }
                for (int32_t row = c.block_of(c.first_key()); row < count; ++row) {
                    for (int32_t key = 0; key <= row; ++key) {
                        const bool held = head.bands.contains(row - key) || in_columns.contains(key);
                        if (!held || draw(0, 4) == 0) head.blocks.insert({row, key});
                    }
                }
                if (draw(0, 2) == 0) head.dense_rows = static_cast<int32_t>(draw(0, shape.rows));
            }
            const AttendArgs args = args_of(c, Rows::bulk);
            expect_ok(ops().attend_lines(args, tables_of(lines)));
            SCOPED_TRACE(testing::Message()
                         << traits(kv).name << ", " << shape.rows << " of " << c.paged.keys() << ", " << shape.heads
                         << " heads of " << shape.head_dim << " over " << shape.kv_heads);
            expect_near(args.out, expected(c, [](int64_t, int, int64_t) { return true; }), op_tolerance(kv));
        }
    }
}

}  // namespace
}  // namespace rondo::test

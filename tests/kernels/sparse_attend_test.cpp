#include <cmath>
#include <numeric>
#include <set>

#include "tests/kernels/paged_kv.hpp"

namespace rondo::test {
namespace {

struct Shape {
    int heads = 4;
    int kv_heads = 2;
    int head_dim = 64;
    DType kv = DType::bf16;
    std::vector<int64_t> rounds = {300};
    int64_t rows = 1;  ///< the last keys' queries

    int group() const { return heads / kv_heads; }
    double scale() const { return 1.0 / std::sqrt(head_dim); }
};

double op_tolerance(DType kv) {
    return kv == DType::f32 ? 5e-6 : kv == DType::bf16 ? 4e-3 : 8e-3;
}

/// One sequence in the pool, and the ops that attend to some of its keys.
class SparseAttend : public PagedTest {
protected:
    struct Case {
        Shape shape;
        KvLayer kv;
        PagedSequence paged;
        KeysAndValues stored;
        Matrix q;
        SequenceTables tables;

        const std::byte* atoms() const { return kv.base - static_cast<size_t>(kv.heads) * kv.atom.bytes(); }
        int32_t atom(int32_t block, int head) const { return block * 3 * kv.heads + kv.heads + head; }
        int64_t first_key() const { return paged.keys() - shape.rows; }
        int32_t block_of(int64_t key) const {
            const auto after = std::upper_bound(paged.block_begin.begin(), paged.block_begin.end(), key);
            return static_cast<int32_t>(after - paged.block_begin.begin()) - 1;
        }
    };

    Case make_case(const Shape& shape, uint64_t seed, int spare_blocks = 0) {
        Case made;
        made.shape = shape;
        int blocks = 3 + spare_blocks;
        for (int64_t round : shape.rounds) blocks += static_cast<int>(round / kv_block_tokens + 1);
        made.kv = make_layer(shape.kv, shape.kv_heads, shape.head_dim, blocks);
        BlockDealer dealer(blocks, seed);
        made.paged = dealer.deal(shape.rounds);
        const int64_t keys = made.paged.keys(), columns = int64_t{shape.kv_heads} * shape.head_dim;
        const std::vector<int32_t> slots = made.paged.slots(0, keys);
        append(made.kv, random_matrix(keys, columns, seed + 1, 2.0), random_matrix(keys, columns, seed + 2), slots);
        made.stored = read(made.kv, slots);
        made.q = random_matrix(shape.rows, int64_t{shape.heads} * shape.head_dim, seed + 3);
        SequenceTables& tables = made.tables;
        tables.sequences = 1;
        tables.rows = static_cast<int>(shape.rows);
        tables.blocks_stride = std::ssize(made.paged.blocks) + 1;
        tables.row_begin = upload(std::vector<int32_t>{0, static_cast<int32_t>(shape.rows)});
        tables.kv_length = upload(std::vector<int32_t>{static_cast<int32_t>(keys)});
        tables.block_count = upload(std::vector<int32_t>{static_cast<int32_t>(made.paged.blocks.size())});
        tables.blocks = upload(made.paged.blocks);
        tables.block_begin = upload(made.paged.block_begin);
        return made;
    }

    AttendArgs args_of(const Case& c, Rows rows) {
        AttendArgs args;
        args.out = poisoned(DType::f32, c.q.rows, c.q.columns);
        args.q = upload(c.q, DType::f32);
        args.heads = c.shape.heads;
        args.kv = c.kv;
        args.sequences = c.tables;
        args.scale = static_cast<float>(c.shape.scale());
        args.rows = rows;
        return args;
    }

    Matrix expected(const Case& c, const reference::Sees& sees) {
        return reference::attend(c.q, c.stored.k, c.stored.v, c.shape.heads, c.shape.kv_heads,
                                 static_cast<double>(static_cast<float>(c.shape.scale())), sees);
    }

    /// Of each KV head some random keys before `tail`, as marks on the atoms where they lie.
    SelectedKeys mark(const Case& c, const std::vector<std::set<int64_t>>& chosen, int64_t tail) {
        std::vector<std::vector<KvEntry>> by_head;
        size_t stride = 0;
        for (size_t head = 0; head < chosen.size(); ++head) {
            std::vector<KvEntry> entries;
            for (const int64_t key : chosen[head]) {
                const auto block = static_cast<size_t>(c.block_of(key));
                const int32_t atom = c.atom(c.paged.blocks[block], static_cast<int>(head));
                const int32_t begin = c.paged.block_begin[block];
                if (entries.empty() || entries.back().atom != atom)
                    entries.push_back({atom, 0, static_cast<uint16_t>(c.paged.block_begin[block + 1] - begin)});
                entries.back().allowed |= static_cast<uint16_t>(1U << (key - begin));
            }
            stride = std::max(stride, entries.size());
            by_head.push_back(std::move(entries));
        }
        std::vector<KvEntry> table(stride * chosen.size() + 1, {-1, 0xffff, 16});
        std::vector<int32_t> counts;
        for (size_t head = 0; head < chosen.size(); ++head) {
            std::copy(by_head[head].begin(), by_head[head].end(),
                      table.begin() + static_cast<std::ptrdiff_t>(head * stride));
            counts.push_back(static_cast<int32_t>(by_head[head].size()));
        }
        return {upload(table), upload(counts), static_cast<int32_t>(stride), static_cast<int32_t>(tail)};
    }

    std::vector<std::set<int64_t>> some_keys(const Case& c, int64_t below, double share, uint64_t seed) {
        std::mt19937_64 random(seed);
        std::vector<std::set<int64_t>> chosen(static_cast<size_t>(c.shape.kv_heads));
        for (auto& keys : chosen) {
            for (int64_t key = 0; key < below; ++key) {
                if (std::uniform_real_distribution<>(0.0, 1.0)(random) < share) keys.insert(key);
            }
        }
        return chosen;
    }
};
INSTANTIATE_TEST_SUITE_P(EveryCpu, SparseAttend, testing::ValuesIn(std::begin(places), std::end(places) - 1),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(SparseAttend, ADecodeRowAttendsToTheChosenKeysAndTheTail) {
    uint64_t seed = 1;
    for (DType kv : kv_types) {
        for (const std::vector<int64_t>& rounds :
             std::vector<std::vector<int64_t>>{{40}, {300}, {5, 33, 7, 200}, {1300}}) {
            for (double share : {0.0, 0.1, 0.6}) {
                const Case c = make_case({.heads = 14, .kv_heads = 2, .kv = kv, .rounds = rounds}, ++seed);
                const int64_t tail = c.paged.keys() - 1 - static_cast<int64_t>(seed % 21);
                const auto chosen = some_keys(c, tail, share, seed);
                const SelectedKeys selected = mark(c, chosen, tail);
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
        const SelectedKeys nothing;
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
        const SelectedKeys selected{upload(entries), upload(counts), static_cast<int32_t>(stride),
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

struct HeadLines {
    std::set<int32_t> columns, bands;
    std::set<std::pair<int32_t, int32_t>> blocks;
    int32_t dense_rows = 0;
};

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
            std::vector<int32_t> column_begin{0}, columns, band_begin{0}, bands, block_begin{0}, blocks, dense;
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
                columns.insert(columns.end(), head.columns.begin(), head.columns.end());
                bands.insert(bands.end(), head.bands.begin(), head.bands.end());
                for (const auto& [row, key] : head.blocks) blocks.insert(blocks.end(), {row, key});
                column_begin.push_back(static_cast<int32_t>(columns.size()));
                band_begin.push_back(static_cast<int32_t>(bands.size()));
                block_begin.push_back(static_cast<int32_t>(blocks.size() / 2));
                dense.push_back(head.dense_rows);
            }
            const LineTables tables{upload(column_begin), upload(columns), upload(band_begin), upload(bands),
                                    upload(block_begin),  upload(blocks),  upload(dense)};
            const AttendArgs args = args_of(c, Rows::bulk);
            expect_ok(ops().attend_lines(args, tables));
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

TEST_P(SparseAttend, ScoresAreTheSoftmaxOfTheRowsOverAllKeysTheySee) {
    uint64_t seed = 200;
    for (DType kv : kv_types) {
        for (const Shape& shape : {Shape{.heads = 14, .kv_heads = 2, .kv = kv, .rounds = {300}, .rows = 4},
                                   Shape{.heads = 3, .kv_heads = 3, .kv = kv, .rounds = {13, 500}, .rows = 37},
                                   Shape{.heads = 40, .kv_heads = 2, .kv = kv, .rounds = {70}, .rows = 3},
                                   Shape{.heads = 2, .kv_heads = 1, .kv = kv, .rounds = {1}, .rows = 1}}) {
            const Case c = make_case(shape, ++seed);
            const int64_t keys = c.paged.keys() - (shape.rows > 4 ? 5 : 0);
            ScoreArgs args;
            args.q = upload(c.q, DType::f32);
            args.heads = shape.heads;
            args.kv = c.kv;
            args.sequence = c.tables;
            std::vector<int32_t> row_keys(static_cast<size_t>(shape.rows));
            std::iota(row_keys.begin(), row_keys.end(), static_cast<int32_t>(c.first_key()));
            args.row_keys = upload(row_keys);
            args.keys = keys;
            args.scale = static_cast<float>(shape.scale());

            // The weights themselves, through values that pick one key each.
            std::vector<Matrix> weights(static_cast<size_t>(shape.heads), Matrix(shape.rows, keys));
            Matrix sums(shape.kv_heads, keys);
            for (int h = 0; h < shape.heads; ++h) {
                for (int64_t r = 0; r < shape.rows; ++r) {
                    const int64_t seen = std::min<int64_t>(row_keys[static_cast<size_t>(r)] + 1, keys);
                    Matrix scores(1, seen);
                    for (int64_t key = 0; key < seen; ++key) {
                        double dot = 0.0;
                        for (int64_t i = 0; i < shape.head_dim; ++i)
                            dot += c.q.at(r, int64_t{h} * shape.head_dim + i) *
                                   c.stored.k.at(key, int64_t{h / shape.group()} * shape.head_dim + i);
                        scores.at(0, key) = dot * static_cast<double>(args.scale);
                    }
                    const Matrix row = reference::softmax(scores);
                    for (int64_t key = 0; key < seen; ++key) {
                        weights[static_cast<size_t>(h)].at(r, key) = row.at(0, key);
                        sums.at(h / shape.group(), key) += row.at(0, key) / shape.group();
                    }
                }
            }
            SCOPED_TRACE(testing::Message() << traits(kv).name << ", " << shape.rows << " of " << keys);
            const double tolerance = kv == DType::f32 ? 5e-6 : 1.2e-2;  // an error of a score is one of its exponential
            const Tensor out = poisoned(DType::f32, shape.kv_heads, keys);
            expect_ok(ops().score_keys(out, args));
            expect_near(out, sums, tolerance);
            std::vector<int> told(static_cast<size_t>(shape.heads), 0);
            expect_ok(ops().score_rows(args, [&](int head, const Tensor& rows) {
                ++told[static_cast<size_t>(head)];
                Matrix got(shape.rows, keys);
                ASSERT_EQ(rows.rows, shape.rows);
                ASSERT_EQ(rows.columns, keys);
                for (int64_t r = 0; r < shape.rows; ++r)
                    for (int64_t key = 0; key < keys; ++key) got.at(r, key) = rows.row<float>(r)[key];
                EXPECT_LE(relative_error(got, weights[static_cast<size_t>(head)]), tolerance);
                for (int64_t r = 0; r < shape.rows; ++r) {
                    for (int64_t key = row_keys[static_cast<size_t>(r)] + 1; key < keys; ++key)
                        ASSERT_EQ(got.at(r, key), 0.0);
                }
            }));
            EXPECT_EQ(told, std::vector<int>(static_cast<size_t>(shape.heads), 1));
        }
    }
}

TEST_P(SparseAttend, BlocksAreScoredByTheirMeans) {
    uint64_t seed = 250;
    for (DType kv : kv_types) {
        for (const Shape& shape :
             {Shape{.heads = 14, .kv_heads = 2, .kv = kv, .rounds = {5, 33, 7, 200}, .rows = 70},
              Shape{.heads = 3, .kv_heads = 3, .head_dim = 40, .kv = kv, .rounds = {90}, .rows = 90},
              Shape{.heads = 2, .kv_heads = 1, .kv = kv, .rounds = {1}, .rows = 1}}) {
            const Case c = make_case(shape, ++seed);
            ScoreArgs args;
            args.q = upload(c.q, DType::f32);
            args.heads = shape.heads;
            args.kv = c.kv;
            args.sequence = c.tables;
            args.keys = c.paged.keys();
            args.scale = static_cast<float>(shape.scale());
            const int64_t blocks = std::ssize(c.paged.blocks), first = c.block_of(c.first_key());
            Matrix wanted(shape.heads * (blocks - first), blocks);
            for (int h = 0; h < shape.heads; ++h) {
                const auto mean = [&](const Matrix& rows, int64_t column, int64_t begin, int64_t end) {
                    double sum = 0.0;
                    for (int64_t r = begin; r < end; ++r) sum += rows.at(r, column);
                    return sum / static_cast<double>(end - begin);
                };
                for (int64_t row = first; row < blocks; ++row) {
                    const int64_t begin =
                        std::max<int64_t>(c.paged.block_begin[static_cast<size_t>(row)] - c.first_key(), 0);
                    const int64_t end = c.paged.block_begin[static_cast<size_t>(row) + 1] - c.first_key();
                    for (int64_t block = 0; block <= row; ++block) {
                        double dot = 0.0;
                        for (int64_t i = 0; i < shape.head_dim; ++i)
                            dot += mean(c.q, int64_t{h} * shape.head_dim + i, begin, end) *
                                   mean(c.stored.k, int64_t{h / shape.group()} * shape.head_dim + i,
                                        c.paged.block_begin[static_cast<size_t>(block)],
                                        c.paged.block_begin[static_cast<size_t>(block) + 1]);
                        wanted.at(h * (blocks - first) + row - first, block) = dot * shape.scale();
                    }
                }
            }
            const Tensor out = poisoned(DType::f32, wanted.rows, blocks);
            expect_ok(ops().score_blocks(out, args));
            expect_near(out, wanted, 5e-6);
        }
    }
}

TEST_P(SparseAttend, ChosenKeysAreWeighedAsTheRowAttendsToThem) {
    uint64_t seed = 300;
    for (DType kv : kv_types) {
        for (const Shape& shape : {Shape{.heads = 14, .kv_heads = 2, .kv = kv, .rounds = {5, 33, 7, 200}},
                                   Shape{.heads = 3, .kv_heads = 3, .head_dim = 40, .kv = kv, .rounds = {300}},
                                   Shape{.heads = 40, .kv_heads = 2, .kv = kv, .rounds = {21}}}) {
            const Case c = make_case(shape, ++seed);
            const int64_t keys = c.paged.keys(), tail = keys - 1 - static_cast<int64_t>(seed % 20);
            const auto chosen = some_keys(c, tail, seed % 2 == 0 ? 0.0 : 0.3, seed);
            const SelectedKeys selected = mark(c, chosen, tail);
            ScoreArgs args;
            args.q = upload(c.q, DType::f32);
            args.heads = shape.heads;
            args.kv = c.kv;
            args.sequence = c.tables;
            args.keys = keys;
            args.scale = static_cast<float>(shape.scale());
            const int64_t columns = (selected.stride + std::ssize(c.paged.blocks)) * kv_block_tokens;
            Matrix sums(shape.kv_heads, columns);
            for (int h = 0; h < shape.heads; ++h) {
                const int kv_head = h / shape.group();
                std::vector<int64_t> seen(chosen[static_cast<size_t>(kv_head)].begin(),
                                          chosen[static_cast<size_t>(kv_head)].end());
                for (int64_t key = tail; key < keys; ++key) seen.push_back(key);
                Matrix scores(1, std::ssize(seen));
                for (size_t i = 0; i < seen.size(); ++i) {
                    for (int64_t n = 0; n < shape.head_dim; ++n)
                        scores.values[i] += c.q.at(0, int64_t{h} * shape.head_dim + n) *
                                            c.stored.k.at(seen[i], int64_t{kv_head} * shape.head_dim + n) *
                                            static_cast<double>(args.scale);
                }
                const Matrix weights = reference::softmax(scores);
                // The atoms of the chosen keys in the order of their blocks, then the tail's blocks.
                int64_t atom = -1, block = -1;
                for (size_t i = 0; i < seen.size(); ++i) {
                    const bool in_tail = seen[i] >= tail;
                    if (c.block_of(seen[i]) != block || (in_tail && seen[i] == tail)) ++atom;
                    block = c.block_of(seen[i]);
                    sums.at(kv_head,
                            atom * kv_block_tokens + seen[i] - c.paged.block_begin[static_cast<size_t>(block)]) +=
                        weights.at(0, static_cast<int64_t>(i)) / shape.group();
                }
            }
            SCOPED_TRACE(testing::Message() << traits(kv).name << ", " << keys << " keys");
            const Tensor out = poisoned(DType::f32, shape.kv_heads, columns);
            expect_ok(ops().score_selected(out, args, selected, c.atoms()));
            expect_near(out, sums, 5e-6);
        }
    }
}

}  // namespace
}  // namespace rondo::test

#include <cmath>

#include "tests/kernels/paged_kv.hpp"

namespace rondo::test {
namespace {

/// One sequence of a batch: its keys' rounds, and how many of the last keys are this batch's rows.
struct Part {
    std::vector<int64_t> rounds;
    int64_t rows = 1;
};

struct Shape {
    int heads = 4;
    int kv_heads = 2;
    int head_dim = 64;
    DType kv = DType::bf16;
    DType q = DType::f32;
    DType out = DType::f32;

    double scale() const { return 1.0 / std::sqrt(head_dim); }
    int64_t kv_columns() const { return int64_t{kv_heads} * head_dim; }
    int64_t q_columns() const { return int64_t{heads} * head_dim; }
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    return out << traits(shape.q).name << " q, " << traits(shape.kv).name << " kv, heads " << shape.heads << "/"
               << shape.kv_heads << " of " << shape.head_dim;
}

/// With f32 KV everything is f32: sums over 2000 keys and an exponential. Otherwise a backend may bring queries and
/// weights to bf16 for its dot products (1.7e-3 each, in the mean). With i8 KV it may bring queries to int8 codes.
double op_tolerance(const Shape& shape) {
    return shape.kv == DType::f32 ? 5e-6 : shape.kv == DType::bf16 ? 4e-3 : 8e-3;
}

constexpr Rows row_modes[] = {Rows::bulk, Rows::invariant};

class Attend : public PagedTest {
protected:
    struct Sequence {
        PagedSequence paged;
        KeysAndValues stored;  ///< as the layer holds them
        Matrix q;
        int64_t rows() const { return q.rows; }
    };

    struct Batch {
        Shape shape;
        KvLayer kv;
        std::vector<Sequence> sequences;
    };

    Batch make_batch(const Shape& shape, const std::vector<Part>& parts, uint64_t seed = 131, double key_spread = 1.0) {
        Batch batch{shape, {}, {}};
        int blocks = 3;
        for (const Part& part : parts) {
            for (int64_t round : part.rounds) blocks += static_cast<int>(round / kv_block_tokens + 1);
        }
        batch.kv = make_layer(shape.kv, shape.kv_heads, shape.head_dim, blocks);
        BlockDealer dealer(blocks, seed);
        for (const Part& part : parts) {
            Sequence sequence{dealer.deal(part.rounds), {}, {}};
            const int64_t keys = sequence.paged.keys();
            const std::vector<int32_t> slots = sequence.paged.slots(0, keys);
            const Matrix k = random_matrix(keys, shape.kv_columns(), ++seed, key_spread);
            const Matrix v = random_matrix(keys, shape.kv_columns(), ++seed);
            append(batch.kv, k, v, slots);
            sequence.stored = read(batch.kv, slots);
            sequence.q = rounded(random_matrix(part.rows, shape.q_columns(), ++seed), shape.q);
            batch.sequences.push_back(std::move(sequence));
        }
        return batch;
    }

    /// Tables with one entry more than they need; every entry beyond a sequence's own is −1.
    SequenceTables upload_tables(const std::vector<const Sequence*>& sequences, const std::vector<int64_t>& kv_lengths,
                                 const std::vector<int64_t>& rows) {
        SequenceTables tables;
        tables.sequences = static_cast<int>(sequences.size());
        std::vector<int32_t> row_begin = {0};
        std::vector<int32_t> kv_length;
        std::vector<int32_t> block_count;
        for (size_t s = 0; s < sequences.size(); ++s) {
            const std::vector<int32_t>& begin = sequences[s]->paged.block_begin;
            const auto end = std::lower_bound(begin.begin(), begin.end(), static_cast<int32_t>(kv_lengths[s]));
            block_count.push_back(static_cast<int32_t>(end - begin.begin()));
            kv_length.push_back(static_cast<int32_t>(kv_lengths[s]));
            row_begin.push_back(row_begin.back() + static_cast<int32_t>(rows[s]));
        }
        tables.rows = row_begin.back();
        tables.blocks_stride = *std::max_element(block_count.begin(), block_count.end()) + 2;
        std::vector<int32_t> blocks(static_cast<size_t>(tables.sequences * tables.blocks_stride), -1);
        std::vector<int32_t> block_begin(blocks.size(), -1);
        for (size_t s = 0; s < sequences.size(); ++s) {
            const PagedSequence& paged = sequences[s]->paged;
            const int64_t at = static_cast<int64_t>(s) * tables.blocks_stride;
            std::copy_n(paged.blocks.begin(), block_count[s], blocks.begin() + at);
            std::copy_n(paged.block_begin.begin(), block_count[s], block_begin.begin() + at);
            block_begin[static_cast<size_t>(at + block_count[s])] = kv_length[s];
        }
        tables.row_begin = upload(row_begin);
        tables.kv_length = upload(kv_length);
        tables.block_count = upload(block_count);
        tables.blocks = upload(blocks);
        tables.block_begin = upload(block_begin);
        return tables;
    }

    /// For rows [first[s], first[s] + rows[s]) of each chosen sequence, one below the other.
    AttendArgs args_of(const Batch& batch, const std::vector<size_t>& chosen, Rows mode, int64_t first = 0,
                       int64_t rows_max = 1 << 20) {
        std::vector<const Sequence*> sequences;
        std::vector<int64_t> lengths;
        std::vector<int64_t> rows;
        Matrix q(0, batch.shape.q_columns());
        for (size_t s : chosen) {
            const Sequence& sequence = batch.sequences[s];
            rows.push_back(std::min(rows_max, sequence.rows() - first));
            sequences.push_back(&sequence);
            lengths.push_back(sequence.paged.keys() - sequence.rows() + first + rows.back());
            q = stacked(q, sequence.q.slice_rows(first, rows.back()));
        }
        AttendArgs args;
        args.out = poisoned(batch.shape.out, q.rows, q.columns);
        args.q = upload(q, batch.shape.q);
        args.heads = batch.shape.heads;
        args.kv = batch.kv;
        args.sequences = upload_tables(sequences, lengths, rows);
        args.scale = static_cast<float>(batch.shape.scale());
        args.rows = mode;
        return args;
    }

    Tensor attend(const Batch& batch, const std::vector<size_t>& chosen, Rows mode, int64_t first = 0,
                  int64_t rows_max = 1 << 20) {
        const AttendArgs args = args_of(batch, chosen, mode, first, rows_max);
        expect_ok(ops().attend(args));
        return args.out;
    }

    static std::vector<size_t> all_of(const Batch& batch) {
        std::vector<size_t> all(batch.sequences.size());
        std::iota(all.begin(), all.end(), 0);
        return all;
    }

    static Matrix expected(const Shape& shape, const Sequence& sequence) {
        return reference::attend(sequence.q, sequence.stored.k, sequence.stored.v, shape.heads, shape.kv_heads,
                                 static_cast<double>(static_cast<float>(shape.scale())));
    }

    void check(const Batch& batch) {
        std::vector<Matrix> references;
        for (const Sequence& sequence : batch.sequences) references.push_back(expected(batch.shape, sequence));
        for (Rows mode : row_modes) {
            const Tensor out = attend(batch, all_of(batch), mode);
            int64_t row = 0;
            for (size_t s = 0; s < references.size(); ++s) {
                SCOPED_TRACE(testing::Message() << batch.shape << ", sequence " << s << " of " << references[s].rows
                                                << " rows and " << batch.sequences[s].paged.keys() << " keys, "
                                                << (mode == Rows::bulk ? "bulk" : "invariant"));
                expect_near(out.slice_rows(row, references[s].rows), references[s], op_tolerance(batch.shape));
                row += references[s].rows;
            }
        }
    }
};
RONDO_ON_EVERY_DEVICE(Attend);

Shape with_types(DType kv, DType q, DType out) {
    Shape shape;
    shape.kv = kv;
    shape.q = q;
    shape.out = out;
    return shape;
}

TEST_P(Attend, ADecodeRowMatchesTheReferenceAtEveryDepth) {
    for (DType kv : kv_types) {
        for (int64_t keys : {1, 2, 15, 16, 17, 33, 300, 2011}) {
            check(make_batch({.heads = 14, .kv_heads = 2, .kv = kv}, {{{keys}, 1}}));
        }
    }
}

TEST_P(Attend, PrefillRowsSeeTheKeysUpToThemselves) {
    for (DType kv : kv_types) {
        for (int64_t rows : {1, 7, 64, 200}) {
            for (int64_t past : {0, 5, 100}) check(make_batch({.kv = kv}, {{{past, rows}, rows}}));
        }
    }
}

TEST_P(Attend, PrefillRowsMatchTheReferenceOverALongPast) {
    for (DType kv : kv_types) check(make_batch({.heads = 2, .kv_heads = 1, .kv = kv}, {{{1900, 70}, 70}}));
}

TEST_P(Attend, MatchesTheReferenceForEveryTypeOfQueryAndOutput) {
    for (DType kv : kv_types) {
        for (DType q : activation_types) {
            for (DType out : activation_types) check(make_batch(with_types(kv, q, out), {{{90}, 1}, {{40, 33}, 33}}));
        }
    }
}

TEST_P(Attend, MatchesTheReferenceForEveryHeadSizeAndSharing) {
    for (DType kv : kv_types) {
        for (int d : {16, 32, 64, 80, 96, 128, 256}) {
            for (auto [heads, kv_heads] : {std::pair(1, 1), std::pair(4, 4), std::pair(6, 3), std::pair(7, 1)}) {
                check(make_batch({.heads = heads, .kv_heads = kv_heads, .head_dim = d, .kv = kv},
                                 {{{50}, 1}, {{21, 19}, 19}}));
            }
        }
    }
}

/// Prefill chunks and decode rows of sequences of all lengths, whose rounds leave gaps in their blocks: each gap is
/// NaN.
TEST_P(Attend, MixesSequencesWhoseRoundsLeaveGaps) {
    for (DType kv : kv_types) {
        check(make_batch({.heads = 6, .kv_heads = 2, .kv = kv}, {{{5, 16, 1, 33, 2}, 2},
                                                                 {{1}, 1},
                                                                 {{3, 3, 3, 3, 3, 3, 4}, 1},
                                                                 {{17, 40}, 40},
                                                                 {{400, 1, 7}, 1},
                                                                 {{9, 9}, 12}}));
    }
}

/// Scores of some hundreds, growing and falling along the keys: whatever is kept of earlier keys must be rescaled, and
/// nothing may overflow.
TEST_P(Attend, StaysExactWhenScoresAreLarge) {
    for (double spread : {30.0, 300.0}) {
        check(make_batch(with_types(DType::f32, DType::f32, DType::f32), {{{200}, 1}, {{30, 60}, 60}}, 151, spread));
    }
}

/// Weights that are all the same round the same way when they are added to a large sum: one by one they would err by
/// some tenths of a percent.
TEST_P(Attend, ManyEvenKeysCountTheSame) {
    constexpr int64_t keys = 20'000;
    const Shape shape{.heads = 1, .kv_heads = 1, .head_dim = 16, .kv = DType::f32};
    Batch batch = make_batch(shape, {{{keys}, 1}});
    Sequence& sequence = batch.sequences[0];
    Matrix k(keys, shape.head_dim), v(keys, shape.head_dim);
    sequence.q.at(0, 0) = 1.0;
    k.at(0, 0) = -std::log(0.7) / shape.scale();  // the others weigh 0.7 of it
    for (int64_t key = keys / 2; key < keys; ++key) v.at(key, 0) = 1.0;
    const std::vector<int32_t> slots = sequence.paged.slots(0, keys);
    append(batch.kv, k, v, slots);
    sequence.stored = read(batch.kv, slots);
    check(batch);
}

/// A batch's prompts and its answers are two calls on the same tensors: the tables of the second begin at a later
/// sequence, and its rows behind those of the first.
TEST_P(Attend, TablesOfLaterSequencesNameTheirOwnRows) {
    for (DType kv : kv_types) {
        const Batch batch = make_batch({.kv = kv}, {{{40, 9}, 20}, {{5, 33}, 17}, {{17}, 1}, {{70}, 1}});
        const AttendArgs whole = args_of(batch, all_of(batch), Rows::bulk);
        const int sequences = whole.sequences.sequences;
        for (const auto& [begin, end] : {std::pair(2, sequences), std::pair(0, 1), std::pair(1, 2)}) {
            AttendArgs part = whole;
            SequenceTables& tables = part.sequences;
            tables.sequences = end - begin;
            tables.rows = 0;
            for (int s = begin; s < end; ++s) {
                tables.rows += static_cast<int>(batch.sequences[static_cast<size_t>(s)].rows());
            }
            tables.row_begin += begin;
            tables.kv_length += begin;
            tables.block_count += begin;
            tables.blocks += begin * tables.blocks_stride;
            tables.block_begin += begin * tables.blocks_stride;
            part.rows = begin == 2 ? Rows::invariant : Rows::bulk;
            expect_ok(ops().attend(part));
        }
        int64_t row = 0;
        for (const Sequence& sequence : batch.sequences) {
            SCOPED_TRACE(testing::Message() << batch.shape << ", rows from " << row);
            expect_near(whole.out.slice_rows(row, sequence.rows()), expected(batch.shape, sequence),
                        op_tolerance(batch.shape));
            row += sequence.rows();
        }
    }
}

TEST_P(Attend, ReadsItsQueriesFromAFusedRow) {
    const Batch batch = make_batch({}, {{{70, 3}, 3}});
    const Sequence& sequence = batch.sequences[0];
    const Tensor fused = poisoned(DType::f32, 3, batch.shape.q_columns() + 2 * batch.shape.kv_columns());
    AttendArgs args;
    args.q = fused.slice_columns(0, batch.shape.q_columns());
    write(args.q, sequence.q);
    args.out = poisoned(DType::f32, 3, batch.shape.q_columns(), 64);
    args.heads = batch.shape.heads;
    args.kv = batch.kv;
    args.sequences = upload_tables({&sequence}, {73}, {3});
    args.scale = static_cast<float>(batch.shape.scale());
    expect_ok(ops().attend(args));
    expect_near(args.out, expected(batch.shape, sequence), op_tolerance(batch.shape));
}

/// The promise behind Rows::invariant: a conversation's bits do not change with the batch around it.
TEST_P(Attend, InvariantRowsHaveTheSameBitsAloneAndInABatch) {
    for (DType kv : kv_types) {
        for (DType q : activation_types) {
            Shape shape{.heads = 14, .kv_heads = 2, .kv = kv, .q = q};
            const Batch batch = make_batch(
                shape, {{{1}, 1}, {{37}, 1}, {{5, 300}, 1}, {{2000}, 1}, {{16, 16}, 1}, {{700, 4}, 3}, {{64}, 1}});
            const Tensor together = attend(batch, all_of(batch), Rows::invariant);
            const Tensor reversed = attend(batch, {6, 5, 4, 3, 2, 1, 0}, Rows::invariant);
            int64_t row = 0;
            for (size_t s = 0; s < batch.sequences.size(); ++s) {
                SCOPED_TRACE(testing::Message() << shape << ", sequence " << s);
                const int64_t rows = batch.sequences[s].rows();
                const std::vector<std::byte> alone = download_bytes(attend(batch, {s}, Rows::invariant));
                EXPECT_EQ(alone, download_bytes(together.slice_rows(row, rows)));
                EXPECT_EQ(alone, download_bytes(reversed.slice_rows(together.rows - row - rows, rows)));
                row += rows;
            }
        }
    }
}

/// Rows of one sequence that come together, and one at a time: kernels may group them differently, but must sum each
/// alike. Groups of 1, 7 and 8 queries on a key: one row fills eight lanes or fewer, two fill more.
TEST_P(Attend, InvariantRowsHaveTheSameBitsAloneAndBesideRowsOfTheirSequence) {
    for (DType kv : kv_types) {
        for (auto [heads, kv_heads] : {std::pair(14, 2), std::pair(4, 4), std::pair(8, 1), std::pair(9, 1)}) {
            const Shape shape{.heads = heads, .kv_heads = kv_heads, .kv = kv};
            const Batch batch = make_batch(shape, {{{37, 600, 20}, 20}});
            const Tensor together = attend(batch, {0}, Rows::invariant);
            for (int64_t row = 0; row < 20; ++row) {
                EXPECT_EQ(download_bytes(attend(batch, {0}, Rows::invariant, row, 1)),
                          download_bytes(together.slice_rows(row, 1)))
                    << shape << ", row " << row;
            }
        }
    }
}

TEST_P(Attend, ChunksOfAPromptGiveWhatTheWholeGives) {
    for (DType kv : kv_types) {
        const Batch batch = make_batch({.kv = kv}, {{{20, 130}, 130}});
        const Matrix whole = expected(batch.shape, batch.sequences[0]);
        for (Rows mode : row_modes) {
            for (int64_t chunk : {1, 7, 64}) {
                for (int64_t first = 0; first < 130; first += chunk) {
                    SCOPED_TRACE(testing::Message() << batch.shape << ", chunk of " << chunk << " from " << first);
                    const Tensor out = attend(batch, {0}, mode, first, chunk);
                    expect_near(out, whole.slice_rows(first, out.rows), op_tolerance(batch.shape));
                }
            }
        }
    }
}

}  // namespace
}  // namespace rondo::test

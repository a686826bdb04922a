#include "kernels/cpu/scratch.hpp"
#include "tests/kernels/heap_bytes.hpp"
#include "tests/kernels/one_sequence.hpp"

namespace rondo::test {
namespace {

class Score : public OneSequence {
protected:
    /// Scores of the case's rows, its last keys', over its first `keys`.
    ScoreArgs score_args(const Case& c, int64_t keys) {
        ScoreArgs args;
        args.q = upload(c.q, DType::f32);
        args.heads = c.shape.heads;
        args.kv = c.kv;
        args.sequence = c.tables;
        std::vector<int32_t> row_keys(static_cast<size_t>(c.shape.rows));
        std::iota(row_keys.begin(), row_keys.end(), static_cast<int32_t>(c.first_key()));
        args.row_keys = upload(row_keys);
        args.keys = keys;
        args.scale = static_cast<float>(c.shape.scale());
        return args;
    }
    /// A row's weights in a query head, in double.
    static Matrix weights_of_row(const Case& c, const ScoreArgs& args, int head, int64_t row) {
        const Shape& shape = c.shape;
        const int64_t seen = std::min<int64_t>(c.first_key() + row + 1, args.keys);
        Matrix scores(1, seen);
        for (int64_t key = 0; key < seen; ++key) {
            double dot = 0.0;
            for (int64_t i = 0; i < shape.head_dim; ++i)
                dot += c.q.at(row, int64_t{head} * shape.head_dim + i) *
                       c.stored.k.at(key, int64_t{head / shape.group()} * shape.head_dim + i);
            scores.at(0, key) = dot * static_cast<double>(args.scale);
        }
        return reference::softmax(scores);
    }
};
RONDO_ON_EVERY_CPU(Score);
class ScoreKeys : public Score {};
RONDO_ON_EVERY_DEVICE(ScoreKeys);

TEST_P(ScoreKeys, SumTheSoftmaxOfTheRowsOverAllKeysTheySee) {
    uint64_t seed = 260;
    for (DType kv : kv_types) {
        for (const Shape& shape :
             {Shape{.heads = 14, .kv_heads = 2, .kv = kv, .rounds = {90}, .rows = 4},
              Shape{.heads = 3, .kv_heads = 3, .head_dim = 40, .kv = kv, .rounds = {13, 1, 70}, .rows = 37},
              Shape{.heads = 4, .kv_heads = 1, .head_dim = 160, .kv = kv, .rounds = {16, 17}, .rows = 5},
              Shape{.heads = 2, .kv_heads = 1, .kv = kv, .rounds = {1}, .rows = 1},
              Shape{.heads = 4, .kv_heads = 2, .kv = kv, .rounds = {5, 30}, .rows = 0}}) {
            const Case c = make_case(shape, ++seed);
            for (const int64_t fewer : {0, shape.rows > 4 ? 5 : 0}) {
                const ScoreArgs args = score_args(c, c.paged.keys() - fewer);
                Matrix sums(shape.kv_heads, args.keys);
                for (int head = 0; head < shape.heads; ++head)
                    for (int64_t row = 0; row < shape.rows; ++row) {
                        const Matrix weights = weights_of_row(c, args, head, row);
                        for (int64_t key = 0; key < weights.columns; ++key)
                            sums.at(head / shape.group(), key) += weights.at(0, key) / shape.group();
                    }
                SCOPED_TRACE(testing::Message() << traits(kv).name << ", " << shape.rows << " of " << args.keys);
                const Tensor out = poisoned(DType::f32, shape.kv_heads, args.keys);
                expect_ok(ops().score_keys(out, args));
                expect_near(out, sums, kv == DType::f32 ? 5e-6 : 1.2e-2);
            }
        }
    }
}

TEST_P(Score, ScoresAreTheSoftmaxOfTheRowsOverAllKeysTheySee) {
    uint64_t seed = 200;
    for (DType kv : kv_types) {
        for (const Shape& shape : {Shape{.heads = 14, .kv_heads = 2, .kv = kv, .rounds = {300}, .rows = 4},
                                   Shape{.heads = 3, .kv_heads = 3, .kv = kv, .rounds = {13, 500}, .rows = 37},
                                   Shape{.heads = 40, .kv_heads = 2, .kv = kv, .rounds = {70}, .rows = 3},
                                   Shape{.heads = 2, .kv_heads = 1, .kv = kv, .rounds = {1}, .rows = 1}}) {
            const Case c = make_case(shape, ++seed);
            const int64_t keys = c.paged.keys() - (shape.rows > 4 ? 5 : 0);
            const ScoreArgs args = score_args(c, keys);

            // The weights themselves, through values that pick one key each.
            std::vector<Matrix> weights(static_cast<size_t>(shape.heads), Matrix(shape.rows, keys));
            Matrix sums(shape.kv_heads, keys);
            for (int h = 0; h < shape.heads; ++h) {
                for (int64_t r = 0; r < shape.rows; ++r) {
                    const Matrix row = weights_of_row(c, args, h, r);
                    for (int64_t key = 0; key < row.columns; ++key) {
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
                    for (int64_t key = c.first_key() + r + 1; key < keys; ++key) ASSERT_EQ(got.at(r, key), 0.0);
                }
            }));
            EXPECT_EQ(told, std::vector<int>(static_cast<size_t>(shape.heads), 1));
        }
    }
}

/// However many rows share a tile of queries.
TEST_P(Score, ARowsWeightsAreTheSameBesideAnyOthers) {
    for (const DType kv : kv_types) {
        const Shape shape{.heads = 4, .kv_heads = 2, .kv = kv, .rounds = {13, 200}, .rows = 37};
        const Case c = make_case(shape, 900);
        const ScoreArgs args = score_args(c, c.paged.keys());
        const auto count = static_cast<size_t>(args.keys);
        std::vector<std::vector<float>> together(static_cast<size_t>(shape.heads * shape.rows));
        expect_ok(ops().score_rows(args, [&](int head, const Tensor& rows) {
            for (int64_t r = 0; r < shape.rows; ++r) {
                const float* const row = rows.row<float>(r);
                together[static_cast<size_t>(head * shape.rows + r)].assign(row, row + count);
            }
        }));
        for (const int64_t some : {1, 20}) {
            for (int64_t begin = 0; begin + some <= shape.rows; begin += some) {
                ScoreArgs part = args;
                part.q = args.q.slice_rows(begin, some);
                part.row_keys = args.row_keys + begin;
                expect_ok(ops().score_rows(part, [&](int head, const Tensor& rows) {
                    for (int64_t r = 0; r < some; ++r) {
                        const auto& whole = together[static_cast<size_t>(head * shape.rows + begin + r)];
                        EXPECT_EQ(std::memcmp(whole.data(), rows.row<float>(r), count * sizeof(float)), 0)
                            << traits(kv).name << ", row " << begin + r << " of " << some << ", head " << head;
                    }
                }));
            }
        }
    }
}

TEST_P(Score, WhatTheWeightsOfManyRowsTookIsGivenBack) {
    const Case c = make_case({.heads = 1, .kv_heads = 1, .head_dim = 32, .rounds = {70'000}, .rows = 256}, 950);
    const ScoreArgs args = score_args(c, c.paged.keys());
    ASSERT_GT(static_cast<size_t>(args.q.rows * args.keys) * sizeof(float), cpu::scratch_kept_bytes);
    const size_t before = heap_bytes();
    for (int i = 0; i < 2; ++i) {
        expect_ok(ops().score_rows(args, [](int, const Tensor& rows) { EXPECT_EQ(rows.rows, 256); }));
        EXPECT_LE(heap_bytes(), before + cpu::scratch_kept_bytes + heap_slack_bytes);
    }
}

/// 17 heads are a part of their own for each row, and the parts are more than are summed at a time.
class ScoreOfManyRows : public Score {};
INSTANTIATE_TEST_SUITE_P(TwoThreads, ScoreOfManyRows, testing::Values(places[1]));

TEST_P(ScoreOfManyRows, AddsUpTheRowsInOrderInBoundedMemory) {
    const Case c = make_case({.heads = 17, .kv_heads = 1, .head_dim = 32, .rounds = {16'000}, .rows = 1200}, 960);
    const ScoreArgs args = score_args(c, c.paged.keys());
    ASSERT_GT(static_cast<size_t>(args.q.rows * args.keys) * sizeof(float), cpu::scratch_kept_bytes);
    const Tensor of_row = poisoned(DType::f32, 1, args.keys), out = poisoned(DType::f32, 1, args.keys);
    std::vector<float> sums(static_cast<size_t>(args.keys));
    for (int64_t row = 0; row < args.q.rows; ++row) {
        ScoreArgs one = args;
        one.q = args.q.slice_rows(row, 1);
        one.row_keys = args.row_keys + row;
        expect_ok(ops().score_keys(of_row, one));
        for (size_t key = 0; key < sums.size(); ++key) sums[key] += of_row.row<float>(0)[key];
    }
    const size_t before = heap_bytes();
    expect_ok(ops().score_keys(out, args));
    EXPECT_LE(heap_bytes(), before + cpu::scratch_kept_bytes + heap_slack_bytes);
    EXPECT_EQ(std::memcmp(out.row<float>(0), sums.data(), sums.size() * sizeof(float)), 0);
}

TEST_P(Score, NoRowsGiveEveryKeyNothing) {
    const Case c = make_case({.heads = 4, .kv_heads = 2, .rounds = {5, 300}, .rows = 0}, 240);
    ScoreArgs args;
    args.q = Tensor{nullptr, DType::f32, 0, int64_t{c.shape.heads} * c.shape.head_dim, 0};
    args.heads = c.shape.heads;
    args.kv = c.kv;
    args.sequence = c.tables;
    args.keys = c.paged.keys();
    const Tensor out = poisoned(DType::f32, c.shape.kv_heads, args.keys);
    expect_ok(ops().score_keys(out, args));
    expect_near(out, Matrix(c.shape.kv_heads, args.keys), 0.0);
    expect_ok(ops().score_rows(args, [](int, const Tensor& rows) { EXPECT_EQ(rows.rows, 0); }));
    expect_ok(ops().score_blocks(Tensor{nullptr, DType::f32, 0, std::ssize(c.paged.blocks), 0}, args));
}

TEST_P(Score, BlocksAreScoredByTheirMeans) {
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

TEST_P(Score, ChosenKeysAreWeighedAsTheRowAttendsToThem) {
    uint64_t seed = 300;
    for (DType kv : kv_types) {
        for (const Shape& shape : {Shape{.heads = 14, .kv_heads = 2, .kv = kv, .rounds = {5, 33, 7, 200}},
                                   Shape{.heads = 3, .kv_heads = 3, .head_dim = 40, .kv = kv, .rounds = {300}},
                                   Shape{.heads = 40, .kv_heads = 2, .kv = kv, .rounds = {21}}}) {
            const Case c = make_case(shape, ++seed);
            const int64_t keys = c.paged.keys(), tail = keys - 1 - static_cast<int64_t>(seed % 20);
            const auto chosen = some_keys(c, tail, seed % 2 == 0 ? 0.0 : 0.3, seed);
            const AttendedKeys selected = mark(c, chosen, tail);
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

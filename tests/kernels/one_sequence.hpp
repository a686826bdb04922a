#pragma once

#include <cmath>
#include <numeric>
#include <set>

#include "tests/kernels/paged_kv.hpp"

namespace rondo::test {

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

inline double op_tolerance(DType kv) {
    return kv == DType::f32 ? 5e-6 : kv == DType::bf16 ? 4e-3 : 8e-3;
}

/// One sequence in the pool, for the ops that attend to some of its keys or score them.
class OneSequence : public PagedTest {
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
    AttendedKeys mark(const Case& c, const std::vector<std::set<int64_t>>& chosen, int64_t tail) {
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

}  // namespace rondo::test

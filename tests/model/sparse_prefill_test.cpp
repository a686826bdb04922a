#include "model/attention/sparse_prefill.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>

#include "memory/sequence_kv.hpp"
#include "model/attention/policies/prefill_sparsity/line_sums.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;

/// One layer of two heads, whose keys and queries are the same throughout a block, so that means tell all of them: a
/// row of head 0 looks at one block, a row of head 1 at all of them alike.
struct Probe : PromptProbe {
    void look_at_lines(int, const ChunkShape& chunk, std::span<const Lines> by_head) override {
        if (on_lines) on_lines(chunk, by_head);
    }
    bool wants_rows() const override { return on_rows != nullptr; }
    void look_at_rows(const ChunkShape& chunk, const SampledRows& all, std::span<const int32_t> sampled,
                      const Lines& lines) override {
        on_rows(chunk, all, sampled, lines);
    }

    std::function<void(const ChunkShape&, std::span<const Lines>)> on_lines;
    std::function<void(const ChunkShape&, const SampledRows&, std::span<const int32_t>, const Lines&)> on_rows;
};

class TwoHeads : public ::testing::Test {
protected:
    static constexpr int heads = 2, head_dim = 64;
    static constexpr int64_t keys = 576, rows = 64, width = heads * head_dim, blocks = keys / kv_block_tokens;

    void SetUp() override {
        spec_.layers = 1;
        spec_.heads = spec_.kv_heads = heads;
        spec_.head_dim = head_dim;
        need(kv_.extend(keys));
        std::vector<float> k(static_cast<size_t>(keys * width)), v(k.size(), 1.0F);
        std::vector<int32_t> slots;
        for (int64_t key = 0; key < keys; ++key) {
            slots.push_back(kv_.slot(LayerGroup::upper, key));
            k[static_cast<size_t>(key * width + key / kv_block_tokens)] = 60.0F;
        }
        need(device_->ops().append_kv(pool_->layer(0), Tensor::of(k.data(), DType::f32, keys, width),
                                      Tensor::of(v.data(), DType::f32, keys, width), slots.data()));
        for (int64_t row = 0; row < rows; ++row)
            q_[static_cast<size_t>(row * width + row / kv_block_tokens * 7 + 2)] = 3.0F;
        table_ = {0, keys, 0, static_cast<int32_t>(rows)};
    }

    SequenceTables tables() {
        SequenceTables tables;
        tables.sequences = 1;
        tables.rows = static_cast<int>(chunk_rows());
        tables.row_begin = table_.data() + 2;
        tables.kv_length = table_.data() + 1;
        tables.block_count = &block_count_;
        tables.blocks = kv_.blocks(LayerGroup::upper).data();
        tables.block_begin = kv_.block_begin(LayerGroup::upper).data();
        tables.blocks_stride = blocks + 1;
        return tables;
    }
    void attend(SparsePrefill& sparse, PromptProbe* probe) {
        std::vector<float> out(q_.size());
        AttendArgs args;
        args.out = Tensor::of(out.data(), DType::f32, chunk_rows(), width);
        args.q = q();
        args.heads = heads;
        args.kv = pool_->layer(0);
        args.sequences = tables();
        args.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
        need(sparse.attend(0, args, q(), kv_.block_begin(LayerGroup::upper), 1, probe));
    }
    /// A chunk of so many rows, in place of `rows`.
    void take_rows(int64_t count) {
        q_.resize(static_cast<size_t>(count * width), 0.01F);
        table_.back() = static_cast<int32_t>(count);
    }
    int64_t chunk_rows() const { return std::ssize(q_) / width; }
    Tensor q() { return Tensor::of(q_.data(), DType::f32, chunk_rows(), width); }

    const std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:2"))));
    const std::unique_ptr<KvPool> pool_ =
        need(KvPool::create(*device_, KvShape{.layers = 1, .kv_heads = heads, .atom = {DType::f32, head_dim}},
                            {0, static_cast<size_t>(blocks)}));
    SequenceKv kv_{*pool_};
    ModelSpec spec_;
    std::vector<float> q_ = std::vector<float>(static_cast<size_t>(rows * width));
    std::vector<int32_t> table_;
    int32_t block_count_ = static_cast<int32_t>(blocks);
};

TEST_F(TwoHeads, EachIsShownItsOwnBlockScores) {
    // So little is wanted that one band holds it. Beside it stands the best block of each row block, unless that band
    // has it.
    const PrefillAttention settings{
        .method = PrefillAttention::Method::loopserve, .alpha = 1e-9, .min_tokens = 0, .blocks = 1};
    const auto sparse = need(SparsePrefill::create(spec_, *device_, settings));
    int calls = 0, seen = 0;
    Probe probe;
    probe.on_lines = [&](const ChunkShape& chunk, std::span<const Lines> by_head) {
        ++calls;
        ASSERT_EQ(by_head.size(), static_cast<size_t>(heads));
        const auto first = static_cast<int32_t>(chunk.block_of(chunk.first_row));
        for (int32_t i = 0; i < rows / kv_block_tokens; ++i) {
            const int32_t best = i * 7 + 2;
            if (std::ranges::count(by_head[0].bands, first + i - best) > 0) continue;
            EXPECT_EQ(by_head[0].blocks.at(static_cast<size_t>(i)), (Lines::Block{first + i, best}));
            ++seen;
            EXPECT_EQ(by_head[1].blocks.at(static_cast<size_t>(i)), (Lines::Block{first + i, 0})) << "all score alike";
        }
    };
    attend(*sparse, &probe);
    EXPECT_EQ(calls, 1);
    EXPECT_GE(seen, 3);
}

TEST_F(TwoHeads, AShortChunkShowsAllItsRowsAndALongOneSome) {
    struct Case {
        int64_t chunk;
        int sample_rows;
        int64_t seen;
    };
    for (const auto& [chunk, sample_rows, seen] : {Case{rows, 0, rows}, {rows, 8, 8}, {256, 0, 256}, {300, 0, 64}}) {
        take_rows(chunk);
        const PrefillAttention settings{
            .method = PrefillAttention::Method::loopserve, .sample_rows = sample_rows, .min_tokens = 0};
        const auto sparse = need(SparsePrefill::create(spec_, *device_, settings));
        Probe probe;
        std::atomic<int> calls = 0;
        probe.on_rows = [&, chunk = chunk, seen = seen](const ChunkShape&, const SampledRows&,
                                                        std::span<const int32_t> sampled, const Lines&) {
            ++calls;
            EXPECT_EQ(std::ssize(sampled), seen) << "of " << chunk;
            EXPECT_EQ(sampled.back(), chunk - 1);
        };
        attend(*sparse, &probe);
        EXPECT_EQ(calls, heads) << chunk;
    }
}

TEST_F(TwoHeads, AProbeThatWantsThemIsShownAllRows) {
    const PrefillAttention settings{.method = PrefillAttention::Method::loopserve, .sample_rows = 8, .min_tokens = 0};
    const auto sparse = need(SparsePrefill::create(spec_, *device_, settings));
    std::mutex mutex;
    std::multiset<int> heads_seen;
    Probe probe;
    probe.on_rows = [&](const ChunkShape& chunk, const SampledRows& all, std::span<const int32_t> sampled,
                        const Lines& lines) {
        const std::lock_guard lock(mutex);
        heads_seen.insert(all.head);
        EXPECT_EQ(std::ssize(all.rows), rows);
        EXPECT_EQ(sampled.size(), 8U);
        EXPECT_EQ(lines.bands.front(), 0);
        for (size_t r = 0; r < all.rows.size(); ++r) {
            const SampledRow row(chunk, all, r);
            EXPECT_NEAR(std::accumulate(row.weights, row.weights + row.key + 1, 0.0), 1.0, 1e-3) << r;
        }
    };
    attend(*sparse, &probe);
    EXPECT_EQ(heads_seen, (std::multiset<int>{0, 1}));
}

}  // namespace
}  // namespace rondo

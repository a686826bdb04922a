#include "memory/chosen_kv.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

#include "kernels/backend.hpp"

namespace rondo {
namespace {

template <class T>
T need(Result<T> result) {
    if (!result.is_ok()) throw std::runtime_error(result.error().message);
    return std::move(result).value();
}

void need(const Status& status) {
    if (!status.is_ok()) throw std::runtime_error(status.error().message);
}

/// A sequence of four rounds whose keys and values are known, in a pool of two layer groups.
class ChosenKvTest : public ::testing::Test {
protected:
    static constexpr int layers = 3, kv_heads = 3, heads = 6, d = 32;
    static constexpr int64_t columns = kv_heads * d;
    using Chosen = std::vector<std::vector<int32_t>>;

    ChosenKvTest() {
        for (const int64_t round : {5, 33, 7, 55}) {
            kv_.begin_round();
            need(kv_.extend(round));
        }
        for (int layer = 0; layer < layers; ++layer) {
            k_.push_back(noise(kv_.tokens() * columns));
            v_.push_back(noise(kv_.tokens() * columns));
            append(layer, kv_, k_.back(), v_.back());
        }
    }

    std::vector<float> noise(int64_t count) {
        std::vector<float> all(static_cast<size_t>(count));
        for (float& each : all) each = std::normal_distribution<float>()(random_);
        return all;
    }

    void append(int layer, const SequenceKv& kv, std::vector<float>& k, std::vector<float>& v) {
        std::vector<int32_t> slots;
        const auto begins = kv.block_begin(pool_->shape().group_of(layer));
        const auto blocks = kv.blocks(pool_->shape().group_of(layer));
        for (size_t block = 0; block < blocks.size(); ++block)
            for (int32_t key = begins[block]; key < begins[block + 1]; ++key)
                slots.push_back(blocks[block] * kv_block_tokens + key - begins[block]);
        const int64_t rows = std::ssize(slots);
        need(device_->ops().append_kv(pool_->layer(layer), Tensor::of(k.data(), DType::f32, rows, columns),
                                      Tensor::of(v.data(), DType::f32, rows, columns), slots.data()));
    }

    /// Of each KV head some keys before `tail`, each head another number: none, few, most.
    Chosen some(int64_t tail) {
        Chosen chosen(kv_heads);
        for (auto& keys : chosen) {
            const double share = std::uniform_real_distribution<>(-0.2, 1.0)(random_);
            for (int32_t key = 0; key < tail; ++key)
                if (std::uniform_real_distribution<>()(random_) < share) keys.push_back(key);
        }
        return chosen;
    }

    std::vector<float> attend(int layer, const std::vector<float>& q, const AttendedKeys& keys) {
        const LayerGroup group = pool_->shape().group_of(layer);
        const int32_t row_begin[] = {0, 1}, length = static_cast<int32_t>(kv_.tokens()),
                      count = static_cast<int32_t>(kv_.blocks(group).size());
        std::vector<float> out(heads * d);
        AttendArgs args;
        args.out = Tensor::of(out.data(), DType::f32, 1, heads * d);
        args.q = Tensor::of(const_cast<float*>(q.data()), DType::f32, 1, heads * d);
        args.heads = heads;
        args.kv = pool_->layer(layer);
        args.sequences.sequences = args.sequences.rows = 1;
        args.sequences.row_begin = row_begin;
        args.sequences.kv_length = &length;
        args.sequences.block_count = &count;
        args.sequences.blocks = kv_.blocks(group).data();
        args.sequences.block_begin = kv_.block_begin(group).data();
        args.sequences.blocks_stride = count + 1;
        args.scale = 0.2F;
        args.rows = Rows::invariant;
        need(device_->ops().attend_selected(args, &keys, pool_->atoms(group)));
        return out;
    }

    /// What it comes to: softmax over the chosen keys and all from `tail` on, in double.
    void expect_attends(int layer, const std::vector<float>& q, const std::vector<float>& out, const Chosen& chosen,
                        int64_t tail) {
        for (int head = 0; head < heads; ++head) {
            const int of = head / (heads / kv_heads);
            std::vector<int32_t> keys = chosen[static_cast<size_t>(of)];
            for (int64_t key = tail; key < kv_.tokens(); ++key) keys.push_back(static_cast<int32_t>(key));
            double total = 0.0;
            std::vector<double> expected(d, 0.0);
            for (const int32_t key : keys) {
                const auto at = static_cast<size_t>(key * columns + of * d);
                double score = 0.0;
                for (size_t i = 0; i < d; ++i)
                    score +=
                        double{q[static_cast<size_t>(head * d) + i]} * double{k_[static_cast<size_t>(layer)][at + i]};
                const double weight = std::exp(score * double{0.2F});
                total += weight;
                for (size_t i = 0; i < d; ++i) expected[i] += weight * double{v_[static_cast<size_t>(layer)][at + i]};
            }
            for (size_t i = 0; i < d; ++i)
                EXPECT_NEAR(out[static_cast<size_t>(head * d) + i], expected[i] / total, 1e-4)
                    << "layer " << layer << ", head " << head << ", " << keys.size() << " keys";
        }
    }

    std::mt19937_64 random_{11};
    const std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:1"))));
    const std::unique_ptr<KvPool> pool_ = need(KvPool::create(
        *device_, KvShape{.layers = layers, .lower_layers = 1, .kv_heads = kv_heads, .atom = {DType::f32, d}},
        {64, 64}));
    SequenceKv kv_{*pool_};
    std::vector<std::vector<float>> k_, v_;  // by layer, [keys, kv_heads · d]
};

TEST_F(ChosenKvTest, ARowAttendsToJustWhatEachHeadChose) {
    for (const auto place : {ChosenKv::Place::copied, ChosenKv::Place::where_they_lie}) {
        ChosenKv selected(*pool_, *device_);
        for (int round = 0; round < 8; ++round) {
            selected.clear();
            const int64_t tail = kv_.tokens() - 1 - static_cast<int64_t>(random_() % 20);
            std::vector<Chosen> chosen;
            int64_t keys = 0;
            for (int layer = 0; layer < layers; ++layer) {
                chosen.push_back(some(tail));
                for (const auto& of_head : chosen.back()) keys += std::ssize(of_head);
                need(selected.set_layer(layer, kv_, chosen.back(), place));
            }
            EXPECT_EQ(selected.keys_chosen(), keys);
            EXPECT_EQ(selected.blocks_held() > 0, place == ChosenKv::Place::copied);
            for (int layer = 0; layer < layers; ++layer) {
                const std::vector<float> q = noise(heads * d);
                expect_attends(layer, q, attend(layer, q, selected.keys(layer, tail)),
                               chosen[static_cast<size_t>(layer)], tail);
            }
        }
    }
}

/// What a method gives up may be another sequence's at once.
TEST_F(ChosenKvTest, CopiesOutliveTheBlocksTheyCameFrom) {
    const int64_t tail = 80;
    ChosenKv selected(*pool_, *device_);
    std::vector<Chosen> chosen;
    for (int layer = 0; layer < layers; ++layer) {
        chosen.push_back(some(tail));
        need(selected.set_layer(layer, kv_, chosen.back(), ChosenKv::Place::copied));
    }
    const size_t free = pool_->blocks_free(LayerGroup::upper);
    kv_.release_before(tail);
    ASSERT_GT(pool_->blocks_free(LayerGroup::upper), free);
    SequenceKv others(*pool_);
    need(others.extend(static_cast<int64_t>(pool_->blocks_free(LayerGroup::upper)) * kv_block_tokens));
    std::vector<float> poison(static_cast<size_t>(others.tokens() * columns), std::nanf(""));
    for (int layer = 0; layer < layers; ++layer) append(layer, others, poison, poison);
    for (int layer = 0; layer < layers; ++layer) {
        const std::vector<float> q = noise(heads * d);
        expect_attends(layer, q, attend(layer, q, selected.keys(layer, tail)), chosen[static_cast<size_t>(layer)],
                       tail);
    }
}

/// By layer and head: 16 keys an atom, and a block has one for each layer and head of its group.
TEST_F(ChosenKvTest, RaggedCopiesTakeTheAtomsTheyNeed) {
    ChosenKv selected(*pool_, *device_);
    const auto first = [](int32_t count) {
        std::vector<int32_t> keys(static_cast<size_t>(count));
        for (int32_t i = 0; i < count; ++i) keys[static_cast<size_t>(i)] = i;
        return keys;
    };
    const Chosen ragged = {first(1), first(0), first(80)};  // 1 + 0 + 5 atoms: a layer's blocks hold 3, two layers' 6
    EXPECT_EQ(selected.blocks_short(ragged), BlockCounts{});
    for (const LayerGroup group : layer_groups) {
        const auto others = need(pool_->acquire(group, pool_->blocks_free(group) - 5));
        EXPECT_EQ(selected.blocks_short(ragged), (BlockCounts{2 + 4, 2 + 4})) << "with some for the steps that follow";
    }
    for (int layer = 0; layer < layers; ++layer) need(selected.set_layer(layer, kv_, ragged, ChosenKv::Place::copied));
    EXPECT_EQ(selected.blocks_held(), 2 + 2);
    selected.clear();
    EXPECT_EQ(selected.blocks_held(), 0);
}

}  // namespace
}  // namespace rondo

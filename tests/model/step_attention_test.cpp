// Methods that choose at every step, against the same done the slow way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "model/attention/heavy_keys.hpp"
#include "model/attention/quest_pages.hpp"
#include "model/generator.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;

/// Chooses all keys after every step and writes down what its query thought of them: dense attention's weights.
class Recorder : public DecodeSelection {
public:
    ChoiceTriggers triggers() const override { return {.after_prefill = true, .every = 1}; }
    int queries() const override { return 1; }
    bool wanted(int64_t) const override { return true; }
    void select(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        calls.emplace_back(scores.weights.begin(), scores.weights.end());
        for (auto& keys : chosen) {
            keys.resize(static_cast<size_t>(scores.keys));
            std::iota(keys.begin(), keys.end(), 0);
        }
    }
    mutable std::vector<std::vector<float>> calls;  // layer by layer, choice by choice
};

/// H2O's rule over one head's dense weights, row by row: who is kept attends, the others might as well not be there.
class NaiveH2o {
public:
    NaiveH2o(size_t budget, size_t keys) : heavy_(budget / 2), recent_(budget - budget / 2), keys_(keys), sums_(1000) {}

    void observe(std::span<const float> weights) {
        for (size_t key = 0; key < weights.size(); ++key) sums_[key] += static_cast<double>(weights[key]);
    }
    void choose() {
        for (size_t key = 0; key + recent_ < keys_; ++key) kept_.insert(key);
        shrink();
    }
    void step(std::span<const float> weights) {
        kept_.insert(keys_ - recent_);
        ++keys_;
        shrink();
        std::set<size_t> seen = kept_;
        for (size_t key = keys_ - recent_; key < keys_; ++key) seen.insert(key);
        double total = 0.0;
        for (const size_t key : seen) total += static_cast<double>(weights[key]);
        for (const size_t key : seen) sums_[key] += static_cast<double>(weights[key]) / total;
    }
    std::vector<int32_t> kept() const { return {kept_.begin(), kept_.end()}; }

private:
    void shrink() {
        while (kept_.size() > heavy_)
            kept_.erase(std::ranges::min_element(kept_, {}, [this](size_t key) { return sums_[key]; }));
    }

    size_t heavy_, recent_, keys_;
    std::vector<double> sums_;
    std::set<size_t> kept_;
};

/// In the first layer, whose queries and keys do not depend on what attention leaves out.
TEST(StepAttentionTest, H2oKeepsWhatANaiveSimulationKeeps) {
    constexpr int64_t prompt = 70, window = 4, steps = 60;
    constexpr int budget = 17;
    const auto device = need(open_device(need(parse_device("cpu:1"))));  // layers are chosen in one by one
    const Model model = testing::load_case(golden::read_case("llama_gqa1_head32_tied"), DType::f32, *device);
    std::mt19937 random(3);
    const std::vector<int32_t> ids = testing::random_ids(random, prompt + steps, model.spec.vocabulary);
    const auto part = [&](int64_t begin, int64_t count) {
        return std::span(ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    };

    const auto recorder = std::make_shared<Recorder>();
    Generator::Options dense;
    dense.kv_type = DType::f32;
    dense.decode_method = recorder;
    const auto recorded = need(Generator::create(model, *device, dense));
    need(recorded->prefill(part(0, prompt - window + 1)));
    for (int64_t i = prompt - window + 1; i < prompt + steps; ++i) need(recorded->step(ids[static_cast<size_t>(i)]));
    const auto weights = [&](int64_t query, int head) {
        const auto call = static_cast<size_t>((query - (prompt - window)) * model.spec.layers);
        return std::span<const float>(recorder->calls.at(call))
            .subspan(static_cast<size_t>(head * (query + 1)), static_cast<size_t>(query + 1));
    };

    Generator::Options options;
    options.kv_type = DType::f32;
    options.decode.method = DecodeAttention::Method::h2o;
    options.decode.budget_tokens = budget;
    options.decode.window = window;
    const auto generator = need(Generator::create(model, *device, options));
    std::vector<NaiveH2o> naive(static_cast<size_t>(model.spec.kv_heads), NaiveH2o(budget, prompt));
    for (int head = 0; head < model.spec.kv_heads; ++head) {
        NaiveH2o& one = naive[static_cast<size_t>(head)];
        for (int64_t query = prompt - window; query < prompt; ++query) one.observe(weights(query, head));
        one.choose();
    }
    const std::vector<int32_t> first = naive[0].kept();
    need(generator->prefill(part(0, prompt)));
    for (int64_t i = 0; i < steps; ++i) {
        need(generator->step(ids[static_cast<size_t>(prompt + i)]));
        const auto& heavy = dynamic_cast<const HeavyKeys&>(*generator->step_attention());
        ASSERT_EQ(heavy.tail_begin(0), prompt + i + 1 - (budget - budget / 2));
        for (int head = 0; head < model.spec.kv_heads; ++head) {
            naive[static_cast<size_t>(head)].step(weights(prompt + i, head));
            std::vector<int32_t> kept = heavy.chosen(0)[static_cast<size_t>(head)];
            std::ranges::sort(kept);
            ASSERT_EQ(kept, naive[static_cast<size_t>(head)].kept()) << "step " << i << ", head " << head;
        }
    }
    EXPECT_NE(naive[0].kept(), first);
    EXPECT_GE(generator->kv().first_held(), prompt + steps - budget - 2 * kv_block_tokens);
}

/// Attention with the keys that H2O keeps is what the copies hold: a generator that never gives blocks up agrees.
TEST(StepAttentionTest, H2oAnswersTheSameWhetherBlocksAreGivenUpOrNot) {
    const auto device = need(open_device(need(parse_device("cpu:2"))));
    const Model model = testing::load_case(golden::read_case("qwen2_gqa7_head64_untied"), DType::f32, *device);
    std::mt19937 random(4);
    const std::vector<int32_t> ids = testing::random_ids(random, 160, model.spec.vocabulary);
    std::vector<std::vector<float>> answers;
    for (const bool give_up : {true, false}) {
        Generator::Options options;
        options.decode.method = DecodeAttention::Method::h2o;
        options.decode.budget_tokens = 24;
        options.give_up_blocks = give_up;
        MassProbe probe;
        options.step_probe = give_up ? nullptr : &probe;
        const auto generator = need(Generator::create(model, *device, options));
        need(generator->prefill(std::span(ids).first(20)));  // within the budget: the answer outgrows it
        std::vector<float>& all = answers.emplace_back();
        for (size_t i = 20; i < 160; ++i) {
            need(generator->step(ids[i]));
            all.insert(all.end(), generator->logits().begin(), generator->logits().end());
        }
        EXPECT_EQ(generator->kv().first_held() > 0, give_up);
        EXPECT_EQ(probe.masses().size(), give_up ? 0U : size_t{140} * model.spec.layers * model.spec.heads);
        for (const double mass : probe.masses()) EXPECT_THAT(mass, ::testing::Le(1.0001));
    }
    EXPECT_EQ(answers[0], answers[1]);
}

TEST(StepAttentionTest, AProbeNeedsTheKeysThatAMethodWouldGiveUp) {
    const auto device = need(open_device(need(parse_device("cpu:1"))));
    const Model model = testing::load_case(golden::read_case("llama_gqa1_head32_tied"), DType::f32, *device);
    MassProbe probe;
    Generator::Options options;
    options.decode.method = DecodeAttention::Method::snapkv;
    options.step_probe = &probe;
    const auto refused = Generator::create(model, *device, options);
    ASSERT_FALSE(refused.is_ok());
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("their blocks must be kept"));
    options.give_up_blocks = false;
    EXPECT_TRUE(Generator::create(model, *device, options).is_ok());
}

/// With shift, StreamingLLM's keys stand as if what it gives up had never been said. In one layer, whose keys depend on
/// their own tokens alone, that can be seen: dense attention answers the same to a text of what is kept.
TEST(StepAttentionTest, StreamingLlmShiftedIsDenseOverWhatIsKept) {
    constexpr int64_t prompt = 90, steps = 40;
    constexpr int budget = 29, sinks = 5;
    const auto device = need(open_device(need(parse_device("cpu:2"))));
    for (const char* name : {"llama_gqa1_head32_tied", "qwen2_gqa7_head64_untied", "qwen3_gqa2_head32_untied"}) {
        const Model model = testing::load_case(golden::with_layers(golden::read_case(name), 1), DType::f32, *device);
        std::mt19937 random(5);
        const std::vector<int32_t> ids = testing::random_ids(random, prompt + steps, model.spec.vocabulary);
        for (const auto& [kv_type, error_max] : {std::pair(DType::f32, 1e-5), std::pair(DType::bf16, 1e-2)}) {
            Generator::Options options;
            options.kv_type = kv_type;
            const auto dense = need(Generator::create(model, *device, options));
            options.decode.method = DecodeAttention::Method::streaming_llm;
            options.decode.budget_tokens = budget;
            options.decode.sinks = sinks;
            const auto unshifted = need(Generator::create(model, *device, options));
            options.decode.shift = true;
            const auto shifted = need(Generator::create(model, *device, options));
            need(unshifted->prefill(std::span(ids).first(prompt)));
            need(shifted->prefill(std::span(ids).first(prompt)));
            for (int64_t i = prompt; i < prompt + steps; ++i) {
                const auto end = ids.begin() + i + 1;
                need(unshifted->step(ids[static_cast<size_t>(i)]));
                need(shifted->step(ids[static_cast<size_t>(i)]));
                std::vector<int32_t> kept(ids.begin(), ids.begin() + sinks);
                kept.insert(kept.end(), end - (budget - sinks), end);
                dense->truncate(0);
                need(dense->prefill(kept));
                const std::vector<float> expected(dense->logits().begin(), dense->logits().end());
                ASSERT_LE(golden::relative_error(shifted->logits(), expected), error_max) << name << ", token " << i;
                EXPECT_GT(golden::relative_error(unshifted->logits(), expected), 2 * error_max);
            }
        }
    }
}

/// Sequences of random keys in a pool, and quest's choice among their pages.
class QuestPagesTest : public ::testing::TestWithParam<DType> {
protected:
    static constexpr int layer = 2, heads = 6, kv_heads = 2, d = 40;

    QuestPagesTest() {
        spec_.layers = 3;
        spec_.heads = heads;
        spec_.kv_heads = kv_heads;
        spec_.head_dim = d;
        pool_ = need(KvPool::create(*device_, Transformer::kv_shape(spec_, GetParam(), 1), {64, 64}));
        kv_ = std::make_unique<SequenceKv>(*pool_);
    }
    std::vector<float> random_floats(int64_t count) {
        std::normal_distribution<float> normal;
        std::vector<float> made(static_cast<size_t>(count));
        for (float& x : made) x = normal(random_);
        return made;
    }
    std::vector<int32_t> slots() const {
        std::vector<int32_t> made;
        for (int64_t key = 0; key < kv_->tokens(); ++key) made.push_back(kv_->slot(LayerGroup::upper, key));
        return made;
    }
    void append(int64_t count) {
        need(kv_->extend(count));
        const std::vector<int32_t> all = slots();
        std::vector<float> k = random_floats(count * kv_heads * d), v = random_floats(count * kv_heads * d);
        need(device_->ops().append_kv(pool_->layer(layer), Tensor::of(k.data(), DType::f32, count, kv_heads * d),
                                      Tensor::of(v.data(), DType::f32, count, kv_heads * d),
                                      all.data() + all.size() - count));
    }
    /// By KV head the keys of the best pages: bounds over all keys there are, the mean over the heads of the group.
    std::vector<std::set<int64_t>> naive(const std::vector<float>& q, int64_t pages_wanted) {
        const int64_t keys = kv_->tokens();
        std::vector<float> k(static_cast<size_t>(keys * kv_heads * d)), v(k.size());
        need(device_->ops().read_kv(Tensor::of(k.data(), DType::f32, keys, kv_heads * d),
                                    Tensor::of(v.data(), DType::f32, keys, kv_heads * d), pool_->layer(layer),
                                    slots().data()));
        const auto begins = kv_->block_begin(pool_->shape().group_of(layer));
        std::vector<std::set<int64_t>> chosen(kv_heads);
        for (int head = 0; head < kv_heads; ++head) {
            std::vector<std::pair<double, size_t>> scored;
            for (size_t page = 0; page + 2 < begins.size(); ++page) {
                double score = 0.0;
                for (int h = 0; h < heads / kv_heads; ++h) {
                    for (int c = 0; c < d; ++c) {
                        const double x = q[static_cast<size_t>((head * heads / kv_heads + h) * d + c)];
                        double best = -1e300;
                        for (const int32_t side : {-1, 1}) {
                            double bound = -1e300;
                            for (int64_t key = begins[page]; key < begins[page + 1]; ++key)
                                bound = std::max(bound,
                                                 side * static_cast<double>(
                                                            k[static_cast<size_t>((key * kv_heads + head) * d + c)]));
                            best = std::max(best, x * side * bound);
                        }
                        score += best;
                    }
                }
                scored.emplace_back(-score, page);
            }
            std::ranges::sort(scored);
            scored.resize(static_cast<size_t>(pages_wanted - 1));
            scored.emplace_back(0.0, begins.size() - 2);
            for (const auto& [score, page] : scored)
                for (int64_t key = begins[page]; key < begins[page + 1]; ++key)
                    chosen[static_cast<size_t>(head)].insert(key);
        }
        return chosen;
    }
    /// What entries and tail mean, by KV head.
    std::vector<std::set<int64_t>> meant(const AttendedKeys& selected) {
        const std::vector<int32_t> all = slots();
        std::vector<std::set<int64_t>> keys(kv_heads);
        for (int head = 0; head < kv_heads; ++head) {
            auto& of_head = keys[static_cast<size_t>(head)];
            for (int64_t key = 0; key < kv_->tokens(); ++key) {
                const int32_t slot = all[static_cast<size_t>(key)];
                const int32_t atom = pool_->atom_index(slot / kv_block_tokens, layer, head);
                for (int32_t i = 0; i < selected.counts[head]; ++i) {
                    const KvEntry& entry = selected.entries[head * selected.stride + i];
                    if (entry.atom != atom || (entry.allowed >> slot % kv_block_tokens & 1) == 0) continue;
                    EXPECT_TRUE(of_head.insert(key).second && key < selected.tail_begin);
                }
                if (key >= selected.tail_begin) of_head.insert(key);
            }
        }
        return keys;
    }
    Result<AttendedKeys> choose(QuestPages& pages, int of_layer, std::vector<float>& q) {
        ScoreArgs step;
        step.q = Tensor::of(q.data(), DType::f32, 1, heads * d);
        return pages.keys_of_step(of_layer, step, *kv_);
    }

    std::mt19937 random_{11};
    const std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:2"))));
    ModelSpec spec_;
    std::unique_ptr<KvPool> pool_;
    std::unique_ptr<SequenceKv> kv_;
};
INSTANTIATE_TEST_SUITE_P(KvTypes, QuestPagesTest, ::testing::Values(DType::f32, DType::bf16, DType::i8),
                         [](const auto& info) { return std::string(traits(info.param).name); });

TEST_P(QuestPagesTest, AreTheBestByANaiveBoundAtEveryStep) {
    const auto pages = need(QuestPages::create(spec_, *pool_, *device_, 70));  // 4 pages
    for (const int64_t round : {37, 5, 90}) {  // blocks of 16, 16, 5, then 5, then full ones
        kv_->begin_round();
        append(round);
    }
    for (int i = 0; i < 40; ++i) {
        if (i == 20) {  // other keys stand where some stood before
            kv_->truncate(130);
            append(3);
            pages->reset();
        }
        std::vector<float> q = random_floats(heads * d);
        for (int dense = 0; dense < quest_dense_layers; ++dense)
            EXPECT_EQ(need(choose(*pages, dense, q)).counts, nullptr);
        const AttendedKeys selected = need(choose(*pages, layer, q));
        ASSERT_NE(selected.counts, nullptr);
        const auto expected = naive(q, 4);
        ASSERT_EQ(meant(selected), expected) << "step " << i;
        int64_t attended = int64_t{quest_dense_layers} * kv_heads * kv_->tokens();
        for (const auto& keys : expected) attended += std::ssize(keys);
        EXPECT_EQ(pages->attended(), attended);
        pages->after_step(*kv_);
        EXPECT_EQ(pages->stats().selections, i + 1);
        append(1);
    }
}

TEST_P(QuestPagesTest, TakeNoMoreRoomThanThePoolHasBlocks) {
    // Nobody has memory for all pages of such a budget.
    EXPECT_NE(need(QuestPages::create(spec_, *pool_, *device_, std::numeric_limits<int64_t>::max())), nullptr);
}

TEST_P(QuestPagesTest, AreNotAskedForWhileTheBudgetHoldsAllKeys) {
    const auto pages = need(QuestPages::create(spec_, *pool_, *device_, 60));
    append(60);
    std::vector<float> q = random_floats(heads * d);
    need(choose(*pages, 0, q));
    EXPECT_EQ(need(choose(*pages, layer, q)).counts, nullptr);
    pages->after_step(*kv_);
    EXPECT_EQ(pages->stats().selections, 0);
    append(1);
    EXPECT_NE(need(choose(*pages, layer, q)).counts, nullptr);
    pages->after_step(*kv_);
    EXPECT_EQ(pages->stats().selections, 1);
}

}  // namespace
}  // namespace rondo

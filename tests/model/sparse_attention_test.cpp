#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "model/attention/chosen_keys.hpp"
#include "model/generator.hpp"
#include "tests/model/methods_where.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;
using Prefill = PrefillAttention::Method;
using Decode = DecodeAttention::Method;

const std::vector<Decode> decode_methods =
    testing::methods_where<Decode>(decode_method_rows, [](const MethodRow& row) { return row.for_pipelines; });
const std::vector<Prefill> every_prefill = testing::methods_where<Prefill>(prefill_method_rows, testing::any_method);

/// What a generator's method has chosen.
const ChosenKeys& chosen_by(Generator& generator) {
    return dynamic_cast<const ChosenKeys&>(*generator.step_attention());
}

/// Small models of several shapes, with random prompts long enough for a choice to matter.
class SparseAttention : public ::testing::TestWithParam<std::string> {
protected:
    std::unique_ptr<Generator> open(Generator::Options options) {
        options.kv_type = DType::f32;
        options.context_tokens_max = 256;
        return need(Generator::create(model_, *device_, options));
    }

    static Generator::Options decode_with(Decode method, int budget, int lag = 0) {
        Generator::Options options;
        options.chunk_tokens = 32;
        options.decode.method = method;
        options.decode.budget_tokens = budget;
        options.decode.cold_tokens = 2;
        options.decode.reselect_every = 4;
        options.decode.observe = 4;
        options.decode.window = 8;
        options.decode.lag_steps = lag;
        return options;
    }

    /// The logits of every step of an answer that is forced.
    std::vector<float> answer(Generator& generator, int64_t prompt = 150, int64_t steps = 24) {
        std::vector<float> all;
        need(generator.prefill(std::span(ids_).first(static_cast<size_t>(prompt) / 3)));
        generator.begin_round();
        need(generator.prefill(
            std::span(ids_).subspan(static_cast<size_t>(prompt) / 3, static_cast<size_t>(prompt - prompt / 3))));
        for (int64_t i = 0; i < steps; ++i) {
            all.insert(all.end(), generator.logits().begin(), generator.logits().end());
            need(generator.step(ids_[static_cast<size_t>(prompt + i)]));
        }
        return all;
    }

    static size_t blocks_in_use(const Generator& generator) {
        return generator.pool().blocks_total(LayerGroup::upper) - generator.pool().blocks_free(LayerGroup::upper);
    }

    const std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:2"))));
    const golden::Case case_ = golden::with_layers(golden::read_case(GetParam()), 3);  // quest begins at the third
    const Model model_ = testing::load_case(case_, DType::f32, *device_);
    const std::vector<int32_t> ids_ = [this] {
        std::mt19937 random(7);
        return testing::random_ids(random, 400, model_.spec.vocabulary);
    }();
};
INSTANTIATE_TEST_SUITE_P(Models, SparseAttention,
                         ::testing::Values("llama_gqa1_head32_tied", "qwen2_gqa7_head64_untied",
                                           "qwen3_gqa2_head32_untied"),
                         [](const auto& info) { return info.param; });

TEST_P(SparseAttention, ABudgetThatHoldsAllKeysIsDense) {
    const auto dense = open({.chunk_tokens = 32});
    const std::vector<float> expected = answer(*dense);
    for (const Decode method : decode_methods) {
        const auto generator = open(decode_with(method, 400));
        EXPECT_EQ(answer(*generator), expected) << row_of(method).name;
    }
}

TEST_P(SparseAttention, LinesThatHoldEverythingAreDense) {
    for (const int64_t chunk : {7, 32, 150}) {
        const auto dense = open({.chunk_tokens = chunk});
        const std::vector<float> expected = answer(*dense);
        for (const Prefill method : every_prefill) {
            Generator::Options options;
            options.chunk_tokens = chunk;
            options.prefill.method = method;
            options.prefill.alpha = 1.0;
            options.prefill.density = 1.0;
            options.prefill.min_tokens = 0;
            if (!row_of(method).all_is_dense) continue;
            EXPECT_LE(golden::relative_error(answer(*open(options)), expected), 1e-5)
                << row_of(method).name << ", chunk " << chunk;
        }
    }
}

TEST_P(SparseAttention, FewKeysAndLinesAreNotDenseAndStayFinite) {
    const std::vector<float> expected = answer(*open({.chunk_tokens = 32}));
    for (const Decode method : decode_methods) {
        const auto got = answer(*open(decode_with(method, 24)));
        EXPECT_TRUE(std::ranges::all_of(got, [](float x) { return std::isfinite(x); }));
        EXPECT_GT(golden::relative_error(got, expected), 1e-4) << row_of(method).name;
    }
    for (const Prefill method : every_prefill) {
        Generator::Options options;
        options.chunk_tokens = 32;
        options.prefill.method = method;
        options.prefill.alpha = 0.3;
        options.prefill.density = 0.2;
        options.prefill.min_tokens = 0;
        options.measure = true;
        const auto generator = open(options);
        const auto got = answer(*generator);
        EXPECT_TRUE(std::ranges::all_of(got, [](float x) { return std::isfinite(x); }));
        const SparsePrefillStats& stats = generator->sparse_prefill()->stats();
        if (method == Prefill::flexprefill) {  // its first block and its nearest hold all of so few keys
            EXPECT_LE(golden::relative_error(got, expected), 1e-5);
            EXPECT_EQ(stats.covered, stats.causal);
            continue;
        }
        EXPECT_GT(golden::relative_error(got, expected), 1e-4) << row_of(method).name;
        EXPECT_LT(stats.covered, stats.causal);
        EXPECT_GT(stats.covered, 0);
    }
}

/// Not a step earlier, not one later, and the choice before it serves until then.
TEST_P(SparseAttention, AChoiceServesFromExactlyLagStepsLaterOn) {
    for (const int lag : {0, 1, 3}) {
        const auto generator = open(decode_with(Decode::progressive, 24, lag));
        need(generator->prefill(std::span(ids_).first(150)));
        const ChosenKeys& choice = chosen_by(*generator);
        for (int step = 1; step <= 16; ++step) {
            need(generator->step(ids_[static_cast<size_t>(150 + step)]));
            // Choices begin behind the steps 2, 6, 10 …, of all keys there are then.
            int begun = -1;
            for (int after = 2; after + lag < step; after += 4) begun = after;
            EXPECT_EQ(choice.serving(), begun > 0) << "lag " << lag << ", step " << step;
            EXPECT_EQ(choice.tail_begin(0), begun > 0 ? 150 + begun : 0) << "lag " << lag << ", step " << step;
            const int newest = begun > 0 ? choice.chosen(0)[0].back() : 0;
            EXPECT_EQ(newest, begun > 0 ? 150 + begun - 1 : 0) << "lag " << lag << ", step " << step;
        }
    }
}

/// A long period is looked back over only so far: what is kept of each turn's queries is bounded.
TEST(StepAttentionOptions, LookBackIsBounded) {
    DecodeAttention settings;
    settings.method = Decode::progressive;
    settings.observe = 16;
    settings.reselect_every = 64;
    EXPECT_EQ(StepAttention::options_of(settings).observe_every, 4);
    settings.reselect_every = 4096;
    EXPECT_EQ(StepAttention::options_of(settings).observe_every, 16);
    settings.cold_tokens = 0;
    EXPECT_EQ(StepAttention::prompt_rows(settings), 256);
}

/// Chunks that are too short, or see too few keys, to be worth a choice are part of the density.
TEST_P(SparseAttention, DenseChunksOfAPromptByLinesAreCounted) {
    Generator::Options options;
    options.chunk_tokens = 32;
    options.prefill.method = Prefill::a_shape;
    options.prefill.density = 0.2;
    options.prefill.min_tokens = 64;
    options.measure = true;
    const auto generator = open(options);
    answer(*generator, 150, 0);  // of 32, 18 | 32, 32, 32 and 4: the second round's three alone see 64 keys
    const SparsePrefillStats& stats = generator->sparse_prefill()->stats();
    const int64_t lists = int64_t{model_.spec.layers} * model_.spec.heads;
    EXPECT_EQ(stats.causal, lists * 150 * 151 / 2);
    EXPECT_GE(stats.covered, lists * (50 * 51 / 2 + 4 * 146 + 4 * 5 / 2));
    EXPECT_LT(stats.covered, stats.causal);
}

TEST_P(SparseAttention, AnUnlaggedChoiceAndALaggedOneDifferOnlyInWhenTheyServe) {
    Generator::Options options = decode_with(Decode::progressive, 24, 3);
    const auto lagged = open(options);
    answer(*lagged, 150, 2 + 4);  // chosen after 2 steps, served after 5
    EXPECT_TRUE(lagged->step_attention()->serving());
    EXPECT_EQ(chosen_by(*lagged).tail_begin(0), 152);
    options.decode.lag_steps = 0;
    const auto prompt = open(options);
    answer(*prompt, 150, 3);
    EXPECT_TRUE(prompt->step_attention()->serving());
    for (int layer = 0; layer < model_.spec.layers; ++layer) {
        const auto a = chosen_by(*lagged).chosen(layer), b = chosen_by(*prompt).chosen(layer);
        ASSERT_TRUE(std::ranges::equal(a, b)) << "layer " << layer;
        for (const auto& keys : a) {
            EXPECT_EQ(keys.size(), 24U);
            EXPECT_TRUE(std::ranges::is_sorted(keys));
            EXPECT_EQ(keys.front(), 0);   // a sink
            EXPECT_EQ(keys.back(), 151);  // the newest
        }
    }
}

TEST_P(SparseAttention, EvictingMethodsGiveMemoryBackAndOthersKeepIt) {
    const auto dense = open({.chunk_tokens = 32});
    answer(*dense, 200, 4);
    for (const Decode method : decode_methods) {
        const auto generator = open(decode_with(method, 32));
        answer(*generator, 200, 4);
        if (row_of(method).gives_up) {
            EXPECT_LE(blocks_in_use(*generator), blocks_in_use(*dense) / 2) << row_of(method).name;
        } else if (row_of(method).pages) {  // which are marked where they lie
            EXPECT_EQ(blocks_in_use(*generator), blocks_in_use(*dense));
        } else {
            EXPECT_GT(blocks_in_use(*generator), blocks_in_use(*dense)) << row_of(method).name;
        }
    }
}

/// What was given up is computed again when the conversation goes on.
TEST_P(SparseAttention, TheNextPromptAfterAnEvictionSeesEverything) {
    const auto evicting = open(decode_with(Decode::snapkv, 32)), dense = open({.chunk_tokens = 32});
    for (const auto& generator : {evicting.get(), dense.get()}) {
        answer(*generator, 150, 5);
        generator->begin_round();
        need(generator->prefill(std::span(ids_).subspan(200, 40)));
    }
    EXPECT_LE(
        golden::relative_error(evicting->logits(), std::vector<float>(dense->logits().begin(), dense->logits().end())),
        1e-5);
    EXPECT_EQ(evicting->tokens(), dense->tokens());
}

/// Keys that are marked where they lie serve as well as copies.
TEST_P(SparseAttention, WithoutRoomForCopiesTheChoiceIsTheSame) {
    const auto roomy = open(decode_with(Decode::progressive, 64));
    const std::vector<float> expected = answer(*roomy, 150, 20);
    Generator::Options options = decode_with(Decode::progressive, 64);
    const KvShape shape = Transformer::kv_shape(model_.spec, DType::f32);
    options.kv_bytes_max =
        13 * shape.block_bytes(LayerGroup::upper);  // 150 keys in two rounds, the answer, one to spare
    const auto tight = open(options);
    EXPECT_LE(golden::relative_error(answer(*tight, 150, 20), expected), 1e-5);
    EXPECT_EQ(tight->step_attention()->stats().blocks_held, 0);
    EXPECT_GT(roomy->step_attention()->stats().blocks_held, 0);
}

/// Chooses every second key, and tells after each layer from how many it chose.
class EverySecondKey : public DecodeSelection {
public:
    explicit EverySecondKey(std::function<void(int64_t)> after_layer) : after_layer_(std::move(after_layer)) {}
    ChoiceTriggers triggers() const override { return {.every = 8}; }
    int queries() const override { return 4; }
    bool wanted(int64_t) const override { return true; }
    void select(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        for (auto& keys : chosen) {
            keys.clear();
            for (int32_t key = 0; key < scores.keys; key += 2) keys.push_back(key);
        }
        after_layer_(scores.keys);
    }

private:
    std::function<void(int64_t)> after_layer_;
};

/// Others take the room between two layers of a choice: the later ones are marked where they lie.
TEST_P(SparseAttention, RoomThatIsLostHalfWayThroughAChoiceChangesNothing) {
    Generator::Options options = decode_with(Decode::progressive, 64, 3);
    options.decode_method = std::make_shared<EverySecondKey>([](int64_t) {});
    const auto roomy = open(options);
    const std::vector<float> expected = answer(*roomy, 150, 6);
    std::unique_ptr<Generator> robbed;
    std::optional<KvLease> loot;
    int layers = 0;  // of the whole prompt's choice, one a step
    options.decode_method = std::make_shared<EverySecondKey>([&](int64_t keys) {
        if (keys < 150 || ++layers != 2) return;
        KvPool& pool = const_cast<KvPool&>(robbed->pool());
        loot = need(pool.acquire(LayerGroup::upper, pool.blocks_free(LayerGroup::upper) - 1));  // the answer needs one
    });
    robbed = open(options);
    EXPECT_LE(golden::relative_error(answer(*robbed, 150, 6), expected), 1e-5);
    ASSERT_TRUE(loot.has_value());
    EXPECT_EQ(robbed->step_attention()->stats().keys_chosen, roomy->step_attention()->stats().keys_chosen);
    EXPECT_GT(robbed->step_attention()->stats().blocks_held, 0);
    EXPECT_LT(robbed->step_attention()->stats().blocks_held, roomy->step_attention()->stats().blocks_held);
}

}  // namespace
}  // namespace rondo

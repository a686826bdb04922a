// Where nothing is left out, chosen keys and lines are dense attention: by the way that choices take, not by the short
// cut of a budget that holds everything, over prompts, rounds, chunks and budgets that are drawn.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "config/checked.hpp"
#include "model/attention/chosen_keys.hpp"
#include "model/attention/policies/decode_selection/top_keys.hpp"
#include "model/generator.hpp"
#include "tests/model/methods_where.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;
using Prefill = PrefillAttention::Method;
using Decode = DecodeAttention::Method;

/// Methods of pages are not among them: where these choose, they leave pages out.
const std::vector<Decode> methods_of_keys =
    testing::methods_where<Decode>(decode_method_rows, [](const MethodRow& row) { return !row.pages; });
const std::vector<Decode> methods_of_pages =
    testing::methods_where<Decode>(decode_method_rows, [](const MethodRow& row) { return row.pages; });

/// A method that chooses all keys before the tail, whatever its budget. When it chooses, and by which queries, stays as
/// it was. Its window does not slide, because a sliding one loses keys.
class Everything final : public DecodeSelection {
public:
    explicit Everything(const DecodeAttention& settings) : method_(make_decode_selection(settings)) {}

    ChoiceTriggers triggers() const override { return method_->triggers(); }
    int queries() const override { return method_->queries(); }
    bool evicts() const override { return method_->evicts(); }
    bool accumulates() const override { return method_->accumulates(); }
    bool shifts() const override { return method_->shifts(); }
    int64_t tail_begin(int64_t seen, int64_t) const override { return method_->tail_begin(seen, seen); }
    bool wanted(int64_t) const override { return true; }
    void select(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        for (std::vector<int32_t>& keys : chosen) {
            keys.clear();
            append_range(0, tail_begin(scores.keys, scores.keys), keys);
        }
    }

private:
    std::unique_ptr<DecodeSelection> method_;
};

/// Rounds, each of which leaves a block partly filled, prefilled in chunks; then an answer that is forced.
struct Talk {
    std::vector<int64_t> rounds;
    int64_t chunk_tokens = 0, steps = 0;
    std::vector<int32_t> ids;

    int64_t prompt() const { return std::accumulate(rounds.begin(), rounds.end(), int64_t{0}); }
    int64_t blocks() const {
        int64_t sum = ceil_div<int64_t>(rounds.back() + steps, kv_block_tokens);
        for (size_t i = 0; i + 1 < rounds.size(); ++i) sum += ceil_div<int64_t>(rounds[i], kv_block_tokens);
        return sum;
    }
};

class Identity : public ::testing::TestWithParam<std::string> {
protected:
    int64_t draw(int64_t least, int64_t most) {
        return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
    }

    /// Short enough that the pool of a generator holds it and the copies of two choices.
    Talk talk(int64_t rounds_least = 1) {
        Talk made;
        for (int64_t i = draw(rounds_least, 3); i > 0; --i) made.rounds.push_back(draw(20, 44));
        made.chunk_tokens = draw(5, 60);
        made.steps = draw(14, 24);
        made.ids = testing::random_ids(random_, made.prompt() + made.steps, model_.spec.vocabulary);
        return made;
    }

    /// With a budget below the number of keys.
    DecodeAttention decode_with(Decode method, const Talk& said) {
        DecodeAttention made;
        made.method = method;
        made.budget_tokens = static_cast<int>(draw(8, said.prompt() - 1));
        made.reselect_every = static_cast<int>(draw(1, 8));
        made.cold_tokens = static_cast<int>(draw(0, 5));
        made.observe = static_cast<int>(draw(1, 8));
        made.lag_steps = static_cast<int>(draw(0, made.reselect_every - 1));
        made.window = static_cast<int>(draw(1, 16));
        made.sinks = static_cast<int>(draw(0, 6));
        return made;
    }

    std::unique_ptr<Generator> open(Generator::Options options, const Talk& said) {
        options.kv_type = DType::f32;
        options.chunk_tokens = said.chunk_tokens;
        return need(Generator::create(model_, *device_, options));
    }

    /// The logits before each step.
    static std::vector<float> answer(Generator& generator, const Talk& said) {
        size_t at = 0;
        for (const int64_t round : said.rounds) {
            const auto tokens = std::span(said.ids).subspan(at, static_cast<size_t>(round));
            at += tokens.size();
            generator.begin_round();
            need(generator.prefill(tokens, static_cast<int64_t>(at) == said.prompt()));
        }
        std::vector<float> all;
        for (; at < said.ids.size(); ++at) {
            all.insert(all.end(), generator.logits().begin(), generator.logits().end());
            need(generator.step(said.ids[at]));
        }
        return all;
    }
    std::vector<float> answer(const Generator::Options& options, const Talk& said) {
        return answer(*open(options, said), said);
    }
    std::vector<float> dense(const Talk& said) { return answer(Generator::Options{}, said); }

    const std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:2"))));
    const golden::Case case_ = golden::with_layers(golden::read_case(GetParam()), 3);  // quest begins at the third
    const Model model_ = testing::load_case(case_, DType::f32, *device_);
    std::mt19937 random_{static_cast<uint32_t>(case_.seed)};
};
INSTANTIATE_TEST_SUITE_P(Models, Identity,
                         ::testing::Values("llama_gqa1_head32_tied", "mistral_gqa2_head128_tied",
                                           "qwen2_gqa7_head64_untied", "qwen3_gqa2_head32_untied"),
                         [](const auto& info) { return info.param; });

TEST_P(Identity, AllKeysChosenAreDense) {
    for (const Decode method : methods_of_keys) {
        for (const bool second : {false, true}) {
            const Talk said = talk();
            Generator::Options options;
            options.decode = decode_with(method, said);
            options.decode.shift = second;
            const auto everything = std::make_shared<Everything>(options.decode);
            options.decode_method = everything;
            options.give_up_blocks = draw(0, 1) == 0;
            MassProbe probe;
            options.step_probe = options.give_up_blocks ? nullptr : &probe;
            const bool tight = second && !everything->evicts();  // no room for copies: keys are marked where they lie
            if (tight) {
                const KvShape shape = Transformer::kv_shape(model_.spec, DType::f32);
                options.kv_bytes_max = static_cast<size_t>(said.blocks() + 1) * shape.block_bytes(LayerGroup::upper);
            }
            SCOPED_TRACE(::testing::Message() << row_of(method).name << ", second " << second << ", " << said.prompt()
                                              << " tokens, budget " << options.decode.budget_tokens);
            const auto generator = open(options, said);
            EXPECT_LE(golden::relative_error(answer(*generator, said), dense(said)), 1e-5);

            const auto& choice = dynamic_cast<const ChosenKeys&>(*generator->step_attention());
            const StepAttentionStats& stats = choice.stats();
            ASSERT_TRUE(choice.serving());
            EXPECT_EQ(stats.given_up, 0);
            EXPECT_EQ(stats.blocks_held > 0, !tight);
            EXPECT_EQ(stats.attended, stats.causal);
            if (stats.masses > 0) {
                EXPECT_NEAR(stats.mass / static_cast<double>(stats.masses), 1.0, 1e-4);
            }
            EXPECT_EQ(probe.masses().empty(), options.give_up_blocks);
            for (const double mass : probe.masses()) ASSERT_NEAR(mass, 1.0, 1e-4);
            for (int layer = 0; layer < model_.spec.layers; ++layer) {
                for (const std::vector<int32_t>& keys : choice.chosen(layer)) {
                    ASSERT_EQ(std::ssize(keys), choice.tail_begin(layer)) << "layer " << layer;
                    ASSERT_EQ(keys.back() + 1, choice.tail_begin(layer));
                }
            }
        }
    }
}

/// To the key: a budget of as many as there are is dense, one of one less leaves something out, but not much.
TEST_P(Identity, ABudgetOfAllKeysIsDenseAndOneLessNearlySo) {
    std::vector<Decode> methods = methods_of_keys;
    methods.insert(methods.end(), methods_of_pages.begin(), methods_of_pages.end());
    for (const Decode method : methods) {
        const Talk said = talk(2);
        Generator::Options options;
        options.decode.method = method;
        options.decode.reselect_every = 64;
        options.decode.cold_tokens = 0;  // all choose from the prompt
        options.decode.observe = 4;
        options.decode.lag_steps = 0;
        options.decode.window = 8;
        SCOPED_TRACE(::testing::Message()
                     << row_of(method).name << ", " << said.prompt() << " tokens and " << said.steps);
        const std::vector<float> expected = dense(said);
        const int64_t last = said.prompt() + said.steps - 1;  // keys that the last logits come from
        for (const int64_t budget : {last, last + 1}) {
            options.decode.budget_tokens = static_cast<int>(budget);
            EXPECT_EQ(answer(options, said), expected) << "budget " << budget;
        }
        const auto error_with = [&](int64_t budget) {
            options.decode.budget_tokens = static_cast<int>(budget);
            const auto generator = open(options, said);
            const double error = golden::relative_error(answer(*generator, said), expected);
            const StepAttentionStats& stats = generator->step_attention()->stats();
            EXPECT_LT(stats.attended, stats.causal) << "budget " << budget;
            EXPECT_EQ(stats.given_up, 0);
            EXPECT_TRUE(std::isfinite(error)) << "budget " << budget;
            return error;
        };
        const double one_less = error_with(said.prompt() - 1), quarter = error_with(said.prompt() / 4);
        EXPECT_GT(one_less, 1e-6);
        EXPECT_LE(one_less, quarter);
        EXPECT_EQ(one_less == quarter, method == Decode::quest && said.prompt() < 64) << "three pages at the least";
    }
}

TEST_P(Identity, LinesThatHoldEverythingAreDense) {
    for (const Prefill method :
         testing::methods_where<Prefill>(prefill_method_rows, [](const MethodRow& row) { return row.all_is_dense; })) {
        for (int i = 0; i < 2; ++i) {
            const Talk said = talk();
            Generator::Options options;
            options.prefill = {.method = method, .alpha = 1.0, .min_tokens = 0, .density = 1.0};
            options.measure = true;
            SCOPED_TRACE(::testing::Message() << row_of(method).name << ", " << said.prompt() << " tokens in chunks of "
                                              << said.chunk_tokens);
            const auto generator = open(options, said);
            EXPECT_LE(golden::relative_error(answer(*generator, said), dense(said)), 1e-5);
            const SparsePrefillStats& stats = generator->sparse_prefill()->stats();
            EXPECT_GT(stats.covered, 0);
            EXPECT_EQ(stats.covered, stats.causal);
        }
    }
}

/// By way of scores too: every row is looked at, and has almost all of its attention held.
TEST_P(Identity, LinesThatHoldAlmostAllOfEveryRowAreAlmostDense) {
    for (int i = 0; i < 2; ++i) {
        const Talk said = talk();
        Generator::Options options;
        options.prefill = {.method = Prefill::loopserve,
                           .alpha = 0.99999,
                           .sample_rows = 256,
                           .min_tokens = 0,
                           .alpha_of = PrefillAttention::AlphaOf::each_row};
        options.measure = true;
        SCOPED_TRACE(::testing::Message() << said.prompt() << " tokens in chunks of " << said.chunk_tokens);
        const auto generator = open(options, said);
        EXPECT_LE(golden::relative_error(answer(*generator, said), dense(said)), 1e-3);
        const SparsePrefillStats& stats = generator->sparse_prefill()->stats();
        ASSERT_GT(stats.masses, 0);
        EXPECT_GE(stats.mass / static_cast<double>(stats.masses), 0.9999);
    }
}

}  // namespace
}  // namespace rondo

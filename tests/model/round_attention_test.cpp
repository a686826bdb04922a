#include "model/attention/round_attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/device_buffer.hpp"
#include "model/generator.hpp"
#include "model/stepper.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;
using testing::random_ids;

constexpr int all_layers = 4, layers_below = 2;
constexpr RoundSettings some_rounds{
    .method = RoundSettings::Method::top_rounds, .share = 0.3, .watershed_layer = layers_below};

/// A conversation: a beginning, rounds of several lengths, and a message.
struct ToldRounds {
    std::vector<int64_t> ends{16, 45, 64, 83, 120, 131, 160};  ///< where the beginning and the rounds end
    int64_t message = 21;

    int64_t history() const { return ends.back(); }
    int64_t tokens() const { return history() + message; }
    int64_t earlier_rounds() const { return std::ssize(ends) - 1; }
};

/// A model of four layers on a device, and generators over it.
class RoundsOfAMessage : public ::testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        if (std::string_view(GetParam()).starts_with("cuda") && cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
        device_ = need(open_device(need(parse_device(GetParam()))));
        model_ = testing::load_case(golden::with_layers(golden::read_case("qwen2_gqa7_head64_tied"), all_layers),
                                    DType::f32, *device_);
        std::mt19937 random(7);
        ids_ = random_ids(random, told_.tokens() + 12, model_.spec.vocabulary);
    }

    std::unique_ptr<Generator> generator(const RoundSettings& rounds, int64_t chunk_tokens = 512) {
        auto made = need(Generator::create(
            model_, *device_,
            {.chunk_tokens = chunk_tokens, .kv_type = DType::f32, .context_tokens_max = 256, .rounds = rounds}));
        made->plan_rounds(told_.ends);
        return made;
    }
    std::span<const int32_t> prompt() const { return std::span(ids_).first(static_cast<size_t>(told_.tokens())); }

    /// The logits behind the prompt and behind each of a few forced tokens.
    std::vector<float> answer(Generator& generator) {
        std::vector<float> all;
        const auto add = [&] { all.insert(all.end(), generator.logits().begin(), generator.logits().end()); };
        add();
        for (size_t i = prompt().size(); i + 1 < ids_.size(); ++i) {
            need(generator.step(ids_[i]));
            add();
        }
        return all;
    }
    std::vector<float> answer_to_prompt(Generator& generator) {
        need(generator.prefill(prompt()));
        return answer(generator);
    }

    std::vector<int64_t> hidden(const SequenceKv& kv) const {
        std::vector<int64_t> rounds;
        for (int64_t round = 0; round < kv.rounds(); ++round)
            if (!kv.holds(LayerGroup::upper, round)) rounds.push_back(round);
        return rounds;
    }

    const ToldRounds told_;
    std::unique_ptr<Device> device_;
    Model model_;
    std::vector<int32_t> ids_;
};

bool same_logits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST_P(RoundsOfAMessage, AllOfThemAreDenseAttention) {
    RoundSettings all = some_rounds;
    all.share = 1.0;
    const auto chooses = generator(all), dense = generator({});
    EXPECT_TRUE(same_logits(answer_to_prompt(*chooses), answer_to_prompt(*dense)));
    EXPECT_EQ(chooses->round_attention()->stats().chosen, told_.earlier_rounds());
    EXPECT_TRUE(chooses->kv().is_whole());
    EXPECT_EQ(dense->round_attention(), nullptr);
}

TEST_P(RoundsOfAMessage, SomeLeaveTheOthersOutAboveTheWatershedAlone) {
    const auto chooses = generator(some_rounds), dense = generator({});
    const std::vector<float> got = answer_to_prompt(*chooses);
    EXPECT_GT(golden::relative_error(got, answer_to_prompt(*dense)), 1e-3) << "something is left out";
    const RoundStats& stats = chooses->round_attention()->stats();
    EXPECT_EQ(stats.rounds, 6);
    EXPECT_EQ(stats.chosen, 2);
    EXPECT_EQ(hidden(chooses->kv()).size(), 4U);
    EXPECT_TRUE(chooses->kv().holds(LayerGroup::upper, 0)) << "what stands before the first round stays";
    EXPECT_EQ(chooses->kv().tokens(LayerGroup::lower), chooses->kv().tokens());
    EXPECT_EQ(stats.keys, told_.tokens());
    EXPECT_EQ(stats.kept_keys, chooses->kv().tokens(LayerGroup::upper) - 11);
    EXPECT_GT(stats.mass, 0.0);
    EXPECT_LT(stats.mass, 1.0);
    int64_t causal = 0, left_out = 0;
    for (int64_t step = 1; step <= 11; ++step) {
        causal += all_layers * model_.spec.kv_heads * (stats.keys + step);
        left_out += (all_layers - layers_below) * model_.spec.kv_heads * (stats.keys - stats.kept_keys);
    }
    EXPECT_EQ(stats.causal, causal);
    EXPECT_EQ(stats.attended, causal - left_out);
}

/// A method for answers that chooses all keys there are before the tail, again and again.
class AllKeysThatStay final : public DecodeSelection {
public:
    ChoiceTriggers triggers() const override { return {.every = 3, .first = 1}; }
    int queries() const override { return 2; }
    bool wanted(int64_t) const override { return true; }
    void select(const KeyScores& scores, uint64_t, std::span<std::vector<int32_t>> chosen) const override {
        for (std::vector<int32_t>& keys : chosen) {
            keys.resize(static_cast<size_t>(scores.keys));
            std::iota(keys.begin(), keys.end(), 0);
        }
    }
};

/// CPUs alone choose keys.
class KeysOfRounds : public RoundsOfAMessage {};

constexpr DecodeAttention again_and_again{.method = DecodeAttention::Method::progressive,
                                          .budget_tokens = 24,
                                          .reselect_every = 3,
                                          .cold_tokens = 1,
                                          .observe = 2,
                                          .lag_steps = 0};

/// Keys of the answer are chosen from the rounds that stay, in each layer group by its own numbers.
TEST_P(KeysOfRounds, AreChosenFromThoseThatStay) {
    const auto rounds_alone = generator(some_rounds), all = generator(some_rounds), some = generator(some_rounds);
    DecodeAttention every = again_and_again;
    every.budget_tokens = 256;  // room for the copies
    need(all->answer_by(every, std::make_shared<AllKeysThatStay>()));
    need(some->answer_by(again_and_again));
    const std::vector<float> expected = answer_to_prompt(*rounds_alone), got = answer_to_prompt(*all);
    EXPECT_LE(golden::relative_error(got, expected), 1e-4) << "nothing more is left out";
    EXPECT_GT(all->step_attention()->stats().selections, 2);
    EXPECT_TRUE(all->step_attention()->serving());
    EXPECT_EQ(all->step_attention()->stats().attended, rounds_alone->round_attention()->stats().attended);
    EXPECT_EQ(all->step_attention()->stats().causal, rounds_alone->round_attention()->stats().causal);

    EXPECT_GT(golden::relative_error(answer_to_prompt(*some), expected), 1e-4);
    const StepAttention& chosen = *some->step_attention();
    ASSERT_TRUE(chosen.serving());
    EXPECT_LT(chosen.stats().attended, rounds_alone->round_attention()->stats().attended);
    for (int layer = 0; layer < all_layers; ++layer) {
        const LayerGroup group = layer < layers_below ? LayerGroup::lower : LayerGroup::upper;
        int64_t keys = 0, last = -1;
        chosen.ranges_of_step(layer, 0, some->kv(), [&](int64_t begin, int64_t end) {
            EXPECT_GT(begin, last);
            last = end - 1;
            keys += end - begin;
        });
        EXPECT_EQ(last, some->kv().tokens(group) - 1) << layer;
        EXPECT_LE(keys, 24 + 3) << layer;
    }
}

/// Bytes of keys that are left out may be anything.
TEST_P(RoundsOfAMessage, WhatIsLeftOutIsNotRead) {
    const auto plain = generator(some_rounds), poisoned = generator(some_rounds);
    need(plain->prefill(std::span(ids_).first(160), false));
    need(poisoned->prefill(std::span(ids_).first(160), false));
    const auto message = prompt().subspan(160);
    need(plain->prefill(message));
    const std::vector<int64_t> out = hidden(plain->kv());
    ASSERT_EQ(out.size(), 4U);
    const int64_t columns = model_.spec.kv_heads * model_.spec.head_dim;
    const std::vector<float> poison(static_cast<size_t>(columns), std::numeric_limits<float>::quiet_NaN());
    const Buffer bad = need(copied_to<float>(*device_, poison));
    const auto write = [&](int64_t round, int layer) {
        const auto at = static_cast<size_t>(round);
        for (int64_t token = told_.ends[at - 1]; token < told_.ends[at]; ++token) {
            const std::vector<int32_t> slot{poisoned->kv().slot(LayerGroup::upper, token)};
            const Buffer slots = need(copied_to<int32_t>(*device_, slot));
            const Tensor row = Tensor::of(bad.data(), DType::f32, 1, columns);
            need(device_->ops().append_kv(poisoned->pool().layer(layer), row, row, slots.as<int32_t>()));
            need(device_->drain(StreamId::compute));
        }
    };
    for (const int64_t round : out)
        for (int layer = layers_below; layer < all_layers; ++layer) write(round, layer);
    need(poisoned->prefill(message));
    EXPECT_EQ(hidden(poisoned->kv()), out);
    EXPECT_TRUE(same_logits(answer(*plain), answer(*poisoned)));
}

/// A row of a chunk sees the keys before it, as one that comes alone does.
TEST_P(RoundsOfAMessage, AMessageInAChunkIsItsTokensOneByOne) {
    RoundSettings recent = some_rounds;
    recent.method = RoundSettings::Method::recent_rounds;
    const auto chooses = generator(recent);
    need(chooses->prefill(prompt()));
    const auto pool = need(KvPool::create(*device_, chooses->pool().shape(), {64, 64}));
    const auto stepper = need(Stepper::create(model_, *pool, *device_, {.decode_rows = 1, .context_tokens = 256}));
    SequenceKv kv(*pool);
    kv.plan_rounds(told_.ends);
    need(stepper->begin_chunk(kv, prompt().first(160), BatchPart::Logits::none));
    need(stepper->run_chunk(kv, all_layers));
    kv.hide_rounds(LayerGroup::upper, std::vector<int64_t>{1, 2, 3, 4});
    ASSERT_EQ(hidden(kv), hidden(chooses->kv()));
    for (size_t i = 160; i < prompt().size(); ++i) {
        const Stepper::Row row{&kv, ids_[i]};
        need(stepper->decode({&row, 1}));
        need(stepper->reach_logits());
    }
    EXPECT_LE(golden::relative_error(chooses->logits(), stepper->decode_logits(0)), 1e-4);
}

/// However it is cut, the answer goes by all of the message.
TEST_P(RoundsOfAMessage, AMessageOfSeveralChunksChoosesByAllOfThem) {
    const auto whole = generator(some_rounds);
    need(whole->prefill(prompt()));
    for (const int64_t chunk_tokens : {5, 7, 20, 21}) {
        const auto parts = generator(some_rounds, chunk_tokens);
        need(parts->prefill(prompt()));
        EXPECT_EQ(hidden(parts->kv()), hidden(whole->kv())) << chunk_tokens;
        EXPECT_EQ(parts->round_attention()->stats().chosen, 2);
        EXPECT_NEAR(parts->round_attention()->stats().mass, whole->round_attention()->stats().mass, 1e-4);
    }
}

TEST_P(RoundsOfAMessage, EachMessageChoosesAnew) {
    const auto chooses = generator(some_rounds), again = generator(some_rounds);
    const std::vector<float> first = answer_to_prompt(*chooses);
    need(chooses->prefill(std::span(ids_).first(30)));
    EXPECT_EQ(chooses->round_attention()->stats().rounds, 6) << "a message that begins no round is the answer's round";
    chooses->truncate(told_.history());
    need(chooses->prefill(prompt().subspan(static_cast<size_t>(told_.history()))));
    EXPECT_TRUE(same_logits(answer(*chooses), first));
    need(again->prefill(prompt(), false));
    EXPECT_TRUE(again->kv().is_whole()) << "history chooses nothing";
}

TEST_P(RoundsOfAMessage, ThereIsNothingToChooseFromOneRound) {
    const auto chooses = generator(some_rounds), dense = generator({});
    for (Generator* const one : {chooses.get(), dense.get()}) {
        one->plan_rounds({16, 45});
        need(one->prefill(std::span(ids_).first(60)));
    }
    EXPECT_TRUE(same_logits(chooses->logits(), dense->logits()));
    EXPECT_EQ(chooses->round_attention()->stats().rounds, 0);
}

/// Another turn may have cut what stands before the first round elsewhere.
TEST_P(RoundsOfAMessage, WhatBeginsBeforeTheFirstRoundStays) {
    const auto pool = need(KvPool::create(*device_, generator(some_rounds)->pool().shape(), {64, 64}));
    const auto stepper = need(Stepper::create(model_, *pool, *device_, {.decode_rows = 1, .context_tokens = 256}));
    for (const int64_t first : {16, 45, 46, 64, 83}) {
        const auto rounds = need(RoundAttention::create(model_.spec, *pool, some_rounds));
        SequenceKv kv(*pool);
        kv.plan_rounds(told_.ends);
        need(stepper->begin_chunk(kv, prompt().first(160), BatchPart::Logits::none));
        need(stepper->run_chunk(kv, all_layers));
        rounds->begin_message(first, 160, told_.tokens());
        need(stepper->begin_chunk(kv, prompt().subspan(160), BatchPart::Logits::last, {.rounds = rounds.get()}));
        need(stepper->run_chunk(kv, all_layers));
        const int64_t before = std::ranges::count_if(told_.ends, [&](int64_t end) { return end < first; });
        for (int64_t round = 0; round <= before; ++round) EXPECT_TRUE(kv.holds(LayerGroup::upper, round)) << first;
        EXPECT_EQ(rounds->stats().rounds, 6 - before) << first;
        EXPECT_FALSE(kv.is_whole());
    }
}

/// A chunk that was given up above the watershed begins again from all rounds.
TEST_P(RoundsOfAMessage, AChunkThatIsDroppedChoosesAgain) {
    const auto once = generator(some_rounds);
    need(once->prefill(prompt()));
    const auto pool = need(KvPool::create(*device_, once->pool().shape(), {64, 64}));
    const auto stepper = need(Stepper::create(model_, *pool, *device_, {.decode_rows = 1, .context_tokens = 256}));
    const auto rounds = need(RoundAttention::create(model_.spec, *pool, some_rounds));
    SequenceKv kv(*pool);
    kv.plan_rounds(told_.ends);
    need(stepper->begin_chunk(kv, prompt().first(160), BatchPart::Logits::none));
    need(stepper->run_chunk(kv, all_layers));
    rounds->begin_message(16, 160, told_.tokens());
    for (const int stops_at : {1, 2, 3, 4}) {
        need(stepper->begin_chunk(kv, prompt().subspan(160), BatchPart::Logits::last, {.rounds = rounds.get()}));
        need(stepper->run_chunk(kv, stops_at));
        EXPECT_EQ(hidden(kv).size(), stops_at < layers_below ? 0U : 4U) << stops_at;
        if (stops_at == all_layers) break;
        stepper->drop_chunk(kv);
        EXPECT_EQ(kv.tokens(), 160);
    }
    need(stepper->reach_logits());
    EXPECT_EQ(hidden(kv), hidden(once->kv()));
    EXPECT_TRUE(same_logits(stepper->chunk_logits(), once->logits()));
    kv.show_rounds();
    EXPECT_TRUE(kv.is_whole());
}

/// Beside sums in double: what the rows look at in the watershed's layer says which rounds stay.
TEST_P(RoundsOfAMessage, TheChoiceIsThatOfExactSums) {
    const auto pool =
        need(KvPool::create(*device_, Transformer::kv_shape(model_.spec, DType::f32, layers_below), {64, 64}));
    const int64_t d = model_.spec.head_dim, heads = model_.spec.heads, kv_heads = model_.spec.kv_heads;
    for (const int64_t rows : {21, 300}) {
        const int64_t tokens = told_.history() + rows;
        std::mt19937 random(static_cast<uint32_t>(rows));
        std::normal_distribution<float> normal;
        const auto draw = [&](int64_t count) {
            std::vector<float> values(static_cast<size_t>(count));
            for (float& value : values) value = normal(random);
            return values;
        };
        const std::vector<float> k = draw(tokens * kv_heads * d), q = draw(rows * heads * d);
        const Buffer device_k = need(copied_to<float>(*device_, k)), device_q = need(copied_to<float>(*device_, q));
        SequenceKv kv(*pool);
        kv.plan_rounds(told_.ends);
        Batch batch = need(Batch::create(*device_, model_.spec, {512, 1, 512}));
        const std::vector<int32_t> ids(static_cast<size_t>(tokens), 1);
        need(batch.add(testing::next_rows(kv, ids)));
        need(batch.prepare());
        const KvLayer layer = pool->layer(layers_below - 1);
        const Tensor keys = Tensor::of(device_k.data(), DType::f32, tokens, kv_heads * d);
        need(device_->ops().append_kv(layer, keys, keys, batch.slots(LayerGroup::lower)));
        const auto rounds = need(RoundAttention::create(model_.spec, *pool, some_rounds));
        rounds->begin_message(16, told_.history(), tokens);
        rounds->begin_chunk(kv, told_.history());
        const float scale = 0.3F;
        need(rounds->look(
            *device_, kv, told_.history(), Tensor::of(device_q.data(), DType::f32, rows, heads * d),
            {{}, static_cast<int>(heads), layer, batch.sequences(LayerGroup::lower, 0, 1), nullptr, 0, scale}));
        rounds->choose(kv);

        // Of a longer message only some rows are looked at; here all are, so sums of rows drawn alike rank alike.
        std::vector<double> masses(static_cast<size_t>(told_.earlier_rounds()));
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t head = 0; head < heads; ++head) {
                const float* const query = q.data() + (row * heads + head) * d;
                std::vector<double> weights;
                double sum = 0.0;
                for (int64_t key = 0; key <= told_.history() + row; ++key) {
                    const float* const its = k.data() + (key * kv_heads + head * kv_heads / heads) * d;
                    double dot = 0.0;
                    for (int64_t i = 0; i < d; ++i) dot += static_cast<double>(query[i]) * its[i];
                    weights.push_back(std::exp(dot * scale));
                    sum += weights.back();
                }
                for (size_t round = 0; round < masses.size(); ++round)
                    for (int64_t key = told_.ends[round]; key < told_.ends[round + 1]; ++key)
                        masses[round] += weights[static_cast<size_t>(key)] / sum;
            }
        double all = 0.0, held = 0.0;
        for (const double mass : masses) all += mass;
        std::vector<int64_t> expected;
        for (const int32_t round : make_round_selection(some_rounds)->choose(masses)) {
            expected.push_back(round + 1);
            held += masses[static_cast<size_t>(round)];
        }
        std::vector<int64_t> seen;
        for (int64_t round = 1; round <= told_.earlier_rounds(); ++round)
            if (kv.holds(LayerGroup::upper, round)) seen.push_back(round);
        EXPECT_EQ(seen, expected) << rows;
        EXPECT_NEAR(rounds->stats().mass, held / all, rows > 256 ? 0.05 : 1e-4);
    }
}

std::string device_of_rounds(const ::testing::TestParamInfo<const char*>& info) {
    return std::string_view(info.param).starts_with("cuda") ? "Cuda0" : "Cpu";
}

INSTANTIATE_TEST_SUITE_P(Engine, RoundsOfAMessage, ::testing::Values("cpu:2"), device_of_rounds);
INSTANTIATE_TEST_SUITE_P(Engine, KeysOfRounds, ::testing::Values("cpu:2"), device_of_rounds);
INSTANTIATE_TEST_SUITE_P(EngineOnGpu, RoundsOfAMessage, ::testing::Values("cuda:0"), device_of_rounds);

}  // namespace
}  // namespace rondo

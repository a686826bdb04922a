// A choice of keys as a job: made by whoever has it, whenever, whatever becomes of its sequence meanwhile.

#include "model/attention/choice.hpp"

#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "model/attention/chosen_keys.hpp"
#include "model/attention/sequence_attention.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;
using testing::TinyEngine;
using Method = DecodeAttention::Method;

constexpr int lag = 5;

/// A sequence that answers as settings say; choices are made by the test.
struct Sequence {
    Sequence(TinyEngine& tiny, const DecodeAttention& settings)
        : engine(tiny),
          attention(need(
              StepAttention::create(tiny.model.spec, *tiny.pool, *tiny.device, StepAttention::options_of(settings)))),
          how{nullptr, attention.get()} {}

    void prefill(std::span<const int32_t> ids) {
        run(ids, Rows::bulk);
        if (attention) attention->after_prefill(*engine.device, kv);
    }
    std::vector<float> step(int32_t id) {
        if (attention) attention->before_step(kv);
        const std::vector<float> logits = run({&id, 1}, Rows::invariant);
        if (attention) attention->after_step(kv);
        return logits;
    }

    std::vector<float> run(std::span<const int32_t> ids, Rows rows) {
        BatchPart part = testing::next_rows(kv, ids, rows);
        part.attention = &how;
        return engine.run({part});
    }

    TinyEngine& engine;
    SequenceKv kv{*engine.pool};
    std::unique_ptr<StepAttention> attention;
    SequenceAttention how;
};

class ChoiceTest : public ::testing::Test {
protected:
    static constexpr int64_t prompt = 90;

    static DecodeAttention progressive() {
        DecodeAttention settings;
        settings.method = Method::progressive;
        settings.budget_tokens = 24;
        settings.cold_tokens = 0;
        settings.reselect_every = 8;
        settings.observe = 4;
        settings.lag_steps = lag;
        return settings;
    }
    static DecodeAttention snapkv() {
        DecodeAttention settings;
        settings.method = Method::snapkv;
        settings.budget_tokens = 24;
        settings.window = 4;
        return settings;
    }
    std::span<const int32_t> ids(int64_t begin, int64_t count) const {
        return std::span(ids_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    }
    int32_t id(int64_t at) const { return ids_[static_cast<size_t>(at)]; }

    /// One piece on the device, one on the host.
    static Status piece(Choice& choice, int layers = 1) {
        RONDO_TRY(choice.on_device(layers));
        choice.on_host([](int64_t tasks, const std::function<void(int64_t)>& task) {
            for (int64_t i = 0; i < tasks; ++i) task(i);
        });
        return Status::ok();
    }
    static void make(Choice& choice) {
        while (!choice.complete()) need(piece(choice));
    }
    /// What it has chosen, by layer and KV head.
    std::vector<std::vector<int32_t>> result(Choice& choice) {
        std::shared_ptr<KeyLists> lists;
        ChosenKv copies(*engine_.pool, *engine_.device);
        choice.swap_result(lists, copies);
        return lists->of_head;
    }
    size_t blocks_free() const { return engine_.pool->blocks_free(LayerGroup::upper); }
    size_t blocks_in_use() const { return engine_.pool->blocks_total(LayerGroup::upper) - blocks_free(); }
    /// The first choice of a sequence that nobody disturbs.
    std::vector<std::vector<int32_t>> undisturbed() {
        Sequence sequence(engine_, progressive());
        sequence.prefill(ids(0, prompt));
        const std::unique_ptr<Choice> choice = sequence.attention->take_begun();
        make(*choice);
        return result(*choice);
    }
    std::vector<std::vector<float>> dense(int64_t steps) {
        Sequence sequence(engine_, {});
        sequence.prefill(ids(0, prompt));
        std::vector<std::vector<float>> all;
        for (int64_t i = 0; i < steps; ++i) all.push_back(sequence.step(id(prompt + i)));
        return all;
    }

    TinyEngine engine_{golden::with_layers(golden::read_case("qwen2_gqa7_head64_untied"), 3), {.blocks = 64}};
    std::mt19937 random_{17};
    const std::vector<int32_t> ids_ = testing::random_ids(random_, 200, engine_.model.spec.vocabulary);
};

/// The sequence grows meanwhile.
TEST_F(ChoiceTest, ServesTheSameWheneverItIsMade) {
    constexpr int steps = 30;
    std::vector<std::vector<float>> expected;
    StepAttentionStats stats;
    for (const int made_after : {-1, 0, 2, lag}) {  // steps; −1: by the sequence itself, some layers at each
        Sequence sequence(engine_, progressive());
        sequence.prefill(ids(0, prompt));
        if (made_after < 0) need(sequence.attention->work_now());
        std::unique_ptr<Choice> choice;
        int age = 0;
        std::vector<std::vector<float>> got;
        for (int i = 0; i < steps; ++i) {
            if (made_after < 0) {
                if (sequence.attention->due()) need(sequence.attention->work_now());
            } else if (auto begun = sequence.attention->take_begun(); begun != nullptr) {
                ASSERT_EQ(choice, nullptr);
                choice = std::move(begun);
                age = 0;
            }
            if (choice && age++ == made_after) {
                EXPECT_EQ(sequence.attention->due(), made_after == lag);
                EXPECT_EQ(sequence.attention->steps_left(), lag - made_after);
                make(*choice);
                sequence.attention->hand_back(std::move(choice));
            }
            got.push_back(sequence.step(id(prompt + i)));
            if (made_after < 0) need(sequence.attention->work_now());
        }
        if (choice) sequence.attention->drop(std::move(choice));
        EXPECT_TRUE(sequence.attention->serving());
        if (expected.empty()) {
            expected = got;
            stats = sequence.attention->stats();
            EXPECT_EQ(stats.selections, 4);
            continue;
        }
        EXPECT_EQ(got, expected) << "made after " << made_after;
        EXPECT_EQ(sequence.attention->stats().selections, stats.selections);
        EXPECT_EQ(sequence.attention->stats().attended, stats.attended);
        EXPECT_EQ(sequence.attention->stats().keys_chosen, stats.keys_chosen);
    }
    EXPECT_EQ(blocks_in_use(), 0U);
}

TEST_F(ChoiceTest, IsCountedByWhoeverHandsItBack) {
    StepAttentionStats by_itself;
    for (const bool taken : {false, true}) {
        Sequence sequence(engine_, progressive());
        sequence.prefill(ids(0, prompt));
        if (taken) {
            std::unique_ptr<Choice> choice = sequence.attention->take_begun();
            EXPECT_EQ(sequence.attention->take_begun(), nullptr);
            make(*choice);
            EXPECT_EQ(sequence.attention->stats().masses, 0);
            sequence.attention->hand_back(std::move(choice));
        } else {
            for (int i = 0; i <= lag; ++i) need(sequence.attention->work_now());
            by_itself = sequence.attention->stats();
        }
        EXPECT_EQ(sequence.attention->take_begun(), nullptr) << "it is complete";
        const StepAttentionStats& stats = sequence.attention->stats();
        EXPECT_EQ(stats.masses, 3);
        EXPECT_EQ(stats.mass, by_itself.mass);
        EXPECT_EQ(stats.keys_scored, by_itself.keys_scored);
        EXPECT_GT(stats.keys_scored, 0);
    }
}

TEST_F(ChoiceTest, OfTwoSequencesAtOnceKnowNothingOfEachOther) {
    const auto expected = undisturbed();
    Sequence first(engine_, progressive()), second(engine_, progressive());
    first.prefill(ids(0, prompt));
    const std::unique_ptr<Choice> one = first.attention->take_begun();
    need(piece(*one));
    second.prefill(ids(7, prompt));
    const std::unique_ptr<Choice> other = second.attention->take_begun();
    while (!one->complete() || !other->complete()) {
        need(piece(*other));
        need(piece(*one));
    }
    EXPECT_EQ(result(*one), expected);
    EXPECT_NE(result(*other), expected);
}

/// As where prompts have a device of their own.
TEST_F(ChoiceTest, IsTheSameBehindAPromptOfAnotherDevice) {
    const auto expected = undisturbed();
    const std::unique_ptr<Device> other = need(open_device({DeviceKind::cpu, 0, 1}));
    Sequence sequence(engine_, progressive());
    sequence.prefill(ids(0, prompt));
    sequence.attention->after_prefill(*other, sequence.kv);
    const std::unique_ptr<Choice> choice = sequence.attention->take_begun();
    ASSERT_NE(choice, nullptr);
    make(*choice);
    EXPECT_EQ(result(*choice), expected);
}

/// Its leases are the last ones on the sequence's blocks; others cannot take them.
TEST_F(ChoiceTest, OutlivesItsSequence) {
    const auto expected = undisturbed();
    for (const int pieces : {0, 1, 2}) {
        ASSERT_EQ(blocks_in_use(), 0U);
        std::unique_ptr<Choice> choice;
        {
            Sequence sequence(engine_, progressive());
            sequence.prefill(ids(0, prompt));
            choice = sequence.attention->take_begun();
            for (int i = 0; i < pieces; ++i) need(piece(*choice));
        }
        ASSERT_GE(blocks_in_use(), 6U);
        {
            Sequence other(engine_, {});  // writes to whatever is free
            const std::vector<int32_t> same(200, 1);
            other.prefill(same);
            make(*choice);
        }
        EXPECT_EQ(result(*choice), expected) << pieces << " pieces";
        choice.reset();
        EXPECT_EQ(blocks_in_use(), 0U) << pieces << " pieces";
    }
}

/// As where the turn is cancelled between two pieces, or before the first.
TEST_F(ChoiceTest, DroppedUnfinishedGivesItsBlocksBackOnce) {
    for (const int pieces : {0, 1, 3}) {
        Sequence sequence(engine_, progressive());
        sequence.prefill(ids(0, prompt));
        const size_t own = blocks_in_use();
        std::unique_ptr<Choice> choice = sequence.attention->take_begun();
        for (int i = 0; i < pieces; ++i) need(piece(*choice));
        EXPECT_EQ(sequence.attention->stats().keys_scored, 0);
        sequence.attention->drop(std::move(choice));
        EXPECT_EQ(blocks_in_use(), own);
        EXPECT_FALSE(sequence.attention->due());
        EXPECT_EQ(sequence.attention->stats().given_up, 0);
        EXPECT_EQ(sequence.attention->stats().keys_scored > 0, pieces > 0);
        // Nothing waits for it, and the next one begins when it would.
        const auto expected = dense(8);
        for (int i = 0; i < 8; ++i) {
            EXPECT_EQ(sequence.attention->take_begun(), nullptr);
            EXPECT_EQ(sequence.step(id(prompt + i)), expected[static_cast<size_t>(i)]);
        }
        EXPECT_NE(sequence.attention->take_begun(), nullptr);
    }
    EXPECT_EQ(blocks_in_use(), 0U);
}

TEST_F(ChoiceTest, IsOfTheKeysThereWereThoughTheirSequenceGivesThemUp) {
    const auto expected = undisturbed();
    Sequence sequence(engine_, progressive());
    sequence.prefill(ids(0, prompt));
    const std::unique_ptr<Choice> choice = sequence.attention->take_begun();
    need(piece(*choice));
    const size_t before = blocks_in_use();
    sequence.kv.release_before(prompt);
    EXPECT_GT(sequence.kv.first_held(), 0);
    EXPECT_EQ(blocks_in_use(), before);
    make(*choice);
    EXPECT_LT(blocks_in_use(), before);
    EXPECT_EQ(result(*choice), expected);
}

/// Of keys that are gone no choice serves, though it is made.
TEST_F(ChoiceTest, OfASequenceThatIsCutNeverServes) {
    Sequence plain(engine_, {});
    plain.prefill(ids(0, prompt));
    for (const bool made_before : {false, true}) {
        Sequence sequence(engine_, progressive());
        sequence.prefill(ids(0, prompt));
        std::unique_ptr<Choice> choice = sequence.attention->take_begun();
        need(piece(*choice));
        if (made_before) {
            make(*choice);
            sequence.attention->hand_back(std::move(choice));
        }
        sequence.kv.truncate(60);
        plain.kv.truncate(60);
        for (int i = 0; i < lag + 2; ++i) {
            EXPECT_EQ(sequence.step(id(i)), plain.step(id(i))) << i;
            EXPECT_FALSE(sequence.attention->due());
        }
        if (!made_before) {
            make(*choice);
            sequence.attention->hand_back(std::move(choice));
        }
        EXPECT_FALSE(sequence.attention->serving());
        EXPECT_EQ(sequence.attention->stats().given_up, 0);
    }
    EXPECT_EQ(blocks_in_use(), 5U);  // the plain one's 67 keys, cut inside a block
}

TEST_F(ChoiceTest, FromBeforeAResetIsNotTakenForTheOneThatFollows) {
    Sequence sequence(engine_, progressive());
    sequence.prefill(ids(0, prompt));
    std::unique_ptr<Choice> old = sequence.attention->take_begun();
    make(*old);
    sequence.attention->after_prefill(*engine_.device, sequence.kv);
    std::unique_ptr<Choice> next = sequence.attention->take_begun();
    ASSERT_NE(next, nullptr);
    sequence.attention->hand_back(std::move(old));
    for (int i = 0; i < lag; ++i) sequence.step(id(prompt + i));
    EXPECT_TRUE(sequence.attention->due());
    EXPECT_EQ(sequence.attention->take_begun(), nullptr);
    make(*next);
    sequence.attention->hand_back(std::move(next));
    sequence.step(id(prompt + lag));
    EXPECT_TRUE(sequence.attention->serving());
    EXPECT_EQ(dynamic_cast<const ChosenKeys&>(*sequence.attention).tail_begin(0), prompt);
}

/// Keys that will be given up must be copied, and there is no room.
TEST_F(ChoiceTest, WhosePieceFailsIsGivenUp) {
    const auto expected = dense(3);
    Sequence sequence(engine_, snapkv());
    sequence.prefill(ids(0, prompt));
    std::unique_ptr<Choice> choice = sequence.attention->take_begun();
    ASSERT_NE(choice, nullptr);
    EXPECT_TRUE(sequence.attention->due());
    need(piece(*choice, 2));
    const size_t before = blocks_in_use();
    KvLease all = need(engine_.pool->acquire(LayerGroup::upper, blocks_free()));
    EXPECT_NE(choice->blocks_short(), BlockCounts{});
    const Status failed = piece(*choice);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::out_of_memory);
    EXPECT_FALSE(choice->complete());
    all = KvLease();
    sequence.attention->hand_back(std::move(choice));
    EXPECT_FALSE(sequence.attention->due());
    EXPECT_EQ(sequence.attention->stats().given_up, 1);
    EXPECT_EQ(blocks_in_use(), before);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sequence.step(id(prompt + i)), expected[static_cast<size_t>(i)]);
    EXPECT_FALSE(sequence.attention->serving());
    EXPECT_EQ(sequence.kv.first_held(), 0);
}

/// From then on its memory is the sequence's alone.
TEST_F(ChoiceTest, CompleteHoldsNoLeaseOnTheSequence) {
    Sequence sequence(engine_, progressive());
    sequence.prefill(ids(0, prompt));
    const std::unique_ptr<Choice> choice = sequence.attention->take_begun();
    const int32_t block = sequence.kv.blocks(LayerGroup::upper)[0];
    EXPECT_EQ(engine_.pool->references(LayerGroup::upper, block), 2);
    make(*choice);
    EXPECT_EQ(engine_.pool->references(LayerGroup::upper, block), 1);
}

}  // namespace
}  // namespace rondo

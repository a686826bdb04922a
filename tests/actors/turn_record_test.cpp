#include "actors/turn_record.hpp"

#include <gtest/gtest.h>

#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

using testing::must;

/// Turns of the demo model's text side; its tags of thoughts are two of its tokens.
class TurnRecordTest : public ::testing::Test {
protected:
    TurnRecordTest() {
        runtime_->devices.push_back(must(open_device({DeviceKind::cpu, 0, 1})));
        runtime_->model = must(load_model_text(demo_model_path()));
        runtime_->pool = must(
            KvPool::create(*runtime_->devices[0], Transformer::kv_shape(runtime_->model.spec, DType::f32), {8, 8}));
        runtime_->methods.emplace_back();
    }
    /// With a prompt of 20 tokens, of which so many are known.
    Turn turn(int64_t known = 0) {
        Turn turn = testing::make_bare_turn(runtime_, 1, std::vector<int32_t>(20, 5), 20);
        EXPECT_TRUE(turn.kv.extend(known));
        return turn;
    }
    static TurnDelta delta(std::string text, std::vector<int32_t> ids) { return {std::move(text), std::move(ids), {}}; }

    RuntimePtr runtime_ = std::make_shared<Runtime>();
};

TEST_F(TurnRecordTest, CountsSecondsByTheStageThatHoldsTheTurn) {
    Turn under_way = turn();
    TurnRecord record({}, under_way, 100.0, 101.0);  // it waited for a second
    record.enter(TurnStage::admission, 101.0);
    under_way.lookup_seconds = 0.5;
    record.come_back(under_way, 103.0);
    record.enter(TurnStage::prefill, 103.0);
    record.come_back(under_way, 106.0);
    record.enter(TurnStage::decode, 106.0);
    under_way.preemptions = 1;
    record.come_back(under_way, 110.0);
    record.enter(TurnStage::admission, 110.0);  // again
    under_way.lookup_seconds = 0.75;
    record.come_back(under_way, 111.0);
    record.enter(TurnStage::decode, 111.0);
    const TurnEnd end = record.end(TurnOutcome::cancelled, make_error(ErrorCode::cancelled, "cancelled"), true, 113.0);
    EXPECT_DOUBLE_EQ(end.timings.queued, 1.0 + 1.5 + 0.75);
    EXPECT_DOUBLE_EQ(end.timings.restore, 0.75);
    EXPECT_DOUBLE_EQ(end.timings.prefill, 3.0);
    EXPECT_DOUBLE_EQ(end.timings.decode, 4.0 + 2.0);
    EXPECT_EQ(end.timings.preemptions, 1);
    EXPECT_EQ(end.error.code, ErrorCode::cancelled);
    EXPECT_EQ(record.figures().outcome, TurnOutcome::cancelled);
    EXPECT_DOUBLE_EQ(record.figures().timings.decode, 6.0);
}

/// It was let in with 4 tokens, another one's reading brought 6 more, and 8 of all these are read with others.
TEST_F(TurnRecordTest, WhatCameLastIsGivenUpFirst) {
    Turn under_way = turn(4);
    TurnRecord record({}, under_way, 0.0, 0.0);
    record.let_in(under_way);
    under_way.restored_tokens = 6;
    under_way.give_up(2);
    EXPECT_EQ(under_way.restored_tokens, 4);
    EXPECT_EQ(under_way.given_up_tokens, 0);
    under_way.give_up(6);
    EXPECT_EQ(under_way.restored_tokens, 0);
    under_way.restored_tokens = 12;
    EXPECT_EQ(record.restored(under_way), 0);
    const TurnUsage usage = record.end(TurnOutcome::cancelled, {}, true, 0.0).usage;
    EXPECT_EQ(usage.cached_tokens, 2);
    EXPECT_EQ(usage.restored_tokens, 12);
    EXPECT_EQ(usage.recomputed_tokens, 6);
}

TEST_F(TurnRecordTest, ATurnThatNoStageHoldsSpendsNoMoreTimeThere) {
    Turn under_way = turn();
    TurnRecord record({}, under_way, 1.0, 1.0);
    record.enter(TurnStage::prefill, 2.0);
    record.come_back(under_way, 3.0);
    EXPECT_DOUBLE_EQ(record.end(TurnOutcome::stop, {}, false, 9.0).timings.prefill, 1.0);
}

TEST_F(TurnRecordTest, WhatWasKnownOfAPromptIsCountedWhenItIsLetInFirst) {
    Turn known = turn(16);
    TurnRecord record({}, known, 0.0, 0.0);
    record.let_in(known);
    Turn restored = turn(18);
    restored.restored_tokens = 2;
    EXPECT_EQ(record.restored(restored), 0);
    TurnDelta first = delta("A", {7});
    record.tell(first, false, 0.5);
    known.preemptions = 1;
    record.come_back(known, 1.0);
    Turn again = turn(0);
    record.let_in(again);
    EXPECT_EQ(record.restored(again), 19) << "the last id never had a key";
    const TurnUsage usage = record.end(TurnOutcome::stop, {}, false, 2.0).usage;
    EXPECT_EQ(usage.prompt_tokens, 20);
    EXPECT_EQ(usage.cached_tokens, 16);
    EXPECT_EQ(usage.restored_tokens, 2);
    EXPECT_EQ(usage.recomputed_tokens, 2);
}

/// The keys that it had waited for did not come, and it is let in with others.
TEST_F(TurnRecordTest, WhoIsPutBackBeforeHeAnswersIsCountedAnew) {
    Turn known = turn(16);
    TurnRecord record({}, known, 0.0, 0.0);
    record.let_in(known);
    known.restored_tokens = 2;
    EXPECT_EQ(record.restored(known), 0);
    known.preemptions = 1;
    known.restored_tokens = 0;
    record.enter(TurnStage::prefill, 1.0);
    record.come_back(known, 2.0);
    Turn again = turn(4);
    record.let_in(again);
    const TurnUsage waiting = record.end(TurnOutcome::cancelled, {}, false, 3.0).usage;
    EXPECT_EQ(waiting.cached_tokens, 4);
    EXPECT_EQ(waiting.restored_tokens + waiting.recomputed_tokens, 0) << "nothing is computed yet";
    EXPECT_EQ(record.restored(again), 0);
    const TurnUsage usage = record.end(TurnOutcome::stop, {}, false, 4.0).usage;
    EXPECT_EQ(usage.cached_tokens, 4);
    EXPECT_EQ(usage.restored_tokens, 0);
    EXPECT_EQ(usage.recomputed_tokens, 16);
}

TEST_F(TurnRecordTest, WhatDidNotComeBackWasComputed) {
    Turn known = turn(4);
    TurnRecord record({}, known, 0.0, 0.0);
    record.let_in(known);
    known.restored_tokens = 12;
    record.restored(known);
    record.enter(TurnStage::prefill, 0.0);
    known.restored_tokens = 5;
    record.come_back(known, 1.0);
    const TurnUsage usage = record.end(TurnOutcome::stop, {}, false, 2.0).usage;
    EXPECT_EQ(usage.restored_tokens, 5);
    EXPECT_EQ(usage.recomputed_tokens, 11);
}

TEST_F(TurnRecordTest, TellsTheTimeBetweenTokensAndOfTheFirst) {
    const Turn under_way = turn();
    TurnRecord record({}, under_way, 10.0, 11.0);
    TurnDelta first = delta("a", {1}), second = delta("b", {2, 3}), rest = delta("c", {});
    EXPECT_FALSE(record.tell(first, false, 12.0));
    EXPECT_EQ(record.tell(second, false, 15.0), 3.0);
    EXPECT_FALSE(record.tell(rest, true, 16.0)) << "it has no token";
    EXPECT_EQ(record.told_ids().size(), 3U);
    EXPECT_EQ(record.answer(), "abc");
    const TurnEnd end = record.end(TurnOutcome::length, {}, false, 16.0);
    EXPECT_DOUBLE_EQ(end.timings.first_token, 2.0);
    EXPECT_EQ(end.usage.completion_tokens, 3);
    EXPECT_EQ(end.usage.thought_tokens, 0);
}

TEST_F(TurnRecordTest, ThoughtsAreToldApartAndStayPartOfTheAnswer) {
    runtime_->model.shows_thoughts = true;
    runtime_->model.thought_begin_id = 7;
    runtime_->model.thought_end_id = 8;
    const Turn under_way = turn();
    Ask ask;
    ask.thoughts_apart = true;
    TurnRecord record(ask, under_way, 0.0, 0.0);
    ASSERT_TRUE(record.holds_back());
    std::string text, thought;
    for (TurnDelta one : {delta("", {7}), delta("Hm. ", {1, 2}), delta("", {8}), delta("Yes.", {3}), delta("", {})}) {
        record.tell(one, one.ids.empty(), 1.0);
        text += one.text;
        thought += one.thought;
    }
    EXPECT_EQ(text, "Yes.");
    EXPECT_EQ(thought, "Hm. ");
    EXPECT_EQ(record.answer(), "Hm. Yes.");
    EXPECT_EQ(record.end(TurnOutcome::stop, {}, false, 2.0).usage.thought_tokens, 4);
}

TEST_F(TurnRecordTest, ThoughtsStayInTheTextWhereNobodyAskedAndInPlainTexts) {
    runtime_->model.shows_thoughts = true;
    const Turn under_way = turn();
    EXPECT_FALSE(TurnRecord({}, under_way, 0.0, 0.0).holds_back());
    Ask plain;
    plain.thoughts_apart = true;
    plain.ids = {1};
    EXPECT_FALSE(TurnRecord(plain, under_way, 0.0, 0.0).holds_back());
}

TEST_F(TurnRecordTest, CallsAreToldApartBehindThoughtsAndStayPartOfTheAnswer) {
    runtime_->model.shows_thoughts = true;
    const Turn under_way = turn();
    const CallStyle style{"<c>", ":", "", "", "</c>"};
    Ask ask;
    ask.thoughts_apart = true;
    ask.tools = must(ToolUse::make(R"([{"type":"function","function":{"name":"f"}}])", {}, &style, "tools"));
    TurnRecord record(ask, under_way, 0.0, 0.0);
    ASSERT_TRUE(record.holds_back());
    std::string text, thought;
    std::vector<ToolCallPiece> calls;
    for (TurnDelta one : {delta("<think>", {1}), delta("a <c> ", {2}), delta("</think>", {3}), delta("So\n<", {4}),
                          delta("c>f:{", {5}), delta("}</c>", {6}), delta("", {})}) {
        record.tell(one, one.ids.empty(), 1.0);
        text += one.text;
        thought += one.thought;
        add_calls(one.calls, calls);
    }
    EXPECT_EQ(thought, "a <c> ");
    EXPECT_EQ(text, "So");
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_EQ(calls[0].name, "f");
    EXPECT_EQ(calls[0].arguments, "{}");
    EXPECT_EQ(calls[0].id.size(), 29U);
    EXPECT_EQ(record.answer(), "<think>a <c> </think>So\n<c>f:{}</c>");
    EXPECT_TRUE(record.end(TurnOutcome::stop, {}, false, 2.0).calls);
    TurnRecord cut(ask, under_way, 0.0, 0.0);
    TurnDelta half = delta("<c>f:{", {1});
    cut.tell(half, true, 1.0);
    EXPECT_EQ(half.calls.size(), 1U);
    EXPECT_FALSE(cut.end(TurnOutcome::length, {}, false, 2.0).calls);
}

TEST_F(TurnRecordTest, HowItAttendedIsTakenOnce) {
    Turn under_way = turn();
    TurnRecord record({}, under_way, 0.0, 0.0);
    under_way.answer_attention.selections = 3;
    record.come_back(under_way, 1.0);
    EXPECT_EQ(record.take_attention().selections, 3);
    EXPECT_EQ(record.take_attention().selections, 0);
}

}  // namespace
}  // namespace rondo

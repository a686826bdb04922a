#include "model/generator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using testing::need;

/// A small model without tokenizer, and the demo model, whose text side generation needs.
class GeneratorRun : public ::testing::Test {
protected:
    std::unique_ptr<Generator> small(Generator::Options options = {.chunk_tokens = 16, .kv_type = DType::f32}) {
        return need(Generator::create(small_, *device_, options));
    }
    std::unique_ptr<Generator> demo() { return need(Generator::create(demo_, *device_, {})); }
    std::vector<int32_t> chat(const std::string& text) const { return need(demo_.encode_chat({{"user", text}})); }

    const std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:2"))));
    const golden::Case case_ = golden::read_case("qwen3_gqa2_head32_untied");
    const Model small_ = testing::load_case(case_, DType::f32, *device_);
    const Model demo_ = need(load_model(demo_model_path(), {}, *device_));
    const std::span<const int32_t> ids_{case_.ids};
};

TEST_F(GeneratorRun, ChunksAndStepsLeaveTheLogitsOfOnePrefill) {
    const auto whole = small({.chunk_tokens = 256, .kv_type = DType::f32});
    need(whole->prefill(ids_));
    const std::vector<float> expected(whole->logits().begin(), whole->logits().end());
    for (const int64_t chunk : {1, 7, 16}) {
        const auto chunked = small({.chunk_tokens = chunk, .kv_type = DType::f32});
        need(chunked->prefill(ids_));
        EXPECT_LE(golden::relative_error(chunked->logits(), expected), 1e-5) << "chunk " << chunk;
    }
    const auto stepped = small();
    need(stepped->prefill(ids_.first(1)));
    for (const int32_t id : ids_.subspan(1)) need(stepped->step(id));
    EXPECT_LE(golden::relative_error(stepped->logits(), expected), 1e-5);
    EXPECT_EQ(stepped->tokens(), whole->tokens());
}

TEST_F(GeneratorRun, WhatCannotBeDoneLeavesTheConversationAsItWas) {
    const auto generator = small({.chunk_tokens = 16, .kv_type = DType::f32, .context_tokens_max = 64});
    const auto untouched = small({.chunk_tokens = 16, .kv_type = DType::f32, .context_tokens_max = 64});
    need(generator->prefill(ids_));
    need(untouched->prefill(ids_));
    // Each would fail in its second chunk at the earliest.
    std::vector<int32_t> too_long(25, 1), outside(20, 1);
    outside.back() = 97;
    const auto ignore = [](std::span<const float>) {};
    EXPECT_THAT(generator->prefill(too_long).error().message,
                HasSubstr("65 tokens, must be at most the context of 64"));
    EXPECT_THAT(generator->score(too_long, ignore).error().message, HasSubstr("65 tokens"));
    EXPECT_THAT(generator->prefill(outside).error().message, HasSubstr("token id is 97,"));
    EXPECT_THAT(generator->score(outside, ignore).error().message, HasSubstr("token id is 97,"));
    EXPECT_THAT(generator->generate(outside, {}).error().message, HasSubstr("token id is 97,"));
    EXPECT_THAT(generator->generate({}, {}).error().message, HasSubstr("empty prompt"));
    EXPECT_THAT(generator->generate(ids_.first(2), {.sampling = {.temperature = -1.0F}}).error().message,
                HasSubstr("temperature"));
    EXPECT_THAT(generator->step(-1).error().message, HasSubstr("token id is -1,"));
    EXPECT_EQ(generator->tokens(), static_cast<int64_t>(ids_.size()));
    need(generator->step(5));
    need(untouched->step(5));
    EXPECT_TRUE(std::ranges::equal(generator->logits(), untouched->logits()));
}

TEST_F(GeneratorRun, AnswersEndWithTheContext) {
    const auto generator = small({.chunk_tokens = 16, .kv_type = DType::f32, .context_tokens_max = 44});
    const Generated made = need(generator->generate(ids_, {.tokens_max = 100, .ignore_eos = true}));
    EXPECT_EQ(made.ids.size(), 5U);  // four find a place, the fifth is only said
    EXPECT_EQ(made.finish_reason, FinishReason::length);
    EXPECT_EQ(generator->tokens(), 44);
    EXPECT_THAT(generator->step(1).error().message, HasSubstr("45 tokens, must be at most the context of 44"));
    EXPECT_EQ(generator->tokens(), 44);
}

TEST_F(GeneratorRun, ASlidingWindowIsTheContext) {
    Model windowed = testing::load_case(case_, DType::f32, *device_);
    windowed.spec.sliding_window = 32;
    const auto generator = need(Generator::create(windowed, *device_, {.chunk_tokens = 16, .kv_type = DType::f32}));
    EXPECT_EQ(generator->context_tokens_max(), 32);
    EXPECT_THAT(generator->prefill(ids_.first(33)).error().message,
                HasSubstr("33 tokens, must be at most the context of 32"));
    EXPECT_EQ(generator->tokens(), 0);
    need(generator->prefill(ids_.first(32)));
    // Within the window the model attends to everything: it is the one without a window.
    const auto whole = small();
    need(whole->prefill(ids_.first(32)));
    EXPECT_TRUE(std::ranges::equal(generator->logits(), whole->logits()));
    EXPECT_THAT(generator->step(1).error().message, HasSubstr("33 tokens, must be at most the context of 32"));
}

TEST_F(GeneratorRun, KeptPrefixGivesTheSameAnswer) {
    const auto generator = small();
    need(generator->generate(ids_, {.tokens_max = 8, .ignore_eos = true}));
    std::vector<int32_t> other(ids_.begin(), ids_.end());
    other[30] = (other[30] + 1) % 97;
    EXPECT_EQ(generator->keep_prefix(other), 30);
    EXPECT_EQ(generator->tokens(), 30);
    const Generated kept =
        need(generator->generate(std::span(other).subspan(30), {.tokens_max = 24, .ignore_eos = true}));
    const auto anew = small();
    EXPECT_EQ(kept.ids, need(anew->generate(other, {.tokens_max = 24, .ignore_eos = true})).ids);
    // The last token is computed again even when all are there: its logits are wanted.
    EXPECT_EQ(generator->keep_prefix(std::span(other).first(20)), 19);
    EXPECT_EQ(generator->keep_prefix({}), 0);
    EXPECT_EQ(generator->tokens(), 0);
}

TEST_F(GeneratorRun, PenaltiesConcernTheWholeContext) {
    const GenerateOptions how{
        .tokens_max = 16, .sampling = {.repetition_penalty = 1.9F, .presence_penalty = 1.5F}, .ignore_eos = true};
    const auto whole = small(), parts = small();
    const Generated expected = need(whole->generate(ids_, how));
    const size_t half = ids_.size() / 2;
    need(parts->prefill(ids_.first(half)));
    EXPECT_EQ(need(parts->generate(ids_.subspan(half), how)).ids, expected.ids);
}

TEST_F(GeneratorRun, RoundsDoNotChangeTheLogits) {
    const auto one = small(), rounds = small();
    need(one->prefill(ids_));
    for (size_t begin = 0; begin < ids_.size(); begin += 10) {
        rounds->begin_round();
        need(rounds->prefill(ids_.subspan(begin, 10)));
    }
    EXPECT_LE(golden::relative_error(rounds->logits(), one->logits()), 1e-5);
}

TEST_F(GeneratorRun, ManyShortRoundsEndInAnErrorNotACrash) {
    const auto generator = small({.chunk_tokens = 16, .kv_type = DType::f32, .context_tokens_max = 64});
    Status status;
    while (status.is_ok()) {
        ASSERT_LE(generator->tokens(), 64);
        generator->begin_round();
        status = generator->step(1);
    }
    EXPECT_LT(generator->tokens(), 64);
    EXPECT_GE(generator->tokens(), 8);
    generator->truncate(4);
    EXPECT_TRUE(generator->step(1)) << "room again";
}

TEST_F(GeneratorRun, KvBudgetBoundsTheContext) {
    // Two layers of two heads of 32 in float: 512 bytes a token, 16 of them a block.
    const auto generator = small({.chunk_tokens = 16, .kv_type = DType::f32, .kv_bytes_max = 5 * 16 * 512 * 2});
    EXPECT_EQ(generator->context_tokens_max(), 5 * 16);
    const auto none = Generator::create(small_, *device_, {.kv_type = DType::f32, .kv_bytes_max = 100});
    EXPECT_EQ(none.error().code, ErrorCode::out_of_memory);
}

/// What was given up is computed again, in memory that the copies of an answer no longer take.
TEST_F(GeneratorRun, APromptBehindKeysThatWereGivenUpHasTheWholeRoom) {
    DecodeAttention snapkv;
    snapkv.method = DecodeAttention::Method::snapkv;
    snapkv.budget_tokens = 64;
    const auto generator = small({.chunk_tokens = 16,
                                  .kv_type = DType::f32,
                                  .kv_bytes_max = 15 * 16 * 512 * 2,
                                  .decode = snapkv,
                                  .give_up_blocks = true});
    std::vector<int32_t> ids(150);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i % 50);
    need(generator->prefill(ids));
    for (int i = 0; i < 8; ++i) need(generator->step(1));
    const Status more = generator->prefill(std::vector<int32_t>(75, 2));
    EXPECT_TRUE(more) << more.error().message;
    EXPECT_EQ(generator->tokens(), 233);
}

/// A bounded pool holds the whole context and nothing beside it, so copies of chosen keys make room in time.
class GeneratorWithCopies : public GeneratorRun {
protected:
    /// In ten blocks: three of the prompt, two of the first choice's copies, so the copies are in the way at the ninth.
    /// The second choice would come behind the context's end.
    std::unique_ptr<Generator> choosing() {
        DecodeAttention progressive;
        progressive.method = DecodeAttention::Method::progressive;
        progressive.budget_tokens = 32;
        progressive.reselect_every = 128;
        progressive.cold_tokens = 2;
        progressive.lag_steps = 0;
        return small(
            {.chunk_tokens = 16, .kv_type = DType::f32, .kv_bytes_max = 10 * 16 * 512 * 2, .decode = progressive});
    }
};

TEST_F(GeneratorWithCopies, AnAnswerEndsWithTheContext) {
    const auto generator = choosing();
    ASSERT_EQ(generator->context_tokens_max(), 160);
    const Generated made = need(generator->generate(ids_, {.tokens_max = 200, .ignore_eos = true}));
    EXPECT_EQ(generator->tokens(), 160);
    EXPECT_EQ(made.ids.size(), 121U);  // the last one is only said
    EXPECT_EQ(made.finish_reason, FinishReason::length);
    EXPECT_EQ(generator->step_attention()->stats().selections, 2) << "chosen anew when the copies had given way";
}

TEST_F(GeneratorWithCopies, AFurtherPromptHasTheRoomOfTheLastAnswersCopies) {
    const auto generator = choosing();
    need(generator->generate(ids_, {.tokens_max = 5, .ignore_eos = true}));
    ASSERT_GT(generator->step_attention()->stats().blocks_held, 0);
    ASSERT_EQ(generator->tokens(), 44);
    const Status more = generator->prefill(std::vector<int32_t>(116, 2));
    EXPECT_TRUE(more) << more.error().message;
    EXPECT_EQ(generator->tokens(), 160);
}

TEST_F(GeneratorRun, AnswerIsStreamedAndWhole) {
    std::string streamed;
    const auto generator = demo();
    const Generated made = need(generator->generate(
        chat("The code of the red box is 4817. What is the code of the red box?"), {}, [&](std::string_view piece) {
            EXPECT_FALSE(piece.empty());
            streamed += piece;
            return true;
        }));
    EXPECT_EQ(made.text, "The code of the red box is 4817.");
    EXPECT_EQ(streamed, made.text);
    EXPECT_EQ(made.finish_reason, FinishReason::stop);
    EXPECT_EQ(made.ids.back(), demo_.spec.eos_ids.front());
    EXPECT_GT(made.prefill_seconds, 0.0);
    EXPECT_GT(made.decode_seconds, 0.0);
}

TEST_F(GeneratorRun, ListenerCanEndTheAnswer) {
    int pieces = 0;
    const auto generator = demo();
    const Generated made = need(generator->generate(chat("Hello!"), {.tokens_max = 50, .ignore_eos = true},
                                                    [&](std::string_view) { return ++pieces < 3; }));
    EXPECT_EQ(pieces, 3);
    EXPECT_EQ(made.finish_reason, FinishReason::stop);
    EXPECT_LT(made.ids.size(), 10U);
}

TEST_F(GeneratorRun, StopStringNeverReachesTheListener) {
    std::string streamed;
    const auto generator = demo();
    const Generated made =
        need(generator->generate(chat("The code of the red box is 4817. What is the code of the red box?"),
                                 {.stops = {"e red b"}}, [&](std::string_view piece) {
                                     streamed += piece;
                                     return true;
                                 }));
    EXPECT_EQ(made.text, "The code of th");
    EXPECT_EQ(streamed, made.text);
    EXPECT_EQ(made.finish_reason, FinishReason::stop);
}

TEST_F(GeneratorRun, StopIdEndsTheAnswerWithoutItsText) {
    const auto prompt = chat("The code of the red box is 4817. What is the code of the red box?");
    const Generated whole = need(demo()->generate(prompt, {}));
    ASSERT_GT(whole.ids.size(), 4U);
    const int32_t id = whole.ids[3];
    const auto seen = static_cast<size_t>(std::ranges::find(whole.ids, id) - whole.ids.begin());
    const Generated made = need(demo()->generate(prompt, {.stop_ids = {id}, .ignore_eos = true}));
    EXPECT_EQ(made.ids, std::vector<int32_t>(whole.ids.begin(), whole.ids.begin() + static_cast<int64_t>(seen) + 1));
    EXPECT_EQ(made.finish_reason, FinishReason::stop);
    EXPECT_EQ(made.text, need(demo()->generate(prompt, {.tokens_max = static_cast<int64_t>(seen)})).text);
    // An end token as a stop id ends an answer that ignores end tokens.
    const Generated at_end = need(demo()->generate(prompt, {.stop_ids = {demo_.spec.eos_ids[0]}, .ignore_eos = true}));
    EXPECT_EQ(at_end.ids, whole.ids);
    EXPECT_EQ(at_end.text, whole.text);
}

/// Before so many tokens neither an end token nor a stop ends the answer, and an end token is not chosen at all.
TEST_F(GeneratorRun, AnAnswerHasAtLeastItsFewestTokens) {
    const auto prompt = chat("The code of the red box is 4817. What is the code of the red box?");
    const Generated whole = need(demo()->generate(prompt, {}));
    const auto fewest = static_cast<int64_t>(whole.ids.size()) + 4;
    const auto end = demo_.spec.eos_ids[0];
    ASSERT_EQ(whole.ids.back(), end);
    const Generated longer = need(demo()->generate(prompt, {.tokens_max = 40, .tokens_min = fewest}));
    ASSERT_GE(std::ssize(longer.ids), fewest);
    EXPECT_EQ(std::ranges::count(std::span(longer.ids).first(static_cast<size_t>(fewest)), end), 0);
    EXPECT_TRUE(longer.text.starts_with(whole.text)) << longer.text;

    const auto word = static_cast<size_t>(whole.text.find("code"));
    const auto stopped = [&](int64_t tokens_min) {
        return need(demo()->generate(prompt, {.tokens_min = tokens_min, .stops = {"code"}})).text;
    };
    EXPECT_EQ(stopped(0), whole.text.substr(0, word));
    EXPECT_EQ(stopped(static_cast<int64_t>(whole.ids.size()) - 1), whole.text);
    const int32_t third = whole.ids[2];
    const Generated by_id = need(demo()->generate(prompt, {.tokens_min = 6, .stop_ids = {third}}));
    EXPECT_GE(by_id.ids.size(), 6U);
    EXPECT_EQ(std::ranges::count(std::span(by_id.ids).first(6), third), 0);
    EXPECT_EQ(need(demo()->generate(prompt, {.tokens_max = 3, .tokens_min = 3})).ids.size(), 3U);
    EXPECT_THAT(demo()->generate(prompt, {.tokens_max = 3, .tokens_min = 4}).error().message,
                HasSubstr("min_tokens is 4, must be 0 to max_tokens"));
}

TEST_F(GeneratorRun, SpecialTokensAreTextWhereThatIsWanted) {
    const auto prompt = chat("Hello!");
    const GenerateOptions hidden{.tokens_max = 30, .ignore_eos = true};
    GenerateOptions shown = hidden;
    shown.special_text = true;
    const Generated plain = need(demo()->generate(prompt, hidden)), special = need(demo()->generate(prompt, shown));
    EXPECT_EQ(plain.ids, special.ids);
    EXPECT_EQ(plain.text.find("<|"), std::string::npos);
    EXPECT_THAT(special.text, HasSubstr("<|end|>"));
    shown.ignore_eos = false;  // the one that ends the answer is none of its text
    EXPECT_EQ(need(demo()->generate(prompt, shown)).text.find("<|end|>"), std::string::npos);
}

TEST_F(GeneratorRun, StopsThatCannotWorkAreRefused) {
    const auto generator = small();
    const auto error_of = [&](GenerateOptions options) {
        return generator->generate(ids_.first(2), options).error().message;
    };
    EXPECT_EQ(error_of({.stop_ids = {5, 97}}), "stop id is 97, must be 0 to 96");
    EXPECT_THAT(error_of({.stop_ids = {-1}}), HasSubstr("stop id is -1,"));
    EXPECT_EQ(error_of({.stop_ids = std::vector<int32_t>(65, 1)}), "65 stop ids, must be at most 64");
    EXPECT_THAT(error_of({.stops = {"x"}}), HasSubstr("has no tokenizer; must be stop ids"));
    EXPECT_EQ(generator->tokens(), 0);
    const Generated greedy = need(small()->generate(ids_, {.tokens_max = 8, .ignore_eos = true}));
    const Generated made =
        need(generator->generate(ids_, {.tokens_max = 8, .stop_ids = {greedy.ids[0]}, .ignore_eos = true}));
    EXPECT_EQ(made.ids.size(), 1U);
    EXPECT_EQ(made.finish_reason, FinishReason::stop);
}

TEST_F(GeneratorRun, SecondRoundUsesTheFirst) {
    const auto generator = demo();
    std::vector<ChatMessage> messages = {{"user", "The code of the red box is 4817."}};
    const std::vector<int32_t> first = need(demo_.encode_chat(messages));
    messages.push_back({"assistant", need(generator->generate(first, {})).text});
    messages.push_back({"user", "What is the code of the red box?"});
    const std::vector<int32_t> second = need(demo_.encode_chat(messages));
    const int64_t kept = generator->keep_prefix(second);
    EXPECT_GT(kept, static_cast<int64_t>(first.size())) << "the answer's KV is kept too";
    generator->begin_round();
    const Generated made = need(generator->generate(std::span(second).subspan(static_cast<size_t>(kept)), {}));
    EXPECT_EQ(made.text, "The code of the red box is 4817.");
}

}  // namespace
}  // namespace rondo

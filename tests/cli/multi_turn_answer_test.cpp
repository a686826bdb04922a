#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/measure/multi_turn/answer_stream.hpp"

namespace rondo::cli::multi_turn {
namespace {

using nlohmann::json;

std::string event(const json& chunk) {
    return "data: " + chunk.dump() + "\n\n";
}

std::string text(const char* content) {
    return event({{"choices", {{{"delta", {{"content", content}}}, {"finish_reason", nullptr}}}}});
}

const std::string role = event({{"choices", {{{"delta", {{"role", "assistant"}, {"content", nullptr}}}}}}});
const std::string finish = event({{"choices", {{{"delta", json::object()}, {"finish_reason", "length"}}}}});
const std::string done = "data: [DONE]\n\n";

std::string usage(int64_t answered, json details = nullptr) {
    return event(
        {{"choices", json::array()},
         {"usage", {{"prompt_tokens", 50}, {"completion_tokens", answered}, {"prompt_tokens_details", details}}}});
}

Answer read(const std::string& bytes, int64_t asked = 3) {
    AnswerStream stream(asked);
    stream.take(bytes);
    return stream.finish();
}

TEST(AnswerStream, JoinsAndTimesPieces) {
    const Answer answer = read(role + text("on") + text("ce ") + text("more") + finish + usage(3) + done);
    EXPECT_EQ(answer.times.error, "");
    EXPECT_EQ(answer.text, "once more");
    EXPECT_EQ(answer.times.gaps_s.size(), 2u);
    EXPECT_GT(answer.times.ttft_s, 0.0);
    EXPECT_GE(answer.times.e2e_s, answer.times.ttft_s);
    EXPECT_NEAR(answer.times.gaps_s[0] + answer.times.gaps_s[1], answer.times.e2e_s - answer.times.ttft_s, 1e-9);
    EXPECT_EQ(answer.times.prompt_tokens, 50);
    EXPECT_EQ(answer.times.answer_tokens, 3);
    EXPECT_EQ(answer.times.cached_tokens, std::nullopt);
}

TEST(AnswerStream, CountsPiecesWhereTheServerDoesNotCount) {
    const Answer answer = read(text("a") + text("b") + text("c") + done);
    EXPECT_EQ(answer.times.error, "");
    EXPECT_EQ(answer.times.answer_tokens, 3);
}

TEST(AnswerStream, CountsTokensThatHaveNoText) {
    const Answer answer = read(role + finish + usage(3) + done);
    EXPECT_EQ(answer.times.error, "");
    EXPECT_EQ(answer.times.answer_tokens, 3);
    EXPECT_GT(answer.times.ttft_s, 0.0);
    EXPECT_EQ(answer.times.ttft_s, answer.times.e2e_s);
}

TEST(AnswerStream, ThoughtsAreTextToo) {
    for (const json& delta :
         {json{{"reasoning_content", "hm"}}, json{{"reasoning", "hm"}},
          json{{"reasoning", "hm"}, {"reasoning_content", "hm"}}, json{{"reasoning", "hm"}, {"content", nullptr}}}) {
        const std::string thought = event({{"choices", json::array({{{"delta", delta}}})}});
        const Answer answer = read(thought + text(" so") + finish + done, 2);
        EXPECT_EQ(answer.text, "hm so") << delta;
        EXPECT_EQ(answer.times.answer_tokens, 2) << "a server that does not count them";
        EXPECT_EQ(answer.times.gaps_s.size(), 1u);
    }
}

TEST(AnswerStream, TakesCountsOfTheCacheInEveryForm) {
    const Answer ours =
        read(text("a") + usage(3, {{"cached_tokens", 16}, {"restored_tokens", 32}, {"recomputed_tokens", 2}}) + done);
    EXPECT_EQ(ours.times.cached_tokens, 16);
    EXPECT_EQ(ours.times.restored_tokens, 32);
    EXPECT_EQ(ours.times.recomputed_tokens, 2);
    const Answer peer =
        read(text("a") + event({{"choices", json::array()}, {"timings", {{"cache_n", 7}, {"prompt_n", 5}}}}) +
             usage(3) + done);
    EXPECT_EQ(peer.times.cached_tokens, 7);
    EXPECT_EQ(peer.times.recomputed_tokens, 5);
    EXPECT_EQ(peer.times.restored_tokens, std::nullopt);
}

TEST(AnswerStream, FindsAnswersThatAreNotWhatWasAsked) {
    EXPECT_EQ(read(text("a") + usage(2) + done).times.error, "short answer");
    EXPECT_EQ(read(text("a") + usage(2) + done).times.message, "2 tokens where 3 were asked for");
    EXPECT_EQ(read(role + finish + usage(0) + done).times.error, "empty answer");
    EXPECT_EQ(read("").times.error, "cut off");
    EXPECT_EQ(read(text("a") + text("b") + text("c")).times.error, "cut off");
    EXPECT_EQ(read(text("a") + usage(3) + "data: [DONE]").times.error, "cut off");
}

TEST(AnswerStream, StopsAtTheFirstFault) {
    for (const char* bytes : {"data: {\n\n", "data: 7\n\n", "data: \xff\n\n", "data: {\"a\": \"\xff\"}\n\n"}) {
        AnswerStream stream(3);
        EXPECT_TRUE(stream.take(text("a")));
        EXPECT_FALSE(stream.take(bytes));
        EXPECT_EQ(stream.finish().times.error, "malformed answer");
    }
    const Answer told = read(text("a") + event({{"error", {{"message", "out of memory"}, {"code", 500}}}}) + done);
    EXPECT_EQ(told.times.error, "error in stream");
    EXPECT_EQ(told.times.message, "out of memory");
    EXPECT_EQ(read(event({{"error", nullptr}}) + text("a") + finish + usage(3) + done).times.error, "");
    AnswerStream endless(3);
    EXPECT_FALSE(endless.take(std::string(3 << 20, 'x')));
    EXPECT_EQ(endless.finish().times.error, "answer too large");
}

TEST(AnswerStream, PassesOverFieldsOfOtherKinds) {
    const Answer answer =
        read("event: ping\ndata: {}\n\n" + event({{"choices", 3}, {"usage", "none"}, {"timings", json::array()}}) +
             event({{"choices", {nullptr}}}) + event({{"choices", {{{"delta", {{"content", 5}}}}}}}) + text("a") +
             event({{"usage", {{"completion_tokens", "many"}, {"prompt_tokens", 1.5}}}}) + usage(3) + done);
    EXPECT_EQ(answer.times.error, "");
    EXPECT_EQ(answer.text, "a");
    EXPECT_EQ(answer.times.prompt_tokens, 50);
}

}  // namespace
}  // namespace rondo::cli::multi_turn

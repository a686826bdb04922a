#include "actors/conversation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "actors/answer_ends.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/cpu_time.hpp"

namespace rondo {
namespace {

using testing::cpu_time;
using testing::must;

class ConversationTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() { model = std::make_unique<Model>(must(load_model_text(demo_model_path()))); }
    static void TearDownTestSuite() { model.reset(); }

    /// The ids of an answer, as the demo model gives it: its text, and the end of it.
    static std::vector<int32_t> ended(std::vector<int32_t> answer) {
        answer.push_back(model->spec.eos_ids.front());
        return answer;
    }
    static std::vector<int32_t> joined(std::vector<int32_t> ids, const std::vector<int32_t>& more) {
        ids.insert(ids.end(), more.begin(), more.end());
        return ids;
    }
    /// Letter by letter, as no tokenizer would cut it, but as a model may say it.
    static std::vector<int32_t> spelled(const std::string& text) {
        std::vector<int32_t> ids;
        for (const char letter : text)
            for (const int32_t id : encoded(std::string(1, letter))) ids.push_back(id);
        return ids;
    }
    /// Rounds whose answers are spelled so; and the ids that each was computed with, those before it included.
    static std::vector<std::vector<int32_t>> say(Conversation& conversation, const std::vector<std::string>& texts) {
        std::vector<std::vector<int32_t>> ids;
        for (const std::string& text : texts) {
            const Conversation::Prompt prompt = must(conversation.prompt({{"user", text}}));
            const std::vector<int32_t> answer = ended(spelled("Noted."));
            ids.push_back(joined(prompt.ids, answer));
            conversation.answered({{"user", text}}, "Noted.", prompt, answer);
        }
        return ids;
    }
    static bool begins_with(const std::vector<int32_t>& ids, const std::vector<int32_t>& beginning) {
        return ids.size() > beginning.size() && std::equal(beginning.begin(), beginning.end(), ids.begin());
    }
    static std::vector<int32_t> encoded(const std::string& text) { return must(model->tokenizer->encode(text, false)); }

    static inline std::unique_ptr<Model> model;
};

TEST_F(ConversationTest, TheFirstPromptIsTheTemplates) {
    const Conversation conversation(*model);
    EXPECT_EQ(must(conversation.prompt({{"user", "Hello!"}})).ids, must(model->encode_chat({{"user", "Hello!"}})));
}

TEST_F(ConversationTest, TheNextPromptBeginsWithTheVeryIdsThatWereComputed) {
    // A client may also stop at the template's terminator where the model's own end is another token.
    for (const bool is_models_end : {true, false}) {
        Conversation conversation(*model);
        const Conversation::Prompt prompt = must(conversation.prompt({{"user", "Hello!"}}));
        ASSERT_NE(spelled("Noted."), encoded("Noted."));
        const std::vector<int32_t> answer = ended(spelled("Noted.")), ids = joined(prompt.ids, answer);
        const std::vector<int32_t> ends = model->spec.eos_ids;
        if (!is_models_end) model->spec.eos_ids = {0};
        conversation.answered({{"user", "Hello!"}}, "Noted.", prompt, answer);
        model->spec.eos_ids = ends;
        const std::vector<int32_t> next = must(conversation.prompt({{"user", "Thank you."}})).ids;
        EXPECT_TRUE(begins_with(next, ids));
        EXPECT_EQ(
            model->tokenizer->decode(next, true),
            model->tokenizer->decode(
                must(model->encode_chat({{"user", "Hello!"}, {"assistant", "Noted."}, {"user", "Thank you."}})), true));
    }
}

TEST_F(ConversationTest, WhatWasNotToldOfAnAnswerIsForgotten) {
    Conversation conversation(*model);
    conversation.answered({{"user", "Hello!"}}, "Noted.", must(conversation.prompt({{"user", "Hello!"}})),
                          ended(encoded("Noted. And more.")));
    EXPECT_EQ(must(conversation.prompt({{"user", "Thank you."}})).ids,
              must(model->encode_chat({{"user", "Hello!"}, {"assistant", "Noted."}, {"user", "Thank you."}})));
}

TEST_F(ConversationTest, RoundsCanBeTakenBackAndLeftOut) {
    Conversation conversation(*model);
    conversation.preamble = {{"system", "Be brief."}};
    for (const char* text : {"one", "two", "three"}) {
        const Conversation::Prompt prompt = must(conversation.prompt({{"user", text}}));
        conversation.answered({{"user", text}}, "Noted.", prompt, ended(encoded("Noted.")));
    }
    ASSERT_EQ(conversation.rounds().size(), 3U);
    EXPECT_GT(conversation.tokens(), 0);
    ASSERT_TRUE(conversation.drop({1, 1}).is_ok());
    EXPECT_EQ(must(conversation.prompt({{"user", "four"}})).ids, must(model->encode_chat({{"system", "Be brief."},
                                                                                          {"user", "one"},
                                                                                          {"assistant", "Noted."},
                                                                                          {"user", "three"},
                                                                                          {"assistant", "Noted."},
                                                                                          {"user", "four"}})));
    ASSERT_TRUE(conversation.rewind(0).is_ok());
    EXPECT_EQ(must(conversation.prompt({{"user", "five"}})).ids,
              must(model->encode_chat({{"system", "Be brief."}, {"user", "five"}})));
    EXPECT_FALSE(conversation.rewind(0).is_ok());
    EXPECT_FALSE(conversation.drop({0}).is_ok());
}

TEST_F(ConversationTest, RoundsBeforeThoseTakenBackKeepTheirIds) {
    Conversation conversation(*model);
    const auto ids = say(conversation, {"one", "two", "three"});
    ASSERT_TRUE(conversation.rewind(1).is_ok());
    const std::vector<int32_t> next = must(conversation.prompt({{"user", "four"}})).ids;
    EXPECT_TRUE(begins_with(next, ids[0]));
    EXPECT_EQ(model->tokenizer->decode(next, true),
              model->tokenizer->decode(
                  must(model->encode_chat({{"user", "one"}, {"assistant", "Noted."}, {"user", "four"}})), true));
    // And the round that comes instead is remembered like any other.
    const auto others = say(conversation, {"four", "five"});
    EXPECT_TRUE(begins_with(others[1], others[0]));
    ASSERT_TRUE(conversation.rewind(2).is_ok());
    EXPECT_TRUE(begins_with(must(conversation.prompt({{"user", "six"}})).ids, others[0]));
}

TEST_F(ConversationTest, RoundsBeforeThoseLeftOutKeepTheirIds) {
    Conversation conversation(*model);
    const auto ids = say(conversation, {"one", "two", "three", "four"});
    ASSERT_TRUE(conversation.drop({3, 1}).is_ok());
    EXPECT_EQ(conversation.history().ids, ids[0]) << "what is known of it";
    EXPECT_EQ(conversation.history().round_ends.size(), 1U);
    const std::vector<int32_t> next = must(conversation.prompt({{"user", "five"}})).ids;
    EXPECT_TRUE(begins_with(next, ids[0]));
    const std::vector<int32_t> anew = ended(encoded("Noted."));  // of the third round, that is now the second
    EXPECT_NE(std::search(next.begin() + std::ssize(ids[0]), next.end(), anew.begin(), anew.end()), next.end());
    // The rounds behind the one left out have ids again once they were computed anew; where one ends is not known.
    say(conversation, {"five"});
    ASSERT_TRUE(conversation.rewind(2).is_ok());
    EXPECT_TRUE(begins_with(must(conversation.prompt({{"user", "six"}})).ids, ids[0]));
    ASSERT_TRUE(conversation.drop({0}).is_ok());
    EXPECT_EQ(must(conversation.prompt({{"user", "seven"}})).ids,
              must(model->encode_chat({{"user", "three"}, {"assistant", "Noted."}, {"user", "seven"}})));
}

/// A client may have sent thousands of rounds in one request, and drops every second one.
TEST_F(ConversationTest, ThousandsOfRoundsAreDroppedAtOnce) {
    constexpr size_t count = 40'000;
    Conversation::Parts parts;
    parts.rounds.resize(count);
    for (size_t i = 0; i < count; ++i) parts.rounds[i].tokens = static_cast<int64_t>(i);
    parts.borders.resize(count * Conversation::borders_a_round);
    Conversation conversation(*model, std::move(parts));
    std::vector<int64_t> odd;
    for (size_t i = 1; i < count; i += 2) odd.push_back(static_cast<int64_t>(i));
    const auto before = cpu_time();
    ASSERT_TRUE(conversation.drop(std::move(odd)));
    EXPECT_LT(cpu_time() - before, std::chrono::seconds(2));
    ASSERT_EQ(conversation.rounds().size(), count / 2);
    for (size_t i = 0; i < count / 2; ++i) ASSERT_EQ(conversation.rounds()[i].tokens, static_cast<int64_t>(2 * i));
    EXPECT_EQ(conversation.borders().size(), count / 2 * Conversation::borders_a_round);
}

TEST_F(ConversationTest, AnAnswerThatWasCutOffLeavesTheIdsOfTheRoundsBefore) {
    Conversation conversation(*model);
    const auto ids = say(conversation, {"one"});
    const Conversation::Prompt prompt = must(conversation.prompt({{"user", "two"}}));
    conversation.answered({{"user", "two"}}, "Noted.", prompt, ended(spelled("Noted. And more.")));
    const std::vector<int32_t> next = must(conversation.prompt({{"user", "three"}})).ids;
    EXPECT_TRUE(begins_with(next, ids[0]));
    // As far as they spell what was told, the ids of the answer stay too.
    EXPECT_TRUE(begins_with(next, joined(prompt.ids, spelled("Noted."))));
    say(conversation, {"three"});
    ASSERT_TRUE(conversation.rewind(2).is_ok());
    EXPECT_TRUE(begins_with(must(conversation.prompt({{"user", "four"}})).ids, ids[0]));
}

/// Cut off behind a token that no template puts there, an answer does not fit into the next prompt as it was computed;
/// but what stands before it does, then and when the round is taken back.
TEST_F(ConversationTest, AnAnswerThatFitsNowhereLeavesTheIdsOfTheRoundsBefore) {
    Conversation conversation(*model);
    const auto ids = say(conversation, {"one", "two"});
    const Conversation::Prompt prompt = must(conversation.prompt({{"user", "three"}}));
    std::vector<int32_t> answer = spelled("Noted.");
    answer.push_back(model->tokenizer->find("<|user|>"));
    conversation.answered({{"user", "three"}}, "Noted.", prompt, answer);
    EXPECT_TRUE(begins_with(must(conversation.prompt({{"user", "four"}})).ids, joined(prompt.ids, spelled("Noted."))));
    say(conversation, {"four"});
    ASSERT_TRUE(conversation.rewind(2).is_ok());
    EXPECT_TRUE(begins_with(must(conversation.prompt({{"user", "five"}})).ids, ids[1]));
    ASSERT_TRUE(conversation.rewind(1).is_ok());
    EXPECT_TRUE(begins_with(must(conversation.prompt({{"user", "six"}})).ids, ids[0]));
}

/// A template that says earlier answers in another way than it was answered (Qwen3's drops old thoughts).
TEST_F(ConversationTest, WhatATemplateChangesIsEncodedAnewAndWhatStandsBeforeItIsNot) {
    std::optional<ChatTemplate> trimming = must(ChatTemplate::parse(
        "{% for m in messages %}{{ '<|' + m['role'] + '|>' + (m['content'] | trim) + '<|end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
        "test"));
    std::swap(model->chat_template, trimming);
    Conversation conversation(*model);
    const Conversation::Prompt first = must(conversation.prompt({{"user", "one"}}));
    conversation.answered({{"user", "one"}}, "Noted. ", first, spelled("Noted. "));
    const Conversation::Prompt second = must(conversation.prompt({{"user", "two"}}));
    EXPECT_TRUE(begins_with(second.ids, joined(first.ids, encoded("Noted."))));
    conversation.answered({{"user", "two"}}, "Noted.", second, ended(spelled("Noted.")));
    EXPECT_TRUE(
        begins_with(must(conversation.prompt({{"user", "three"}})).ids, joined(second.ids, ended(spelled("Noted.")))));
    std::swap(model->chat_template, trimming);
}

TEST_F(ConversationTest, IsCalledByWhatWasAskedFirstUntilItIsRenamed) {
    Conversation conversation(*model);
    EXPECT_EQ(conversation.title(), "");
    say(conversation, {"\nWhere is the box?\nAnswer.", "two"});
    EXPECT_EQ(conversation.title(), "Where is the box?");
    ASSERT_TRUE(conversation.rename("Boxes").is_ok());
    EXPECT_FALSE(conversation.rename("a\nb").is_ok());
    ASSERT_TRUE(conversation.rewind(0).is_ok());
    EXPECT_EQ(conversation.title(), "Boxes");
}

TEST_F(ConversationTest, AHistoryThatComesWithTheFirstMessageBecomesRounds) {
    Conversation before(*model);
    before.preamble = {{"system", "Be brief."}};
    say(before, {"one", "two", "three"});
    const std::vector<ChatMessage> sent{{"system", "Be brief."}, {"user", "one"},         {"assistant", "Noted."},
                                        {"user", "two"},         {"assistant", "Noted."}, {"user", "three"}};
    Conversation after(*model);
    const Conversation::Prompt prompt = must(after.prompt(sent));
    after.answered(sent, "Noted.", prompt, ended(spelled("Noted.")));
    ASSERT_EQ(after.rounds().size(), 3U);
    EXPECT_EQ(after.preamble.size(), 1U);
    for (size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(after.rounds()[i].asked.size(), 1U);
        EXPECT_EQ(after.rounds()[i].asked[0].content, before.rounds()[i].asked[0].content);
        EXPECT_EQ(after.rounds()[i].answer, "Noted.");
        EXPECT_GT(after.rounds()[i].tokens, 0);
    }
    EXPECT_EQ(after.tokens(), std::ssize(prompt.ids) + std::ssize(ended(spelled("Noted."))));
    // It goes on behind the very ids of its last round, and from the text before it where that is taken back.
    EXPECT_TRUE(begins_with(must(after.prompt({{"user", "four"}})).ids, joined(prompt.ids, ended(spelled("Noted.")))));
    ASSERT_TRUE(after.rewind(1).is_ok());
    EXPECT_EQ(
        must(after.prompt({{"user", "2"}})).ids,
        must(model->encode_chat({{"system", "Be brief."}, {"user", "one"}, {"assistant", "Noted."}, {"user", "2"}})));
}

/// Who sends everything again has the rounds that a session would have had.
TEST_F(ConversationTest, AnswersThatAreSentAgainEndRounds) {
    Conversation session(*model);
    std::vector<ChatMessage> sent;
    for (const std::string text : {"one", "two", "three"}) {
        const Conversation::Prompt prompt = must(session.prompt({{"user", text}}));
        session.answered({{"user", text}}, "Noted.", prompt, ended(encoded("Noted.")));
        sent.insert(sent.end(), {{"user", text}, {"assistant", "Noted."}});
    }
    sent.push_back({"user", "four"});
    const Conversation::Prompt kept = must(session.prompt({sent.back()}));
    const Conversation::Prompt again = must(Conversation(*model).prompt(sent));
    EXPECT_EQ(again.ids, kept.ids);
    EXPECT_EQ(again.round_ends, kept.round_ends);
    EXPECT_EQ(again.round_ends.size(), 3U);
    // What is dropped is encoded anew, and its answers end rounds still.
    ASSERT_TRUE(session.drop({0}).is_ok());
    EXPECT_EQ(must(session.prompt({sent.back()})).round_ends.size(), 2U);
}

TEST(AnswerEnds, AreWhereTheTemplateLeftThem) {
    const std::vector<ChatMessage> messages{
        {"user", "a b"}, {"assistant", " c \n"}, {"user", ""}, {"assistant", "<think>x</think>d"}, {"assistant", "e"}};
    EXPECT_EQ(answer_ends("[a b][c][][d][e]", messages), (std::vector<size_t>{7, 15}))
        << "what was changed is left out";
    EXPECT_EQ(answer_ends("[a b][c][][d][e", messages), (std::vector<size_t>{7})) << "nothing ends the text";
    EXPECT_TRUE(answer_ends("", messages).empty());
}

TEST(AnswerEnds, AreBehindTheCallsOfAnAnswer) {
    const CallStyle style{"<c>", ":", "", "</c>, <c>", "</c>"};
    const std::string call = R"({"function":{"name":"f","arguments":{"a":1}}})";
    const std::string calls = R"({"content":null,"tool_calls":[)" + call + "," + call + "]}";
    const std::vector<ChatMessage> messages{{"user", "q"},      {"assistant", "", calls},
                                            {"tool", "t"},      {"assistant", "So", calls},
                                            {"assistant", "d"}, {"user", "u"}};
    const std::string written = R"(<c>f:{"a": 1}</c>, <c>f:{"a": 1}</c>)";
    const std::string text = "[q][" + written + "][t][So " + written + "][d][u]";
    const size_t first = 4 + written.size(), second = first + 8 + written.size();
    EXPECT_EQ(answer_ends(text, messages, &style), (std::vector<size_t>{first, second, second + 3}));
    EXPECT_EQ(answer_ends(text, messages), (std::vector<size_t>{first + 7, second + 3}))
        << "without a style a call has no end, but the text before it";
}

/// Which takes no longer than a few times through the text.
TEST(AnswerEnds, OfThousandsThatATemplateChangedAreGivenUp) {
    const std::string text(size_t{4} << 20, 'a');
    std::vector<ChatMessage> messages(16'000, {"assistant", "aaaa</think>b"});
    messages.push_back({"assistant", std::string(size_t{1} << 20, 'a')});
    const auto before = cpu_time();
    EXPECT_TRUE(answer_ends(text, messages).empty());
    EXPECT_EQ(answer_ends(text, std::span(messages).last(2)), std::vector<size_t>{size_t{1} << 20});
    messages.assign(16'000, {"assistant", "aaaa \t"});
    EXPECT_EQ(answer_ends(text, messages).size(), messages.size()) << "each is trimmed";
    messages.assign(1, {"assistant", std::string(size_t{1} << 20, 'a')});
    messages.back().content.back() = 'b';
    EXPECT_TRUE(answer_ends(text, std::span(messages).last(1)).empty());
    EXPECT_LT(cpu_time() - before, std::chrono::seconds(2));
}

TEST_F(ConversationTest, PlacesInATextAreNumbersOfTokens) {
    const std::string text = "<|im_start|>Grüße\nand more words<|im_end|>";
    const std::vector<int32_t> ids = must(model->tokenizer->encode(text, true));
    std::vector<size_t> places(text.size());
    std::iota(places.begin(), places.end(), size_t{0});
    const std::vector<int64_t> counts = tokens_up_to(places, ids, text, *model->tokenizer);
    ASSERT_EQ(counts.size(), places.size());
    for (const size_t place : places) {
        const auto spelled = [&](int64_t count) {
            size_t bytes = 0;
            for (int64_t i = 0; i < count; ++i)
                bytes += model->tokenizer->bytes_of(ids[static_cast<size_t>(i)], true).size();
            return bytes;
        };
        EXPECT_LE(spelled(counts[place]), place);
        EXPECT_GT(spelled(counts[place] + 1), place);
    }
    EXPECT_TRUE(tokens_up_to(places, std::span(ids).first(3), text, *model->tokenizer).empty());
}

TEST_F(ConversationTest, AHistoryBeginsOnlyAConversationThatIsEmpty) {
    Conversation conversation(*model);
    say(conversation, {"one"});
    const std::vector<ChatMessage> sent{{"assistant", "An example."}, {"user", "two"}, {"assistant", "Yes"}};
    conversation.answered(sent, "Noted.", must(conversation.prompt(sent)), ended(spelled("Noted.")));
    ASSERT_EQ(conversation.rounds().size(), 2U);
    EXPECT_EQ(conversation.rounds()[1].asked.size(), 3U);
    Conversation begun(*model);  // an answer's beginning that the model is to go on with is no answer
    begun.answered({{"user", "two"}, {"assistant", "Yes"}}, "Noted.", must(begun.prompt({{"user", "two"}})),
                   ended(spelled("Noted.")));
    ASSERT_EQ(begun.rounds().size(), 1U);
    EXPECT_EQ(begun.rounds()[0].asked.size(), 2U);
}

TEST_F(ConversationTest, TellsHowManyBytesItTakes) {
    Conversation conversation(*model);
    const size_t empty = conversation.bytes();
    say(conversation, {std::string(10'000, 'x')});
    EXPECT_GT(conversation.bytes(), empty + 20'000);
    EXPECT_LT(conversation.bytes(), empty + 100'000);
    ASSERT_TRUE(conversation.rewind(0).is_ok());
    EXPECT_EQ(conversation.bytes(), empty);
}

/// What the template is given for a turn changes that turn's prompt; the ids of what stands unchanged stay.
TEST_F(ConversationTest, ATurnsOwnVariablesReachTheTemplate) {
    Model moody = must(load_model_text(demo_model_path()));
    moody.chat_template =
        must(ChatTemplate::parse("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}"
                                 "{{ '<|assistant|>' + (mood or '') }}",
                                 "test"));
    Conversation conversation(moody);
    const std::string glad = R"({"mood": "Glad: "})";
    const Conversation::Prompt prompt =
        must(conversation.prompt({{"user", "one"}}, {.variables_json = glad, .tools_json = {}}));
    EXPECT_EQ(prompt.ids, must(moody.tokenizer->encode("<|user|>one<|end|><|assistant|>Glad: ", true)));
    const std::vector<int32_t> answer = ended(spelled("Noted."));
    conversation.answered({{"user", "one"}}, "Noted.", prompt, answer);
    const std::vector<int32_t> next = must(conversation.prompt({{"user", "two"}})).ids;
    EXPECT_EQ(moody.tokenizer->decode(next, true),
              "<|user|>one<|end|><|assistant|>Noted.<|end|><|user|>two<|end|><|assistant|>");
    for (const char* wrong : {"[1]", "{", R"({"messages": []})", R"({"bos_token": "x"})", R"({"range": 1})"})
        EXPECT_FALSE(conversation.prompt({{"user", "two"}}, {.variables_json = wrong, .tools_json = {}}).is_ok())
            << wrong;
}

TEST_F(ConversationTest, UnknownRolesAreRefused) {
    const Conversation conversation(*model);
    for (const char* role : {"", "root", "User", "developer", "function"}) {
        const auto prompt = conversation.prompt({{"user", "one"}, {role, "two"}});
        ASSERT_FALSE(prompt.is_ok()) << role;
        EXPECT_EQ(prompt.error().message, "messages[1].role is unknown, must be system, user, assistant or tool");
    }
}

}  // namespace
}  // namespace rondo

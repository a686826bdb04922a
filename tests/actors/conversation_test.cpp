#include "actors/conversation.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::must;

class ConversationTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() { model = std::make_unique<Model>(must(load_model_text(demo_model_path()))); }
    static void TearDownTestSuite() { model.reset(); }

    /// The ids of an answer, as the demo model gives it: its text, and the end of it.
    static std::vector<int32_t> with_answer(std::vector<int32_t> prompt, const std::vector<int32_t>& answer) {
        prompt.insert(prompt.end(), answer.begin(), answer.end());
        prompt.push_back(model->spec.eos_ids.front());
        return prompt;
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
            const std::vector<int32_t> prompt = must(conversation.prompt({{"user", text}}));
            ids.push_back(with_answer(prompt, spelled("Noted.")));
            conversation.answered({{"user", text}}, "Noted.", ids.back(), true);
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
    EXPECT_EQ(must(conversation.prompt({{"user", "Hello!"}})), must(model->encode_chat({{"user", "Hello!"}})));
}

TEST_F(ConversationTest, TheNextPromptBeginsWithTheVeryIdsThatWereComputed) {
    // A client may also stop at the template's terminator where the model's own end is another token.
    for (const bool is_models_end : {true, false}) {
        Conversation conversation(*model);
        const std::vector<int32_t> prompt = must(conversation.prompt({{"user", "Hello!"}}));
        ASSERT_NE(spelled("Noted."), encoded("Noted."));
        const std::vector<int32_t> ids = with_answer(prompt, spelled("Noted."));
        const std::vector<int32_t> ends = model->spec.eos_ids;
        if (!is_models_end) model->spec.eos_ids = {0};
        conversation.answered({{"user", "Hello!"}}, "Noted.", ids, true);
        model->spec.eos_ids = ends;
        const std::vector<int32_t> next = must(conversation.prompt({{"user", "Thank you."}}));
        EXPECT_TRUE(begins_with(next, ids));
        EXPECT_EQ(
            model->tokenizer->decode(next, true),
            model->tokenizer->decode(
                must(model->encode_chat({{"user", "Hello!"}, {"assistant", "Noted."}, {"user", "Thank you."}})), true));
    }
}

TEST_F(ConversationTest, AnAnswerThatItsIdsDoNotSpellIsEncodedAnew) {
    Conversation conversation(*model);
    const std::vector<int32_t> ids =
        with_answer(must(conversation.prompt({{"user", "Hello!"}})), encoded("Noted. And more."));
    conversation.answered({{"user", "Hello!"}}, "Noted.", ids, false);
    EXPECT_EQ(must(conversation.prompt({{"user", "Thank you."}})),
              must(model->encode_chat({{"user", "Hello!"}, {"assistant", "Noted."}, {"user", "Thank you."}})));
}

TEST_F(ConversationTest, RoundsCanBeTakenBackAndLeftOut) {
    Conversation conversation(*model);
    conversation.preamble = {{"system", "Be brief."}};
    for (const char* text : {"one", "two", "three"}) {
        const std::vector<int32_t> prompt = must(conversation.prompt({{"user", text}}));
        conversation.answered({{"user", text}}, "Noted.", with_answer(prompt, encoded("Noted.")), true);
    }
    ASSERT_EQ(conversation.rounds().size(), 3U);
    EXPECT_GT(conversation.tokens(), 0);
    ASSERT_TRUE(conversation.drop({1, 1}).is_ok());
    EXPECT_EQ(must(conversation.prompt({{"user", "four"}})), must(model->encode_chat({{"system", "Be brief."},
                                                                                      {"user", "one"},
                                                                                      {"assistant", "Noted."},
                                                                                      {"user", "three"},
                                                                                      {"assistant", "Noted."},
                                                                                      {"user", "four"}})));
    ASSERT_TRUE(conversation.rewind(0).is_ok());
    EXPECT_EQ(must(conversation.prompt({{"user", "five"}})),
              must(model->encode_chat({{"system", "Be brief."}, {"user", "five"}})));
    EXPECT_FALSE(conversation.rewind(0).is_ok());
    EXPECT_FALSE(conversation.drop({0}).is_ok());
}

TEST_F(ConversationTest, RoundsBeforeThoseTakenBackKeepTheirIds) {
    Conversation conversation(*model);
    const auto ids = say(conversation, {"one", "two", "three"});
    ASSERT_TRUE(conversation.rewind(1).is_ok());
    const std::vector<int32_t> next = must(conversation.prompt({{"user", "four"}}));
    EXPECT_TRUE(begins_with(next, ids[0]));
    EXPECT_EQ(model->tokenizer->decode(next, true),
              model->tokenizer->decode(
                  must(model->encode_chat({{"user", "one"}, {"assistant", "Noted."}, {"user", "four"}})), true));
    // And the round that comes instead is remembered like any other.
    const auto others = say(conversation, {"four", "five"});
    EXPECT_TRUE(begins_with(others[1], others[0]));
    ASSERT_TRUE(conversation.rewind(2).is_ok());
    EXPECT_TRUE(begins_with(must(conversation.prompt({{"user", "six"}})), others[0]));
}

TEST_F(ConversationTest, RoundsBeforeThoseLeftOutKeepTheirIds) {
    Conversation conversation(*model);
    const auto ids = say(conversation, {"one", "two", "three", "four"});
    ASSERT_TRUE(conversation.drop({3, 1}).is_ok());
    const std::vector<int32_t> next = must(conversation.prompt({{"user", "five"}}));
    EXPECT_TRUE(begins_with(next, ids[0]));
    const std::vector<int32_t> anew = with_answer({}, encoded("Noted."));  // of the third round, that is now the second
    EXPECT_NE(std::search(next.begin() + std::ssize(ids[0]), next.end(), anew.begin(), anew.end()), next.end());
    // The rounds behind the one left out have ids again once they were computed anew; where one ends is not known.
    say(conversation, {"five"});
    ASSERT_TRUE(conversation.rewind(2).is_ok());
    EXPECT_TRUE(begins_with(must(conversation.prompt({{"user", "six"}})), ids[0]));
    ASSERT_TRUE(conversation.drop({0}).is_ok());
    EXPECT_EQ(must(conversation.prompt({{"user", "seven"}})),
              must(model->encode_chat({{"user", "three"}, {"assistant", "Noted."}, {"user", "seven"}})));
}

TEST_F(ConversationTest, AnAnswerThatItsIdsDoNotSpellLeavesThoseOfTheRoundsBefore) {
    Conversation conversation(*model);
    const auto ids = say(conversation, {"one"});
    const std::vector<int32_t> cut =
        with_answer(must(conversation.prompt({{"user", "two"}})), spelled("Noted. And more."));
    conversation.answered({{"user", "two"}}, "Noted.", cut, false);
    const std::vector<int32_t> next = must(conversation.prompt({{"user", "three"}}));
    EXPECT_TRUE(begins_with(next, ids[0]));
    say(conversation, {"three"});
    ASSERT_TRUE(conversation.rewind(2).is_ok());
    EXPECT_TRUE(begins_with(must(conversation.prompt({{"user", "four"}})), ids[0]));
}

}  // namespace
}  // namespace rondo

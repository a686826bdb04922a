#include "actors/conversation.hpp"

#include <gtest/gtest.h>

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
    static std::vector<int32_t> encoded(const std::string& text) { return must(model->tokenizer->encode(text, false)); }

    static inline std::unique_ptr<Model> model;
};

TEST_F(ConversationTest, TheFirstPromptIsTheTemplates) {
    const Conversation conversation(*model);
    EXPECT_EQ(must(conversation.prompt({{"user", "Hello!"}})), must(model->encode_chat({{"user", "Hello!"}})));
}

TEST_F(ConversationTest, TheNextPromptBeginsWithTheVeryIdsThatWereComputed) {
    Conversation conversation(*model);
    const std::vector<int32_t> prompt = must(conversation.prompt({{"user", "Hello!"}}));
    // Letter by letter, as no tokenizer would cut it, but as a model may say it.
    std::vector<int32_t> spelled;
    for (const char letter : std::string("Noted."))
        for (const int32_t id : encoded(std::string(1, letter))) spelled.push_back(id);
    ASSERT_NE(spelled, encoded("Noted."));
    const std::vector<int32_t> ids = with_answer(prompt, spelled);
    conversation.answered({{"user", "Hello!"}}, "Noted.", ids, true);
    const std::vector<int32_t> next = must(conversation.prompt({{"user", "Thank you."}}));
    ASSERT_GT(next.size(), ids.size());
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), next.begin()));
    EXPECT_EQ(
        model->tokenizer->decode(next, true),
        model->tokenizer->decode(
            must(model->encode_chat({{"user", "Hello!"}, {"assistant", "Noted."}, {"user", "Thank you."}})), true));
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

}  // namespace
}  // namespace rondo

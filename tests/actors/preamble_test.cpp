#include "actors/preamble.hpp"

#include <gtest/gtest.h>

#include "tests/actors/pipeline_fixture.hpp"
#include "tests/model/called_tools.hpp"

namespace rondo {
namespace {

using testing::must;

/// Text that a prompt of the conversation begins with, as far as it is before the first round.
std::string preamble_of(const Model& model, const Conversation& conversation, const std::vector<ChatMessage>& messages,
                        const GivenToTemplate& given = {}) {
    const std::vector<int32_t> ids = must(conversation.prompt(messages, given)).ids;
    const int64_t count = preamble_tokens(model, conversation, messages, given, ids, {});
    EXPECT_LT(count, std::ssize(ids));
    return model.tokenizer->decode(std::span(ids).first(static_cast<size_t>(count)), true);
}

class Preambles : public ::testing::Test {
protected:
    Model model_ = must(load_model_text(demo_model_path()));
    Conversation conversation_{model_};
};

TEST_F(Preambles, EndWhereSomebodySpeaksFirst) {
    EXPECT_EQ(preamble_of(model_, conversation_, {{"user", "Hello!"}}), "<|user|>");
    EXPECT_EQ(preamble_of(model_, conversation_, {{"system", "Be brief."}, {"user", "Be kind."}}),
              "<|system|>Be brief.<|end|><|user|>");
    EXPECT_EQ(preamble_of(model_, conversation_, {{"system", "Be brief."}, {"system", "Be."}, {"user", "Be brief."}}),
              "<|system|>Be brief.<|end|><|system|>Be.<|end|><|user|>");
    EXPECT_EQ(preamble_of(model_, conversation_, {{"user", "<|"}}), "<|user|>");
}

TEST_F(Preambles, HoldThroughAConversation) {
    const std::vector<ChatMessage> first{{"system", "Be brief."}, {"user", "Hello!"}};
    const Conversation::Prompt prompt = must(conversation_.prompt(first));
    const std::vector<int32_t> answer = must(model_.tokenizer->encode("Noted.", false));
    conversation_.answered(first, "Noted.", prompt, answer);
    EXPECT_EQ(preamble_of(model_, conversation_, {{"user", "Be brief."}}), "<|system|>Be brief.<|end|><|user|>");
    Conversation other(model_);
    other.preamble = {{"system", "Be long."}};
    EXPECT_EQ(preamble_of(model_, other, {{"user", "Hello!"}}), "<|system|>Be long.<|end|><|user|>");
}

/// What a template adds for tools, or of its own, belongs to them.
TEST_F(Preambles, HaveWhatTheTemplateAdds) {
    model_.chat_template = testing::template_of("qwen-2.5");
    const std::string alone = preamble_of(model_, conversation_, {{"user", "clock"}});
    EXPECT_TRUE(alone.starts_with("<|im_start|>system\nYou are Qwen")) << alone;
    EXPECT_TRUE(alone.ends_with("<|im_start|>user\n")) << alone;
    const GivenToTemplate tools{.tools_json = testing::two_tools};
    const std::string given = preamble_of(model_, conversation_, {{"system", "Be brief."}, {"user", "clock"}}, tools);
    EXPECT_NE(given.find("\"clock\""), std::string::npos) << given;
    EXPECT_TRUE(given.ends_with("<|im_start|>user\n")) << given;
}

TEST_F(Preambles, AreNothingWhereTheTemplateSaysNothing) {
    const std::vector<ChatMessage> messages{{"user", "Hello!"}};
    const std::vector<int32_t> ids = must(conversation_.prompt(messages)).ids;
    model_.chat_template = testing::compiled("{{ raise_exception('no') }}");
    EXPECT_EQ(preamble_tokens(model_, conversation_, messages, {}, ids, {}), 0);
    model_.chat_template = testing::compiled("{{ messages[0].content }}");
    EXPECT_EQ(preamble_tokens(model_, conversation_, messages, {}, ids, {}), 0);
    EXPECT_EQ(preamble_tokens(model_, conversation_, {}, {}, ids, {}), 0);
}

}  // namespace
}  // namespace rondo

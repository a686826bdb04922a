#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "cli/measure/attention/dialogue_file.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo::cli::attention {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::need;
using ::testing::Not;

std::string error_of(const std::string& text) {
    const auto parsed = parse_dialogues(text, "talk.jsonl");
    EXPECT_FALSE(parsed.is_ok());
    return parsed.is_ok() ? "" : parsed.error().message;
}

std::string question(const std::string& more = "") {
    return R"({"messages": [{"role": "user", "content": "Hello!"}])" + more + "}";
}

TEST(DialogueFile, HoldsADialogueALine) {
    const auto dialogues = need(
        parse_dialogues(R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"},)"
                        R"( {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}], "evidence": [1]})"
                        "\n\n" +
                            question() + "\r\n",
                        "talk.jsonl"));
    ASSERT_EQ(dialogues.size(), 2U);
    EXPECT_EQ(dialogues[0].name, "talk.jsonl:1");
    EXPECT_EQ(dialogues[0].rounds(), 2U);
    EXPECT_FALSE(dialogues[0].has_answer());
    EXPECT_THAT(dialogues[0].evidence, ElementsAre(0));
    EXPECT_EQ(dialogues[1].name, "talk.jsonl:3");
    EXPECT_THAT(dialogues[1].evidence, IsEmpty());
}

TEST(DialogueFile, ErrorsNameTheLineAndWhatMustBeThere) {
    const auto two = [](const std::string& evidence) {
        return R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
               R"( {"role": "user", "content": "c"}], "evidence": )" +
               evidence + "}";
    };
    for (const auto& [line, words] : std::vector<std::pair<std::string, std::string>>{
             {"{", "talk.jsonl:2"},
             {"[]", "talk.jsonl:2"},
             {"{}", "talk.jsonl:2: \"messages\" must be a list"},
             {R"({"messages": "a"})", "\"messages\" must be a list"},
             {R"({"messages": []})", "talk.jsonl:2: \"messages\" must hold a question"},
             {R"({"messages": [{"role": "system", "content": "a"}]})", "must hold a question"},
             {R"({"messages": [{"role": "assistant", "content": "a"}]})", "message 1 must be user or system"},
             {R"({"messages": [{"role": "user"}]})", "message 1 must have a \"role\" and a \"content\""},
             {R"({"messages": ["a"]})", "message 1 must have a \"role\" and a \"content\""},
             {R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]})",
              "the role of message 2 must be assistant"},
             {R"({"messages": [{"role": "user", "content": " \n"}]})", "must hold more than blanks"},
             {question(R"(, "evidence": [1])"), "there is only one round"},
             {question(R"(, "evidences": [])"), "'evidences' is not known; did you mean evidence?"},
             {two("[2]"), "numbers from 1 to 1"},
             {two("[0]"), "numbers from 1 to 1"},
             {two("[1.5]"), "numbers from 1 to 1"},
             {two("1"), "must be a list of rounds before the last one"}}) {
        EXPECT_THAT(error_of(question() + "\n" + line), HasSubstr(words)) << line;
    }
    EXPECT_THAT(error_of(""), HasSubstr("talk.jsonl holds no dialogue"));
    EXPECT_THAT(error_of("\n \n"), HasSubstr("talk.jsonl holds no dialogue"));
}

class DemoDialogue : public ::testing::Test {
protected:
    std::string text(const DialogueTokens& tokens, size_t begin, size_t end) const {
        return model_.tokenizer->decode(std::span(tokens.ids).subspan(begin, end - begin), true);
    }

    const Model model_ = need(load_model_text(demo_model_path()));
    const Dialogue dialogue_ = {"it",
                                {{"user", "Hello!"},
                                 {"assistant", "Hello! What would you like to tell me?"},
                                 {"user", "I meet Sinum on Friday."},
                                 {"assistant", "Noted."},
                                 {"user", "When do I meet Sinum?"},
                                 {"assistant", "You meet Sinum on Friday."}},
                                {1}};
};

TEST_F(DemoDialogue, RoundsAndTurnsAreFoundByTheTemplate) {
    const DialogueTokens tokens = need(tokenize(model_, dialogue_));
    ASSERT_EQ(tokens.round_begins.size(), 3U);
    EXPECT_EQ(tokens.round_begins[0], 0U);
    EXPECT_EQ(text(tokens, tokens.round_begins[1], tokens.round_begins[2]),
              "<|user|>I meet Sinum on Friday.<|end|><|assistant|>Noted.<|end|>");
    EXPECT_EQ(text(tokens, tokens.round_begins[2], tokens.prompt), "<|user|>When do I meet Sinum?<|end|><|assistant|>");
    EXPECT_EQ(text(tokens, tokens.question_begin, tokens.prompt), "When do I meet Sinum?<|end|><|assistant|>");
    EXPECT_EQ(text(tokens, tokens.prompt, tokens.ids.size()), "You meet Sinum on Friday.");
    ASSERT_EQ(tokens.turn_ends.size(), 3U);
    EXPECT_EQ(text(tokens, 0, tokens.turn_ends[0]), "<|user|>Hello!<|end|><|assistant|>");
    EXPECT_EQ(tokens.turn_ends[2], tokens.prompt);
}

/// Whatever headers, default system messages and ends of messages a template writes.
TEST_F(DemoDialogue, RoundsAreFoundInEveryKnownTemplate) {
    for (const char* const name : {"chatml", "demo", "llama-2", "llama-3", "llama-3.1", "llama-3.2", "mistral-v1",
                                   "mistral-v3", "qwen-1.5", "qwen-2", "qwen-2.5", "qwen-3"}) {
        SCOPED_TRACE(name);
        Model other = need(load_model_text(demo_model_path()));
        std::ifstream in(std::string(RONDO_SOURCE_DIR "/tests/fixtures/templates/") + name + ".jinja");
        const std::string source((std::istreambuf_iterator<char>(in)), {});
        other.chat_template = need(ChatTemplate::parse(source, name));
        other.bos_token = "<|user|>";  // any special token that the tokenizer has
        other.eos_token = "<|end|>";
        const DialogueTokens tokens = need(tokenize(other, dialogue_));
        ASSERT_EQ(tokens.round_begins.size(), 3U);
        const std::string first = text(tokens, tokens.round_begins[0], tokens.round_begins[1]),
                          second = text(tokens, tokens.round_begins[1], tokens.round_begins[2]),
                          question = text(tokens, tokens.question_begin, tokens.prompt);
        EXPECT_THAT(first, AllOf(HasSubstr("Hello!"), HasSubstr("like to tell me?"), Not(HasSubstr("Friday"))));
        EXPECT_THAT(second, AllOf(HasSubstr("I meet Sinum on Friday."), HasSubstr("Noted."), Not(HasSubstr("tell me?")),
                                  Not(HasSubstr("When do I"))));
        // Where a header ends with a blank, the first word's token holds that too.
        EXPECT_LE(question.find("When do I meet Sinum?"), 1U) << question;
        EXPECT_EQ(tokens.turn_ends.size(), 3U);
        // Every round begins with what the template writes before a user's words.
        const std::string header = text(tokens, tokens.round_begins[2], tokens.question_begin);
        EXPECT_THAT(second, ::testing::StartsWith(header));
        EXPECT_THAT(first, ::testing::StartsWith(header));
    }
}

TEST_F(DemoDialogue, AnAnswerMayBeMissing) {
    Dialogue asked = dialogue_;
    asked.messages.pop_back();
    const DialogueTokens tokens = need(tokenize(model_, asked)), whole = need(tokenize(model_, dialogue_));
    EXPECT_EQ(tokens.prompt, tokens.ids.size());
    EXPECT_EQ(tokens.prompt, whole.prompt);
    EXPECT_EQ(tokens.round_begins, whole.round_begins);
}

TEST_F(DemoDialogue, OneRoundBeginsWithThePrompt) {
    const DialogueTokens tokens = need(tokenize(model_, {"it", {{"user", "Hello!"}}, {}}));
    EXPECT_THAT(tokens.round_begins, ElementsAre(0));
    EXPECT_EQ(tokens.question_begin, 1U);
    EXPECT_THAT(tokens.turn_ends, ElementsAre(tokens.prompt));
}

}  // namespace
}  // namespace rondo::cli::attention

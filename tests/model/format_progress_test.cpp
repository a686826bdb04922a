#include "model/format/format_progress.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "model/answer.hpp"
#include "tests/model/formats.hpp"

namespace rondo {
namespace {

using testing::allowed;
using testing::Allowed;
using testing::format_of;
using Begins = AnswerFormat::Begins;
using Json = nlohmann::json;

const Model& demo() {
    static const Model model = [] {
        auto loaded = load_model_text(demo_model_path());
        if (!loaded) throw std::runtime_error(loaded.error().message);
        return *std::move(loaded);
    }();
    return model;
}

bool is_set(std::span<const uint64_t> bits, int64_t id) {
    return (bits[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
}

/// An answer to nothing, from logits that are drawn; a text that is about to be long is brought to its end.
struct Drawn {
    std::string text;
    bool is_complete = false;
    int64_t tokens = 0;
};

Drawn draw(const Model& model, const testing::Format& format, std::mt19937& random, int64_t tokens_max,
           bool thinks = false) {
    GenerateOptions options;
    options.tokens_max = tokens_max;
    options.sampling.temperature = 1.0F;
    options.sampling.seed = random();
    options.format = format;
    options.thinks_first = thinks;
    EXPECT_TRUE(options.check(model)) << options.check(model).error().message;
    Answer answer(model, options, {});
    std::vector<float> logits(static_cast<size_t>(model.spec.vocabulary));
    std::normal_distribution<float> normal;
    Drawn drawn;
    for (bool over = false; !over;) {
        for (float& logit : logits) logit = normal(random);
        if (drawn.text.size() > 200) {
            for (const std::string_view end : {"\"", "}", "]", ",\"", "</think>"}) {
                const int32_t id = model.tokenizer->find(end);
                if (id >= 0) logits[static_cast<size_t>(id)] += 12.0F;
            }
        }
        const AnswerPiece piece = answer.next(logits);
        drawn.text += piece.text;
        over = piece.over;
    }
    drawn.text += answer.finish();
    drawn.is_complete = answer.reason() == FinishReason::stop;
    drawn.tokens = answer.tokens();
    return drawn;
}

TEST(FormatProgress, TokensAreAllowedByTheirBytes) {
    const Model& model = demo();
    const auto format = format_of(R"({"properties":{"name":{"type":"string","maxLength":9},"n":{"type":"number"},
        "tags":{"items":{"enum":["a","ab","the"]}}},"additionalProperties":true})");
    std::mt19937 random(3);
    const std::vector<int32_t> ends = model.spec.eos_ids;
    for (int round = 0; round < 20; ++round) {
        FormatProgress progress(format, format->begin(Begins::maybe_with_thought), model.sorted_tokens(), ends,
                                model.spec.vocabulary);
        std::string text;
        for (int step = 0; step < 12 && !progress.is_whole(); ++step) {
            const auto bits = progress.allowed();
            ASSERT_FALSE(bits.empty()) << text;
            std::vector<int32_t> may_come;
            for (int32_t id = 0; id < model.spec.vocabulary; ++id) {
                const bool is_end = std::ranges::count(ends, id) > 0;
                const std::string bytes = model.answer_bytes(id);
                const Allowed state = allowed(format, text + bytes, Begins::maybe_with_thought);
                const bool wanted = is_end ? allowed(format, text, Begins::maybe_with_thought) == Allowed::whole
                                           : !bytes.empty() && state != Allowed::no;
                ASSERT_EQ(is_set(bits, id), wanted) << text << " | " << bytes;
                if (wanted && !is_end) may_come.push_back(id);
            }
            ASSERT_FALSE(may_come.empty());
            const std::string bytes = model.answer_bytes(may_come[random() % may_come.size()]);
            progress.take(bytes);
            text += bytes;
        }
    }
}

TEST(FormatProgress, WhatIsForgottenIsKnownAgain) {
    const auto format = format_of(R"({"items":{"items":{"properties":{"a":{"maxLength":30},"b":{"$ref":"#"}}}}})");
    GrammarStates states(format->grammar());
    const std::string text = R"([[{"a":"xyz","b":[[{"b":[[{"a":"12345678901234567890"},{}]]}]]}],[]])";
    auto state = states.begin(format->begin(Begins::with_answer));
    for (size_t i = 0; i < text.size(); ++i) {
        state = states.next(state, static_cast<uint8_t>(text[i]));
        ASSERT_NE(state, GrammarStates::dead) << text.substr(0, i + 1);
        state = states.keep_only(state);
        EXPECT_EQ(states.count(), 1);
        EXPECT_EQ(states.may_end(state), i + 1 == text.size());
    }
    EXPECT_TRUE(states.is_last(state));
}

TEST(FormatProgress, AnyLogitsMakeAValidAnswer) {
    const Model& model = demo();
    const auto schema =
        format_of(R"({"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":20},
        "age":{"type":"integer","minimum":0,"maximum":150},"share":{"type":"number","minimum":0,"maximum":1},
        "kind":{"enum":["cat","dog"]},"tags":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3},
        "more":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"required":["name","age","kind","tags","more"]})");
    std::mt19937 random(4);
    int complete = 0;
    const std::function<void(const Json&)> expect_valid = [&](const Json& value) {
        ASSERT_TRUE(value.is_object());
        const std::set<std::string> known{"name", "age", "share", "kind", "tags", "more"};
        for (const auto& [name, member] : value.items()) EXPECT_TRUE(known.contains(name)) << name;
        EXPECT_FALSE(value.at("name").get<std::string>().empty());
        EXPECT_GE(value.at("age").get<int64_t>(), 0);
        EXPECT_LE(value.at("age").get<int64_t>(), 150);
        EXPECT_LE(std::abs(value.value("share", .5) - .5), .5);
        EXPECT_TRUE(value.at("kind") == "cat" || value.at("kind") == "dog");
        EXPECT_LE(std::abs(static_cast<int>(value.at("tags").size()) - 2), 1);
        for (const Json& tag : value.at("tags")) EXPECT_TRUE(tag.is_string());
        if (!value.at("more").is_null()) expect_valid(value.at("more"));
    };
    for (int round = 0; round < 60; ++round) {
        const Drawn drawn = draw(model, schema, random, 2000);
        complete += drawn.is_complete ? 1 : 0;
        if (drawn.is_complete) expect_valid(Json::parse(drawn.text));
        EXPECT_NE(allowed(schema, drawn.text), Allowed::no) << drawn.text;
        const Drawn object = draw(model, AnswerFormat::json_object(), random, 2000);
        complete += object.is_complete ? 1 : 0;
        if (!object.is_complete) continue;
        EXPECT_TRUE(Json::parse(object.text).is_object()) << object.text;
    }
    EXPECT_GT(complete, 60);
}

TEST(FormatProgress, AnAnswerEndsWhereItIsComplete) {
    const Model& model = demo();
    std::mt19937 random(5);
    const Drawn drawn = draw(model, format_of(R"({"const":{"a":[1,2]}})"), random, 100);
    EXPECT_EQ(drawn.text, R"({"a":[1,2]})");
    EXPECT_TRUE(drawn.is_complete);
    const Drawn cut = draw(model, format_of(R"({"const":{"a":[1,2]}})"), random, 2);
    EXPECT_FALSE(cut.is_complete);
}

TEST(FormatProgress, ThoughtsMayComeFirst) {
    const Model& model = demo();
    std::mt19937 random(6);
    const auto format = format_of(R"({"enum":["yes","no"]})");
    for (int round = 0; round < 20; ++round) {
        const Drawn drawn = draw(model, format, random, 3000, true);
        if (!drawn.is_complete) continue;
        const size_t thought = drawn.text.rfind("</think>");
        std::string answer = thought == std::string::npos ? drawn.text : drawn.text.substr(thought + 8);
        answer.erase(0, answer.find_first_not_of('\n'));
        EXPECT_TRUE(answer == "\"yes\"" || answer == "\"no\"") << drawn.text;
    }
}

TEST(FormatProgress, BrokenLogitsMakeAValidAnswerToo) {
    const Model& model = demo();
    for (const float broken : {NAN, INFINITY, -INFINITY}) {
        GenerateOptions options;
        options.format = format_of(R"({"const":[true,null]})");
        Answer answer(model, options, {});
        std::vector<float> logits(static_cast<size_t>(model.spec.vocabulary));
        std::string text;
        for (bool over = false; !over;) {
            std::ranges::fill(logits, broken);
            const AnswerPiece piece = answer.next(logits);
            text += piece.text;
            over = piece.over;
        }
        text += answer.finish();
        EXPECT_EQ(text, "[true,null]");
        EXPECT_EQ(answer.reason(), FinishReason::stop);
    }
}

TEST(FormatProgress, AFormatNeedsATokenizerAndNoFewestTokens) {
    GenerateOptions options;
    options.format = AnswerFormat::json_object();
    options.tokens_min = 1;
    EXPECT_NE(options.check(demo()).error().message.find("min_tokens is 1, must be 0"), std::string::npos);
    options.tokens_min = 0;
    Model without;
    without.spec.vocabulary = 10;
    EXPECT_NE(options.check(without).error().message.find("has no tokenizer"), std::string::npos);
    EXPECT_TRUE(options.check(demo()));
}

}  // namespace
}  // namespace rondo

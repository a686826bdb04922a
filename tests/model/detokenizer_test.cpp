#include "tests/model/tokenizer_fixture.hpp"

namespace rondo {
namespace {

/// Pushes all ids; every piece of text must be whole characters, and together they must be what decode gives.
std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool special) {
    Detokenizer detokenizer(tokenizer, special);
    std::string text;
    for (const int32_t id : ids) {
        const std::string piece = detokenizer.push(id);
        EXPECT_TRUE(unicode::is_valid(piece));
        text += piece;
    }
    const std::string rest = detokenizer.finish();
    EXPECT_TRUE(unicode::is_valid(rest));
    return text + rest;
}

TEST(Detokenizer, StreamsWhatDecodeGivesForAnyIds) {
    const uint32_t seed = 99;
    std::mt19937 random(seed);
    for (const char* file : {"byte_level.json", "sentencepiece.json"}) {
        const auto tokenizer = load(golden_file(file)["tokenizer"]);
        ASSERT_NE(tokenizer, nullptr);
        for (int i = 0; i < 2000; ++i) {
            std::vector<int32_t> ids(random() % 20);
            // Half of them from the first ids, where the single bytes are; some outside the vocabulary.
            for (auto& id : ids)
                id = static_cast<int32_t>(random() % (random() % 2 == 0 ? 262 : tokenizer->vocabulary() + 2)) - 1;
            const bool special = i % 2 == 0;
            ASSERT_EQ(streamed(*tokenizer, ids, special), tokenizer->decode(ids, special))
                << "seed " << seed << " " << file << " " << i;
        }
    }
}

TEST(Detokenizer, HoldsBytesBackUntilTheCharacterIsWhole) {
    const auto tokenizer = load(byte_tokenizer({}));
    Detokenizer detokenizer(*tokenizer);
    const auto byte = [&](int value) { return detokenizer.push(ids_of(*tokenizer, "日")[static_cast<size_t>(value)]); };
    EXPECT_EQ(byte(0), "");
    EXPECT_EQ(byte(1), "");
    EXPECT_EQ(byte(2), "日");
    EXPECT_EQ(byte(0), "");
    EXPECT_EQ(detokenizer.push('x'), "\uFFFDx");
    EXPECT_EQ(byte(0), "");
    EXPECT_EQ(byte(1), "");
    EXPECT_EQ(detokenizer.finish(), "\uFFFD");
    EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, DropsSentencePiecesFirstSpaceOnly) {
    const auto tokenizer = load(golden_file("sentencepiece.json")["tokenizer"]);
    const int32_t space = tokenizer->find("▁"), begin = tokenizer->find("<s>");
    ASSERT_TRUE(space >= 0 && begin >= 0);
    Detokenizer detokenizer(*tokenizer);
    EXPECT_EQ(detokenizer.push(begin), "");
    EXPECT_EQ(detokenizer.push(space), "");
    EXPECT_EQ(detokenizer.push(space), " ");
    EXPECT_EQ(detokenizer.finish(), "");
    EXPECT_EQ(detokenizer.push(space), "") << "of the next text";
    EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{begin, space, space}, true), "<s>  ");
}

TEST(Detokenizer, KeepsTheFirstSpaceBehindOtherText) {
    const auto tokenizer = load(golden_file("sentencepiece.json")["tokenizer"]);
    const int32_t space = tokenizer->find("▁");
    Detokenizer detokenizer(*tokenizer, false, true);
    EXPECT_EQ(detokenizer.push(space), " ");
    EXPECT_EQ(detokenizer.push(space), " ");
}

TEST(Detokenizer, HidesSpecialTokensUnlessAsked) {
    const auto tokenizer = tokenizer_from_json(file_text("examples/demo_model/tokenizer.json"), "demo");
    ASSERT_TRUE(tokenizer);
    const auto ids = ids_of(**tokenizer, "<|user|>Hi<|end|>");
    EXPECT_EQ(streamed(**tokenizer, ids, false), "Hi");
    EXPECT_EQ(streamed(**tokenizer, ids, true), "<|user|>Hi<|end|>");
}

}  // namespace
}  // namespace rondo

#include <chrono>
#include <cmath>
#include <cstring>

#include "tests/model/tokenizer_fixture.hpp"

namespace rondo {
namespace {

GgufVocabulary byte_level_vocabulary(const std::string& pre) {
    const auto& base = golden_file("byte_level.json")["tokenizer"];
    GgufVocabulary out;
    out.model = "gpt2";
    out.pre = pre;
    out.tokens.resize(base["model"]["vocab"].size());
    for (const auto& [token, id] : base["model"]["vocab"].items()) out.tokens[id.get<size_t>()] = token;
    out.types.assign(out.tokens.size(), 1);
    for (const auto& token : base["added_tokens"]) out.types[token["id"].get<size_t>()] = 3;
    out.merges = base["model"]["merges"].get<std::vector<std::string>>();
    return out;
}

GgufVocabulary scored_vocabulary() {
    const auto& fields = golden_file("sentencepiece.json")["gguf"];
    GgufVocabulary out;
    out.model = "llama";
    out.pre = "default";
    out.tokens = fields["tokens"].get<std::vector<std::string>>();
    out.types = fields["types"].get<std::vector<int32_t>>();
    out.scores = fields["scores"].get<std::vector<float>>();
    out.unknown_id = 0;
    out.bos_id = 1;
    out.eos_id = 2;
    return out;
}

/// Tokens with scores, most liked first; all single characters come last.
GgufVocabulary small_scored(const std::vector<std::pair<std::string, float>>& pieces) {
    GgufVocabulary out;
    out.model = "llama";
    out.add_space_prefix = false;
    out.unknown_id = 0;
    const auto add = [&](const std::string& token, float score, int32_t type) {
        out.tokens.push_back(token);
        out.scores.push_back(score);
        out.types.push_back(type);
    };
    add("<unk>", 0, 2);
    for (const auto& [token, score] : pieces) add(token, score, 1);
    for (const char c : std::string("abcd")) add(std::string(1, c), -100, 1);
    return out;
}

std::unique_ptr<Tokenizer> load_gguf(const GgufVocabulary& vocabulary) {
    auto loaded = tokenizer_from_gguf(vocabulary, "test.gguf");
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    return loaded ? std::move(*loaded) : nullptr;
}

std::string gguf_error(const GgufVocabulary& vocabulary) {
    const auto loaded = tokenizer_from_gguf(vocabulary, "test.gguf");
    return loaded ? "(loaded)" : loaded.error().message;
}

TEST(TokenizerGguf, CutsAsTheModelsOwnTokenizersDo) {
    int compared = 0;
    for (const auto& variant : golden_file("byte_level.json")["variants"]) {
        const auto pre = variant["name"].get<std::string>();
        if (pre != "llama-bpe" && pre != "qwen2" && pre != "gpt-2" && pre != "smollm" && pre != "tekken" &&
            pre != "deepseek-coder")
            continue;
        const auto tokenizer = load_gguf(byte_level_vocabulary(pre));
        ASSERT_NE(tokenizer, nullptr);
        for (const auto& c : variant["cases"]) {
            // Without a list of added tokens GGUF has only the special ones; the cases of these variants use no others.
            EXPECT_EQ(ids_of(*tokenizer, c["text"].get<std::string>()), c["ids"].get<std::vector<int32_t>>())
                << pre << c;
            EXPECT_EQ(tokenizer->decode(c["ids"].get<std::vector<int32_t>>()), c["decoded"].get<std::string>())
                << pre << c;
        }
        ++compared;
    }
    EXPECT_EQ(compared, 6);
}

TEST(TokenizerGguf, CutsByTheDefaultAsLlamaCppDoes) {
    const auto tokenizer = load_gguf(byte_level_vocabulary("default"));
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(ids_of(*tokenizer, "it's 12 o'clock... 2024-05-06"),
              (std::vector<int32_t>{105, 116, 39, 115, 32, 543, 32, 111, 39, 99, 108, 111, 99, 107,
                                    356, 46,  32, 50,  48, 50,  52, 45,  48, 53, 45,  48,  54}));
    EXPECT_EQ(ids_of(*tokenizer, "it's  we'll\r\n\r\n  I'VE 12345 apples"),
              (std::vector<int32_t>{105, 116, 39, 115, 32, 32,  119, 101, 39, 108, 108, 316, 316, 32, 32,
                                    73,  39,  86, 69,  32, 543, 51,  52,  53, 620, 112, 112, 108, 664}));
    EXPECT_EQ(ids_of(*tokenizer, "a1b22c333d4444"),
              (std::vector<int32_t>{97, 49, 98, 657, 99, 51, 51, 51, 100, 52, 52, 52, 52}));
}

/// As llama.cpp, which keeps the rank that it saw first; of tokenizer.json's merges the last counts, as in Hugging
/// Face's.
TEST(TokenizerGguf, OfAMergeThatIsListedAgainTheFirstPlaceCounts) {
    const auto ids_with = [](const std::vector<std::string>& merges) {
        GgufVocabulary vocabulary;
        vocabulary.model = "gpt2";
        vocabulary.pre = "gpt-2";
        vocabulary.tokens = {"a", "b", "c", "ab", "bc"};
        vocabulary.merges = merges;
        const auto tokenizer = load_gguf(vocabulary);
        return tokenizer ? ids_of(*tokenizer, "abc") : std::vector<int32_t>{};
    };
    const std::vector<int32_t> ab_first = {3, 2}, bc_first = {0, 4};
    EXPECT_EQ(ids_with({"a b", "b c"}), ab_first);
    EXPECT_EQ(ids_with({"b c", "a b"}), bc_first);
    EXPECT_EQ(ids_with({"a b", "b c", "a b"}), ab_first);
    EXPECT_EQ(ids_with({"b c", "a b", "b c", "a b", "b c", "a b"}), bc_first);
}

TEST(TokenizerGguf, GivesSentencePiecesIds) {
    const auto tokenizer = load_gguf(scored_vocabulary());
    ASSERT_NE(tokenizer, nullptr);
    ASSERT_GT(golden_file("sentencepiece.json")["gguf_cases"].size(), 20U);
    for (const auto& c : golden_file("sentencepiece.json")["gguf_cases"]) {
        const auto ids = c["ids"].get<std::vector<int32_t>>();
        EXPECT_EQ(ids_of(*tokenizer, c["text"].get<std::string>(), false), ids) << c;
        EXPECT_EQ(tokenizer->decode(ids), c["decoded"].get<std::string>()) << c;
    }
}

TEST(TokenizerGguf, AgreesWithTokenizerJsonOfTheSameSentencePieceModel) {
    const auto& variant = golden_file("sentencepiece.json")["variants"][0];
    ASSERT_EQ(variant["name"], "llama 2");
    const auto tokenizer = load_gguf(scored_vocabulary());
    for (const auto& c : variant["cases"])
        EXPECT_EQ(ids_of(*tokenizer, c["text"].get<std::string>()), c["ids"].get<std::vector<int32_t>>()) << c;
}

TEST(TokenizerGguf, MergesTheBestScoreFirstAndTheLeftmostOfEqualOnes) {
    const auto best = load_gguf(small_scored({{"bc", -1}, {"ab", -2}}));
    EXPECT_EQ(ids_of(*best, "abc"), (std::vector<int32_t>{best->find("a"), best->find("bc")}));
    const auto equal = load_gguf(small_scored({{"bc", -1}, {"ab", -1}}));
    EXPECT_EQ(ids_of(*equal, "abc"), (std::vector<int32_t>{equal->find("ab"), equal->find("c")}));
    const auto nested = load_gguf(small_scored({{"abcd", -1}, {"ab", -2}, {"cd", -3}, {"bc", -4}}));
    EXPECT_EQ(ids_of(*nested, "abcd"), (std::vector<int32_t>{nested->find("abcd")}));
}

TEST(TokenizerGguf, NeverGivesUnusedOrByteNamedOrControlTokensForText) {
    auto vocabulary = small_scored({{"ab", -1}, {"bc", -2}, {"cd", -3}});
    vocabulary.types[1] = 5;
    vocabulary.types[2] = 6;
    vocabulary.types[3] = 3;
    const auto tokenizer = load_gguf(vocabulary);
    ASSERT_NE(tokenizer, nullptr);
    for (const char* text : {"ab", "bc", "cd", "abcd"})
        EXPECT_EQ(ids_of(*tokenizer, text, false).size(), std::strlen(text));
    EXPECT_EQ(ids_of(*tokenizer, "cd", true), (std::vector<int32_t>{3}));
    EXPECT_EQ(tokenizer->bytes_of(1, false), "ab");
}

TEST(TokenizerGguf, ReplacesUnknownCharactersByOneUnknownToken) {
    const auto tokenizer = load_gguf(small_scored({}));
    EXPECT_EQ(ids_of(*tokenizer, "a日本b"), (std::vector<int32_t>{tokenizer->find("a"), 0, tokenizer->find("b")}));
}

TEST(TokenizerGguf, ManyTokensOfOneTextAreNotLookedThrough) {
    GgufVocabulary vocabulary;
    vocabulary.model = "gpt2";
    vocabulary.pre = "gpt-2";
    vocabulary.tokens.assign(1 << 20, "x");
    vocabulary.types.assign(1 << 20, 3);
    vocabulary.types[0] = 1;
    const auto normal = load_gguf(vocabulary);
    ASSERT_NE(normal, nullptr);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(ids_of(*normal, std::string(200'000, 'x'), false), std::vector<int32_t>(200'000, 0));
    // Looking through them at every place would be minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    EXPECT_EQ(ids_of(*normal, "xx", true), (std::vector<int32_t>{1, 1}));

    vocabulary.types[0] = 3;
    vocabulary.types[7] = vocabulary.types[9] = 4;
    const auto added = load_gguf(vocabulary);
    ASSERT_NE(added, nullptr);
    EXPECT_EQ(ids_of(*added, "xx", true), (std::vector<int32_t>{0, 0}));
    EXPECT_EQ(ids_of(*added, "xx", false), (std::vector<int32_t>{7, 7}));
}

TEST(TokenizerGguf, PutsTemplateTokensAround) {
    auto vocabulary = scored_vocabulary();
    EXPECT_EQ(load_gguf(vocabulary)->with_template_tokens({9}), (std::vector<int32_t>{9}));
    vocabulary.add_bos = vocabulary.add_eos = true;
    EXPECT_EQ(load_gguf(vocabulary)->with_template_tokens({9}), (std::vector<int32_t>{1, 9, 2}));
}

TEST(TokenizerGguf, NamesWhatIsWrong) {
    const auto wrong = [](auto change, const std::string& part, GgufVocabulary vocabulary) {
        change(vocabulary);
        const std::string message = gguf_error(vocabulary);
        EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    const auto bytes = byte_level_vocabulary("qwen2");
    const auto scored = scored_vocabulary();
    wrong([](auto& v) { v.model = "bert"; }, "model 'bert' is not supported", bytes);
    wrong([](auto& v) { v.pre = "poro-chat"; }, "pre-tokenizer 'poro-chat' is not known", bytes);
    wrong([](auto& v) { v.tokens.clear(); }, "it must have 1 to", bytes);
    wrong([](auto& v) { v.types.pop_back(); }, "token types for", bytes);
    wrong([](auto& v) { v.types[5] = 7; }, "token 5 has type 7", bytes);
    wrong([](auto& v) { v.tokens[5] = "\xFF"; }, "token 5 is not valid UTF-8", bytes);
    wrong([](auto& v) { v.merges[3] = "ab"; }, "merge 3 must be two tokens", bytes);
    wrong([](auto& v) { v.merges[3] = "a zz"; }, "merge 3 names 'zz'", bytes);
    wrong([](auto& v) { v.merges[3] = "Q Q"; }, "merge 3 makes 'QQ'", bytes);
    wrong([](auto& v) { v.scores.pop_back(); }, "token scores for", scored);
    wrong([](auto& v) { v.scores[7] = NAN; }, "token 7 has a score that is not a number", scored);
    wrong([](auto& v) { v.tokens[400] = std::string(1000, 'x'); }, "token 400 has 1000 bytes, must be at most ",
          scored);
    wrong([](auto& v) { v.eos_id = 100000; }, "eos token id 100000 is outside", scored);
    wrong([](auto& v) { v.bos_id = -1, v.add_bos = true; }, "its id is missing", scored);
}

}  // namespace
}  // namespace rondo

#include <chrono>
#include <thread>

#include "model/text/bpe.hpp"
#include "tests/model/tokenizer_fixture.hpp"

namespace rondo {
namespace {

TEST(TokenizerProperties, ByteLevelRoundTripsEveryText) {
    const uint32_t seed = 20240511;
    std::mt19937 random(seed);
    for (const char* pre : {"llama-bpe", "gpt-2", "possessive removed inverted", "ignore merges"}) {
        nlohmann::json patch;
        for (const auto& variant : golden_file("byte_level.json")["variants"])
            if (variant["name"] == pre) patch = variant["patch"];
        ASSERT_FALSE(patch.empty()) << pre;
        const auto tokenizer = load(patched(golden_file("byte_level.json")["tokenizer"], patch));
        ASSERT_NE(tokenizer, nullptr);
        for (int i = 0; i < 1000; ++i) {
            const std::string text = random_text(random, 40);
            const auto ids = ids_of(*tokenizer, text, false);
            ASSERT_EQ(tokenizer->decode(ids, true), text) << "seed " << seed << " text " << i << " " << pre;
            for (const int32_t id : ids)
                ASSERT_TRUE(id >= 0 && id < tokenizer->vocabulary() && !tokenizer->is_special(id));
        }
    }
}

TEST(TokenizerProperties, SentencePieceRoundTripsEveryTextWithoutItsOwnSpaceCharacter) {
    const uint32_t seed = 77;
    std::mt19937 random(seed);
    const auto tokenizer = load(golden_file("sentencepiece.json")["tokenizer"]);
    ASSERT_NE(tokenizer, nullptr);
    for (int i = 0; i < 1000; ++i) {
        std::string text = random_text(random, 40);
        for (size_t at = text.find("\u2581"); at != std::string::npos; at = text.find("\u2581"))
            text.replace(at, 3, 1, ' ');
        ASSERT_EQ(tokenizer->decode(ids_of(*tokenizer, text, false), true), text) << "seed " << seed << " text " << i;
    }
}

/// The textbook way: look at all pairs, merge the best, start again.
std::vector<int32_t> merged_slowly(const BpeMerges& merges, std::vector<int32_t> symbols) {
    while (true) {
        const BpeMerges::Merge* best = nullptr;
        size_t place = 0;
        for (size_t i = 0; i + 1 < symbols.size(); ++i) {
            const auto* merge = merges.find(symbols[i], symbols[i + 1]);
            if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
                best = merge;
                place = i;
            }
        }
        if (best == nullptr) return symbols;
        symbols[place] = best->id;
        symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(place) + 1);
    }
}

TEST(TokenizerProperties, MergerDoesWhatTheTextbookDoes) {
    const uint32_t seed = 5;
    std::mt19937 random(seed);
    for (int round = 0; round < 200; ++round) {
        BpeMerges merges;
        const int alphabet = 2 + static_cast<int>(random() % 4);
        int32_t next = alphabet;
        for (int m = 0; m < 30; ++m) {
            // Ranks repeat, as equal scores do, and a pair may come again with another result.
            const auto left = static_cast<int32_t>(random() % next), right = static_cast<int32_t>(random() % next);
            ASSERT_TRUE(merges.add(left, right, {static_cast<uint32_t>(random() % 12), next++}));
        }
        BpeMerger merger(merges);
        for (int word = 0; word < 20; ++word) {
            std::vector<int32_t> symbols(random() % 30), out;
            for (auto& symbol : symbols) symbol = static_cast<int32_t>(random() % alphabet);
            const std::vector<int32_t> expected = merged_slowly(merges, symbols);
            merger.merge(symbols, out);
            ASSERT_EQ(out, expected) << "seed " << seed << " round " << round << " word " << word;
        }
    }
}

TEST(TokenizerProperties, AMegabyteOfOneLetterIsNotQuadratic) {
    std::vector<std::string> doublings;
    for (std::string half = "a"; half.size() < 1024; half += half) doublings.push_back(half + " " + half);
    const auto tokenizer = load(byte_tokenizer(doublings));
    ASSERT_NE(tokenizer, nullptr);
    const auto begin = std::chrono::steady_clock::now();
    const auto ids = ids_of(*tokenizer, std::string(1 << 20, 'a'));
    EXPECT_EQ(ids.size(), 1024U);
    // Quadratic would be hours; this takes some tenths of a second, so the bound holds on a loaded machine too.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(TokenizerProperties, AnExplodingPatternIsAnErrorOfEncode) {
    auto base = byte_tokenizer({});
    base["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+[bc]";
    const auto tokenizer = load(base);
    ASSERT_NE(tokenizer, nullptr);
    const auto ids = tokenizer->encode(std::string(1000, 'a'), false);
    ASSERT_FALSE(ids);
    EXPECT_NE(ids.error().message.find("takes too long"), std::string::npos);
}

TEST(TokenizerProperties, AReplacementThatGrowsWithoutBoundIsAnError) {
    auto base = byte_tokenizer({});
    base["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1 << 16, 'b')}};
    const auto tokenizer = load(base);
    ASSERT_NE(tokenizer, nullptr);
    const auto ids = tokenizer->encode(std::string(1 << 20, 'a'), false);
    ASSERT_FALSE(ids);
    EXPECT_EQ(ids.error().code, ErrorCode::out_of_range);
}

TEST(TokenizerProperties, ALongTokenIsDecodedInLinearTime) {
    constexpr size_t spaces = 1 << 20;
    std::string token;
    for (size_t i = 0; i < spaces; ++i) token += "\u2581";
    const auto tokenizer =
        load({{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {token, 1}}}}},
              {"decoder", {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}}}});
    ASSERT_NE(tokenizer, nullptr);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tokenizer->bytes_of(1, false), std::string(spaces, ' '));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(TokenizerProperties, AReplacementThatNearlyFitsEverywhereIsNotQuadratic) {
    auto base = byte_tokenizer({});
    base["normalizer"] = {
        {"type", "Replace"}, {"pattern", {{"String", std::string(2'000'000, 'a') + "b"}}}, {"content", ""}};
    base["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    const auto tokenizer = load(base);
    ASSERT_NE(tokenizer, nullptr);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(ids_of(*tokenizer, std::string(4'000'000, 'a')).size(), 4'000'000U);
    // Quadratic would be minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

/// Whatever takes long in it: cutting the text into words, or merging one that is very long.
TEST(TokenizerProperties, StopsWhenNobodyWaitsForTheTokens) {
    using Clock = std::chrono::steady_clock;
    const auto words = load(golden_file("byte_level.json")["tokenizer"]);
    const auto one_word = load(golden_file("sentencepiece.json")["tokenizer"]);
    for (const auto* tokenizer : {words.get(), one_word.get()}) {
        ASSERT_NE(tokenizer, nullptr);
        std::string text;
        while (text.size() < 4 << 20) text += "It was a slow afternoon. ";
        const auto begun = Clock::now();
        ASSERT_TRUE(tokenizer->encode(text, false).is_ok());
        const auto whole = Clock::now() - begun;

        Clock::duration fastest = whole;
        for (int i = 0; i < 10 && fastest >= whole / 2; ++i) {  // a busy machine may be late with either thread
            std::stop_source stop;
            Clock::time_point stopped;
            std::thread leaving([&] {
                std::this_thread::sleep_for(whole / 10);
                stopped = Clock::now();
                stop.request_stop();
            });
            const auto ids = tokenizer->encode(text, false, stop.get_token());
            const auto end = Clock::now();
            leaving.join();
            EXPECT_EQ(tokenizer->encode("a", false, stop.get_token()).error().code, ErrorCode::cancelled);
            if (ids) continue;  // it was over before
            EXPECT_EQ(ids.error().code, ErrorCode::cancelled);
            fastest = std::min(fastest, end - stopped);
        }
        EXPECT_LT(fastest, whole / 2);
    }
}

}  // namespace
}  // namespace rondo

#include <sys/resource.h>

#include "model/text/bpe.hpp"
#include "tests/counting_allocator.hpp"
#include "tests/model/one_hash.hpp"
#include "tests/model/tokenizer_fixture.hpp"

namespace rondo {
namespace {

/// They would be passed one after the other, whoever looks for any of them.
TEST(TokenizerCosts, TokensOfOneHashAreRefused) {
    auto tokenizer = byte_tokenizer({});
    for (const std::string& key : testing::keys_of_one_hash(20'000))
        tokenizer["model"]["vocab"][key] = tokenizer["model"]["vocab"].size();
    EXPECT_NE(load_error(tokenizer.dump()).find("has the hash of too many others"), std::string::npos);
}

TEST(TokenizerCosts, MergesOfOneHashAreRefused) {
    BpeMerges merges;
    Status added = Status::ok();
    size_t taken = 0;
    for (const auto& [left, right] : testing::pairs_of_one_place(1000)) {
        added = merges.add(left, right, {0, 0});
        if (!added) break;
        ++taken;
    }
    EXPECT_LT(taken, 300U);
    ASSERT_FALSE(added);
    EXPECT_NE(added.error().message.find("has the hash of too many others"), std::string::npos);
}

TEST(TokenizerCosts, MillionsOfMergesAreNot) {
    BpeMerges merges;
    for (int32_t left = 0; left < 2000; ++left)
        for (int32_t right = 0; right < 2000; ++right) ASSERT_TRUE(merges.add(left, right, {0, left})) << left;
    EXPECT_EQ(merges.find(1234, 567)->id, 1234);
    EXPECT_EQ(merges.find(2000, 0), nullptr);
}

TEST(TokenizerCosts, AWordTakesFewTimesItsSizeOfMemory) {
    const auto tokenizer = load(golden_file("sentencepiece.json")["tokenizer"]);
    ASSERT_NE(tokenizer, nullptr);
    std::mt19937 random(7);
    std::string word((size_t{1} << 20) + 1000, ' ');
    for (char& letter : word) letter = static_cast<char>('a' + random() % 26);
    testing::begin_peak();
    ASSERT_GT(ids_of(*tokenizer, word).size(), word.size() / 2);
    // Its ids, what merges may come and the queue of merges take twenty bytes of a letter.
    EXPECT_LT(testing::peak_bytes(), static_cast<int64_t>(30 * word.size()));
}

/// A message between two special tokens is a text of its own, of which a conversation has thousands.
TEST(TokenizerCosts, APieceBetweenAddedTokensMapsNoMemory) {
    const auto& json = golden_file("byte_level.json")["tokenizer"];
    const auto tokenizer = load(json);
    ASSERT_NE(tokenizer, nullptr);
    constexpr int pieces = 10'000;
    std::string text;
    for (int i = 0; i < pieces; ++i) text += json["added_tokens"][0]["content"].get<std::string>() + "word";
    const auto faults = [] {
        rusage usage{};
        getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_minflt;
    };
    ids_of(*tokenizer, text);
    const auto before = faults();
    ids_of(*tokenizer, text);
    EXPECT_LT(faults() - before, pieces / 2);
}

}  // namespace
}  // namespace rondo

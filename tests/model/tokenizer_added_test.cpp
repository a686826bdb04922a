#include "model/text/tokenizer_added.hpp"

#include <chrono>
#include <thread>

#include "tests/model/tokenizer_fixture.hpp"

namespace rondo {
namespace {

AddedTokens tokens_of(const std::vector<std::string>& texts, bool special = false) {
    AddedTokens tokens;
    for (size_t i = 0; i < texts.size(); ++i) {
        AddedToken token;
        token.text = texts[i];
        token.id = static_cast<int32_t>(i);
        token.special = special;
        EXPECT_TRUE(tokens.add(std::move(token)));
    }
    tokens.prepare();
    return tokens;
}

/// The ids of a text's segments, -1 for text between tokens.
std::vector<int32_t> ids_in(const AddedTokens& tokens, std::string_view text, bool special = true) {
    std::vector<AddedTokens::Segment> segments;
    tokens.split(text, special, {}, segments);
    std::vector<int32_t> ids;
    for (const auto& segment : segments) ids.push_back(segment.id);
    return ids;
}

/// The slow way: each token is tried at each place.
std::vector<int32_t> ids_by_trying(const std::vector<std::string>& texts, std::string_view text) {
    std::vector<int32_t> ids;
    bool in_text = false;
    for (size_t at = 0; at < text.size();) {
        int32_t best = -1;
        for (size_t i = 0; i < texts.size(); ++i)
            if (text.substr(at).starts_with(texts[i]) && (best < 0 || texts[i].size() > texts[best].size()))
                best = static_cast<int32_t>(i);
        if (best >= 0 || !in_text) ids.push_back(best);
        in_text = best < 0;
        at += best < 0 ? 1 : texts[best].size();
    }
    return ids;
}

TEST(AddedTokens, AreTheLeftmostAndOfThoseTheLongest) {
    const uint32_t seed = 31;
    std::mt19937 random(seed);
    const auto letters = [&](size_t most) {
        std::string text(1 + random() % most, ' ');
        for (char& letter : text) letter = "ab\xFF"[random() % 3];
        return text;
    };
    for (int round = 0; round < 500; ++round) {
        std::vector<std::string> texts(random() % 6);
        for (auto& text : texts) text = letters(6);
        const AddedTokens tokens = tokens_of(texts);
        for (int i = 0; i < 20; ++i) {
            const std::string text = letters(40);
            ASSERT_EQ(ids_in(tokens, text), ids_by_trying(texts, text)) << "seed " << seed << " round " << round;
        }
    }
    EXPECT_TRUE(ids_in(tokens_of({"a"}), "").empty());
}

TEST(AddedTokens, SpecialOnesAreTextUnlessAskedFor) {
    AddedTokens tokens;
    for (const auto& [text, special] : {std::pair("<a>", true), {"<a>", false}, {"<ab>", true}, {"b>", false}}) {
        AddedToken token;
        token.text = text;
        token.special = special;
        token.id = special ? 7 : static_cast<int32_t>(token.text.size());
        ASSERT_TRUE(tokens.add(std::move(token)));
    }
    tokens.prepare();
    EXPECT_EQ(ids_in(tokens, "<a><ab>"), (std::vector<int32_t>{7, 7}));
    EXPECT_EQ(ids_in(tokens, "<a><ab>", false), (std::vector<int32_t>{3, -1, 2}));
}

/// Each place of the text nearly has each of them.
TEST(AddedTokens, LongOnesAreFoundInLinearTime) {
    std::vector<std::string> texts;
    for (size_t length = 1; length < 1024; ++length) texts.push_back(std::string(length, 'a') + "b");
    texts.push_back("a");
    const std::string text(4 << 20, 'a');
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(ids_in(tokens_of(texts), text).size(), text.size());
    EXPECT_EQ(ids_in(tokens_of(texts, true), text, false).size(), 1U);
    // Each byte of each token would be minutes; this takes some tenths of a second.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(AddedTokens, StopWhenNobodyWaitsForThem) {
    const AddedTokens tokens = tokens_of({"ab"});
    std::string text;
    while (text.size() < 64 << 20) text += "ab";
    std::stop_source stop;
    stop.request_stop();
    std::vector<AddedTokens::Segment> segments;
    tokens.split(text, true, stop.get_token(), segments);
    EXPECT_LT(segments.size(), text.size() / 100);
}

TEST(AddedTokens, AreBoundedInAll) {
    AddedTokens tokens;
    AddedToken token;
    token.text.assign(size_t{8} << 20, 'a');
    ASSERT_TRUE(tokens.add(token));
    token.text = "a";
    const Status more = tokens.add(token);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ErrorCode::out_of_range);
}

TEST(AddedTokens, AreFoundByTwoThreadsAtOnce) {
    const AddedTokens tokens = tokens_of({"a", "ab", "abc"});
    const auto expected = ids_in(tokens, "abcabxaabc");
    std::vector<std::thread> threads;
    std::vector<int> same(2, 0);
    for (int& count : same)
        threads.emplace_back([&tokens, &expected, &count] {
            for (int i = 0; i < 1000; ++i) count += ids_in(tokens, "abcabxaabc") == expected ? 1 : 0;
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(same, (std::vector<int>{1000, 1000}));
}

}  // namespace
}  // namespace rondo

#include <gtest/gtest.h>

#include <limits>

#include "actors/conversation_bytes.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/actors/stored_bytes.hpp"

namespace rondo {
namespace {

using testing::Bytes;
using testing::is_refused;
using testing::must;
using testing::sealed;

ConversationHead some_head() {
    ConversationHead head{{"acme", "c-1"}, 17, 1.75e9, {1234, 5, 6789, "Wetter 🌧"}};
    head.name.tenant.push_back('\0');
    return head;
}

TEST(ConversationHead, IsReadAsItWasWritten) {
    ConversationHead large = some_head();
    large.name = {std::string(size_t{64} << 10, 't'), std::string(size_t{64} << 10, 'i')};
    for (const ConversationHead& head : {ConversationHead{}, some_head(), large}) {
        const ConversationHead again = must(read_head(write_head(head)));
        EXPECT_EQ(again.name, head.name);
        EXPECT_EQ(again.number, head.number);
        EXPECT_EQ(again.used_at, head.used_at);
        EXPECT_EQ(again.figures.tokens, head.figures.tokens);
        EXPECT_EQ(again.figures.rounds, head.figures.rounds);
        EXPECT_EQ(again.figures.bytes, head.figures.bytes);
        EXPECT_EQ(again.figures.title, head.figures.title);
    }
}

TEST(ConversationHead, AnyCutAndAnyFlipIsFound) {
    const Bytes whole = write_head(some_head());
    for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(read_head(std::span(whole).first(size))) << size;
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        Bytes bytes = whole;
        bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
        EXPECT_FALSE(read_head(bytes)) << bit;
        // Under a right checksum it is refused or written as it was read.
        bytes = sealed(std::move(bytes));
        const auto changed = read_head(bytes);
        EXPECT_TRUE(!changed || write_head(*changed) == bytes) << bit;
    }
}

TEST(ConversationHead, ImpossibleOnesAreRefused) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    using Change = void (*)(ConversationHead&);
    const std::vector<Change> changes = {
        [](ConversationHead& head) { head.name.tenant.assign((size_t{64} << 10) + 1, 't'); },
        [](ConversationHead& head) { head.name.id.assign((size_t{64} << 10) + 1, 'i'); },
        [](ConversationHead& head) { head.used_at = infinite; },
        [](ConversationHead& head) { head.used_at = std::numeric_limits<double>::quiet_NaN(); },
        [](ConversationHead& head) { head.used_at = -1.0; },
        [](ConversationHead& head) { head.used_at = 1e300; },
        [](ConversationHead& head) { head.figures.rounds = -1; },
        [](ConversationHead& head) { head.figures.rounds = int64_t{1} << 40; },
        [](ConversationHead& head) { head.figures.rounds = 0; },  // but it has tokens
        [](ConversationHead& head) { head.figures.tokens = -1; },
        [](ConversationHead& head) { head.figures.tokens = int64_t{1} << 59; },
        [](ConversationHead& head) { head.figures.bytes = ~size_t{0}; },
        [](ConversationHead& head) { head.figures.title.assign(10'000, 'x'); },
    };
    for (size_t i = 0; i < changes.size(); ++i) {
        ConversationHead head = some_head();
        changes[i](head);
        const auto read = read_head(write_head(head));
        ASSERT_FALSE(read) << i;
        EXPECT_TRUE(is_refused(read.error(), ErrorCode::corrupt)) << i << ": " << read.error().message;
    }
}

TEST(TokenizerFingerprint, ChangesWithWhatAnIdSpells) {
    const auto of = [](std::vector<std::string> tokens, std::vector<int32_t> types) {
        GgufVocabulary vocabulary;
        vocabulary.model = "gpt2";
        vocabulary.pre = "gpt-2";
        vocabulary.tokens = std::move(tokens);
        vocabulary.types = std::move(types);
        return fingerprint(*must(tokenizer_from_gguf(vocabulary, "test")));
    };
    const uint64_t one = of({"a", "b", "c"}, {1, 1, 3});
    EXPECT_EQ(of({"a", "b", "c"}, {1, 1, 3}), one);
    EXPECT_NE(of({"b", "a", "c"}, {1, 1, 3}), one);
    EXPECT_NE(of({"a", "b", "d"}, {1, 1, 3}), one);
    EXPECT_NE(of({"a", "b", "c"}, {1, 1, 1}), one);
    EXPECT_NE(of({"a", "b", "c", "d"}, {1, 1, 3, 1}), one);
    EXPECT_NE(of({"a", "bc", "c"}, {1, 1, 3}), one);
}

}  // namespace
}  // namespace rondo

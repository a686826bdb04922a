#include "actors/conversation_bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string_view>

#include "actors/field_io.hpp"
#include "actors/kept_conversations.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/actors/stored_bytes.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

using testing::Bytes;
using testing::is_refused;
using testing::must;
using testing::sealed;
using testing::with_number;

// Where numbers of a conversation without title and preamble lie.
constexpr size_t tokenizer_at = 5, title_size_at = 13, preamble_count_at = 21, rounds_count_at = 29;
constexpr size_t asked_count_at = 37, role_size_at = 45;

// What version 1 wrote. Later versions write other bytes, but they read these, which therefore never change here.
constexpr std::string_view conversation_of_version_1 =
    "010000000188776655443322110b0000000000000057657474657220f09f8ca70100000000000000060000000000000073797374"
    "656d0f00000000000000536569206b6e6170702e20f09f9982000000000000000002000000000000000100000000000000040000"
    "00000000007573657202000000000000004869000000000000000006000000000000004e6f7465642e090000000000000000ffff"
    "ffffffffffff0200000000000000486902000000000000000500000006000000000000000000000006000000000000004e6f7465"
    "642e0100000000000000070000000100000000000000000000000000000000000000000000000200000000000000090000000000"
    "0000617373697374616e74000000000000000011000000000000007b22746f6f6c5f63616c6c73223a5b5d7d0400000000000000"
    "757365720400000000000000556e643f000000000000000003000000000000004a612e0c0000000000000001011e000000000000"
    "0007000000000000000a0000000000000005000000000000000f000000000000000200000000000000000000000000d03f000000"
    "000000e03f000000000000f03f0000000000000040000000000000fc3f0300000005000000000000006c696e6573640000000000"
    "0000c800000000000000000000000000e03f01000000000000002c010000000000009001000000000000000000000000f83f0200"
    "000000000000040000000000000001000000000000000f0000000200000000000000000100000000000002000000000000000400"
    "000000000000556e643f01000000000000002c010000030000000000000003000000000000004a612e0200000000000000080000"
    "0009000000040000000000000001000000000000000a010000000000000001000000800d9da82499a12e";
constexpr std::string_view head_of_version_1 =
    "0100000002040000000000000061636d650300000000000000632d31110000000000000000000060b813da411500000000000000"
    "0200000000000000d2040000000000000b0000000000000057657474657220f09f8ca74aceb33597a77bd8";
constexpr uint64_t tokenizer_of_version_1 = 0x1122'3344'5566'7788;

Bytes from_hex(std::string_view digits) {
    Bytes bytes;
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(static_cast<std::byte>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
    return bytes;
}

/// What those bytes hold.
Conversation::Parts parts_of_version_1() {
    Conversation::Parts parts;
    parts.title = "Wetter 🌧";
    parts.preamble = {{"system", "Sei knapp. 🙂"}};
    parts.rounds = {{{{"user", "Hi"}}, "Noted.", 9},
                    {{{"assistant", "", R"({"tool_calls":[]})"}, {"user", "Und?"}}, "Ja.", 12}};
    TurnFigures figures{TurnOutcome::length, {30, 7, 10, 5, 15, 2}, {0.25, 0.5, 1.0, 2.0, 1.75, 3}, {}};
    figures.attention = {"lines", {100, 200, 0.5, 1}, {300, 400, 1.5, 2}, 4, 1, 15, 2, 256};
    parts.rounds[1].figures = figures;
    parts.borders = {{-1, "Hi", {5, 6}}, {0, "Noted.", {7}}, {1, "", {}},
                     {2, "Und?", {300}}, {3, "Ja.", {8, 9}}, {4, "\n", {1}}};
    return parts;
}

ConversationHead head_that_version_1_had() {
    return {{"acme", "c-1"}, 17, 1.75e9, {21, 2, 1234, "Wetter 🌧"}};
}

class ConversationBytesTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        model = std::make_unique<Model>(must(load_model_text(demo_model_path())));
        tokenizer = fingerprint(*model->tokenizer);
    }
    static void TearDownTestSuite() { model.reset(); }

    static TurnFigures some_figures() {
        TurnFigures figures{TurnOutcome::length, {30, 7, 10, 5, 15, 2}, {0.25, 0.5, 1.0, 2.0, 1.75, 3}, {}};
        figures.attention = {"lines", {100, 200, 0.5, 1}, {300, 400, 1.5, 2}, 4, 1, 15, 2, 256};
        return figures;
    }
    static void say(Conversation& conversation, const std::vector<ChatMessage>& messages) {
        const Conversation::Prompt prompt = must(conversation.prompt(messages));
        std::vector<int32_t> answer;
        for (const char letter : std::string("Noted."))  // as no tokenizer would cut it
            for (const int32_t id : must(model->tokenizer->encode(std::string(1, letter), false))) answer.push_back(id);
        answer.push_back(model->spec.eos_ids.front());
        conversation.answered(messages, "Noted.", prompt, answer, some_figures());
    }
    static Conversation small_conversation() {
        Conversation conversation(*model);
        say(conversation, {{"user", "Hi"}});
        return conversation;
    }
    /// A history that its client brought along, calls of tools, and rounds of its own.
    static Conversation long_conversation() {
        Conversation conversation(*model);
        conversation.preamble = {{"system", "Sei knapp. 简短 🙂"}};
        say(conversation, {{"user", "Hello"},
                           {"assistant", "Noted."},
                           {"user", "How cold is it?"},
                           {"assistant", "", R"({"tool_calls":[{"id":"c1","function":{"name":"cold"}}]})"},
                           {"tool", "4 °C\n", R"({"tool_call_id":"c1"})"}});
        say(conversation, {{"user", "Und в Осло?"}});
        say(conversation, {{"user", "Thank you."}});
        EXPECT_TRUE(conversation.rename("Wetter 🌧").is_ok());
        return conversation;
    }

    static Bytes written(const Conversation& conversation) { return write_conversation(conversation, tokenizer); }
    static Result<Conversation> read(std::span<const std::byte> bytes, uint64_t with = tokenizer) {
        return read_conversation(*model, bytes, with);
    }
    static std::vector<ChatMessage> all_messages(const Conversation& conversation) {
        std::vector<ChatMessage> all = conversation.preamble;
        for (const Round& round : conversation.rounds()) {
            all.insert(all.end(), round.asked.begin(), round.asked.end());
            all.push_back({"assistant", round.answer});
        }
        return all;
    }
    static std::vector<std::string> texts_of(const Conversation& conversation) {
        std::vector<std::string> texts{conversation.title()};
        for (const ChatMessage& message : all_messages(conversation))
            for (const std::string& text : {message.role, message.content, message.more_json}) texts.push_back(text);
        return texts;
    }
    static void expect_same_prompt(const Conversation& one, const Conversation& other) {
        const Conversation::Prompt a = must(one.prompt({{"user", "And now?"}}));
        const Conversation::Prompt b = must(other.prompt({{"user", "And now?"}}));
        EXPECT_EQ(a.ids, b.ids);
        EXPECT_EQ(a.border, b.border);
        EXPECT_EQ(a.known_ids, b.known_ids);
        EXPECT_EQ(a.text, b.text);
    }

    static inline std::unique_ptr<Model> model;
    static inline uint64_t tokenizer = 0;
};

TEST_F(ConversationBytesTest, AConversationIsReadAsItWasWritten) {
    for (const Conversation& conversation : {Conversation(*model), small_conversation(), long_conversation()}) {
        const Bytes bytes = written(conversation);
        const Conversation again = must(read(bytes));
        EXPECT_EQ(texts_of(again), texts_of(conversation));
        EXPECT_EQ(again.given_title(), conversation.given_title());
        EXPECT_EQ(again.preamble.size(), conversation.preamble.size());
        EXPECT_EQ(again.tokens(), conversation.tokens());
        EXPECT_EQ(again.bytes(), conversation.bytes());
        ASSERT_EQ(again.rounds().size(), conversation.rounds().size());
        for (size_t i = 0; i < again.rounds().size(); ++i) {
            EXPECT_EQ(again.rounds()[i].tokens, conversation.rounds()[i].tokens);
            EXPECT_EQ(again.rounds()[i].asked.size(), conversation.rounds()[i].asked.size());
        }
        EXPECT_TRUE(written(again) == bytes);
    }
}

TEST_F(ConversationBytesTest, FiguresOfRoundsStay) {
    const Conversation again = must(read(written(long_conversation())));
    ASSERT_EQ(again.rounds().size(), 4U);
    EXPECT_FALSE(again.rounds()[0].figures.has_value());
    for (size_t i = 1; i < 4; ++i) {
        ASSERT_TRUE(again.rounds()[i].figures.has_value());
        const auto& [outcome, usage, timings, attention] = *again.rounds()[i].figures;
        EXPECT_EQ(outcome, TurnOutcome::length);
        EXPECT_EQ(usage.prompt_tokens, 30);
        EXPECT_EQ(usage.thought_tokens, 2);
        EXPECT_EQ(timings.queued, 0.25);
        EXPECT_EQ(timings.first_token, 1.75);
        EXPECT_EQ(timings.preemptions, 3);
        EXPECT_EQ(attention.method, "lines");
        EXPECT_EQ(attention.prompt.causal, 200);
        EXPECT_EQ(attention.answer.mass, 1.5);
        EXPECT_EQ(attention.lag_steps, 15);
        EXPECT_EQ(attention.budget_tokens, 256);
    }
}

TEST_F(ConversationBytesTest, TheNextPromptHasTheSameIds) {
    Conversation conversation = long_conversation();
    Conversation again = must(read(written(conversation)));
    expect_same_prompt(conversation, again);
    EXPECT_GT(must(again.prompt({{"user", "And now?"}})).known_ids, 0U);
    for (Conversation* one : {&conversation, &again}) say(*one, {{"user", "Go on."}});
    expect_same_prompt(conversation, again);
    for (Conversation* one : {&conversation, &again}) ASSERT_TRUE(one->rewind(3).is_ok());
    expect_same_prompt(conversation, again);
    EXPECT_GT(must(again.prompt({{"user", "And now?"}})).known_ids, 0U);
}

TEST_F(ConversationBytesTest, UnderAnotherTokenizerTextsStayAndAreEncodedAnew) {
    const Conversation conversation = long_conversation();
    Conversation again = must(read(written(conversation), tokenizer + 1));
    EXPECT_EQ(texts_of(again), texts_of(conversation));
    EXPECT_EQ(again.tokens(), conversation.tokens());
    std::vector<ChatMessage> all = all_messages(conversation);
    all.push_back({"user", "And now?"});
    const Conversation::Prompt prompt = must(again.prompt({{"user", "And now?"}}));
    EXPECT_EQ(prompt.ids, must(model->encode_chat(all)));
    EXPECT_EQ(prompt.known_ids, 0U);
    // From then on it has ids again, and they last.
    say(again, {{"user", "And now?"}});
    expect_same_prompt(again, must(read(write_conversation(again, tokenizer + 1), tokenizer + 1)));
    EXPECT_GT(must(again.prompt({{"user", "Thank you."}})).known_ids, prompt.ids.size());
}

TEST_F(ConversationBytesTest, AnyCutAndAnyFlipIsFound) {
    const Bytes whole = written(small_conversation());
    ASSERT_TRUE(read(whole));
    for (size_t size = 0; size < whole.size(); ++size) {
        const auto cut = read(std::span(whole).first(size));
        ASSERT_FALSE(cut) << size;
        EXPECT_TRUE(is_refused(cut.error(), ErrorCode::corrupt)) << size << ": " << cut.error().message;
    }
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        Bytes bytes = whole;
        bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
        EXPECT_FALSE(read(bytes)) << bit;
    }
}

/// Under a right checksum, too, what is cut off is refused; and what is changed is refused or can be worked with.
TEST_F(ConversationBytesTest, NoChangeUnderARightChecksumDoesHarm) {
    const Bytes whole = written(small_conversation());
    constexpr size_t sum_bytes = 8, kept_bytes = 5;
    for (size_t size = kept_bytes + sum_bytes; size < whole.size(); ++size)
        EXPECT_FALSE(read(sealed(Bytes(whole.begin(), whole.begin() + static_cast<int64_t>(size))))) << size;
    Bytes longer = whole;
    longer.push_back({});
    EXPECT_FALSE(read(sealed(longer)));
    size_t accepted = 0;
    for (size_t bit = 0; bit < 8 * (whole.size() - sum_bytes); ++bit) {
        Bytes bytes = whole;
        bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
        bytes = sealed(std::move(bytes));
        const auto changed = read(bytes);
        if (!changed) {
            EXPECT_EQ(changed.error().message.find('\n'), std::string::npos) << bit;
            continue;
        }
        ++accepted;
        (void)changed->prompt({{"user", "And now?"}});
        const bool is_tokenizer = bit / 8 >= tokenizer_at && bit / 8 < title_size_at;
        EXPECT_TRUE(is_tokenizer || written(*changed) == bytes) << bit;
    }
    EXPECT_GT(accepted, 0U);  // an answer's letters may have been others
}

TEST_F(ConversationBytesTest, SizesThatLieAreRefused) {
    const Bytes whole = written(small_conversation());
    ASSERT_TRUE(read(sealed(whole)));
    for (const size_t at : {title_size_at, preamble_count_at, rounds_count_at, asked_count_at, role_size_at}) {
        for (const uint64_t size :
             {uint64_t{2}, uint64_t{1000}, uint64_t{1} << 20, uint64_t{1} << 32, uint64_t{1} << 62, ~uint64_t{0}}) {
            const auto lying = read(with_number(whole, at, size));
            ASSERT_FALSE(lying) << at << ": " << size;
            EXPECT_TRUE(is_refused(lying.error(), ErrorCode::corrupt)) << at << ": " << lying.error().message;
        }
    }
}

TEST_F(ConversationBytesTest, BordersStandBehindEarlierOnesAndHaveIdsOfTheVocabulary) {
    const Conversation conversation = small_conversation();
    const Bytes whole = written(conversation);
    const Conversation::Border& last = conversation.borders().back();
    ASSERT_EQ(last.ids.size(), 1U);
    const size_t id_at = whole.size() - 8 - 4, count_at = id_at - 8;
    const size_t after_at = count_at - last.text.size() - 16;
    for (const int64_t after : {-1, 0, 1}) EXPECT_TRUE(read(with_number(whole, after_at, after))) << after;
    for (const int64_t after : {int64_t{-2}, int64_t{2}, int64_t{3}, int64_t{1} << 59, int64_t{1} << 62}) {
        const auto lying = read(with_number(whole, after_at, after));
        ASSERT_FALSE(lying) << after;
        EXPECT_TRUE(is_refused(lying.error(), ErrorCode::corrupt)) << lying.error().message;
    }
    for (const uint64_t count : {uint64_t{0}, uint64_t{2}, uint64_t{1} << 62, ~uint64_t{0}})
        EXPECT_FALSE(read(with_number(whole, count_at, count))) << count;
    const auto vocabulary = static_cast<int32_t>(model->spec.vocabulary);
    EXPECT_TRUE(read(with_number(whole, id_at, vocabulary - 1)));
    for (const int32_t id : {-1, vocabulary, std::numeric_limits<int32_t>::max()}) {
        const Bytes lying = with_number(whole, id_at, id);
        ASSERT_FALSE(read(lying)) << id;
        EXPECT_EQ(read(lying).error().message, "a stored conversation has an id outside the vocabulary");
        EXPECT_TRUE(read(lying, tokenizer + 1)) << id;  // of another vocabulary, and forgotten
    }
}

TEST_F(ConversationBytesTest, AnotherVersionAndAnotherKindAreNamed) {
    const Bytes whole = written(small_conversation());
    for (const uint32_t version : {uint32_t{0}, uint32_t{2}, ~uint32_t{0}}) {
        const auto other = read(with_number(whole, 0, version));
        ASSERT_FALSE(other);
        EXPECT_EQ(other.error().code, ErrorCode::unsupported);
        EXPECT_EQ(other.error().message,
                  "a stored conversation is of version " + std::to_string(version) + ", must be 1");
    }
    EXPECT_EQ(read(write_head({})).error().message, "a stored conversation is something else");
    EXPECT_EQ(read_head(whole).error().message, "the stored head of a conversation is something else");
}

/// Whoever changes what is written raises the version, and has these bytes read by what reads version 1.
TEST_F(ConversationBytesTest, Version1IsWrittenAsItAlwaysWas) {
    EXPECT_EQ(stored_version, 1U);
    EXPECT_TRUE(write_conversation(Conversation(*model, parts_of_version_1()), tokenizer_of_version_1) ==
                from_hex(conversation_of_version_1));
    EXPECT_TRUE(write_head(head_that_version_1_had()) == from_hex(head_of_version_1));
}

TEST_F(ConversationBytesTest, Version1IsRead) {
    const Conversation read_back = must(read(from_hex(conversation_of_version_1), tokenizer_of_version_1));
    const Conversation::Parts parts = parts_of_version_1();
    EXPECT_EQ(texts_of(read_back), texts_of(Conversation(*model, parts)));
    EXPECT_EQ(read_back.given_title(), parts.title);
    ASSERT_EQ(read_back.rounds().size(), 2U);
    EXPECT_EQ(read_back.tokens(), 21);
    EXPECT_FALSE(read_back.rounds()[0].figures);
    ASSERT_TRUE(read_back.rounds()[1].figures);
    const auto& [outcome, usage, timings, attention] = *read_back.rounds()[1].figures;
    EXPECT_EQ(outcome, TurnOutcome::length);
    EXPECT_EQ(usage.restored_tokens, 5);
    EXPECT_EQ(timings.first_token, 1.75);
    EXPECT_EQ(timings.preemptions, 3);
    EXPECT_EQ(attention.method, "lines");
    EXPECT_EQ(attention.answer.mass, 1.5);
    EXPECT_EQ(attention.budget_tokens, 256);
    ASSERT_EQ(read_back.borders().size(), parts.borders.size());
    for (size_t i = 0; i < parts.borders.size(); ++i) {
        EXPECT_EQ(read_back.borders()[i].after, parts.borders[i].after) << i;
        EXPECT_EQ(read_back.borders()[i].text, parts.borders[i].text) << i;
        EXPECT_EQ(read_back.borders()[i].ids, parts.borders[i].ids) << i;
    }
    const ConversationHead head = must(read_head(from_hex(head_of_version_1)));
    EXPECT_EQ(head.name, head_that_version_1_had().name);
    EXPECT_EQ(head.number, 17U);
    EXPECT_EQ(head.used_at, 1.75e9);
    EXPECT_EQ(head.figures.tokens, 21);
    EXPECT_EQ(head.figures.rounds, 2);
    EXPECT_EQ(head.figures.bytes, 1234U);
    EXPECT_EQ(head.figures.title, "Wetter 🌧");
}

class NewerConversationTest : public testing::StoreTest {
protected:
    /// As a server does. How many conversations it lists.
    size_t start() {
        kept_.reset();
        open();
        kept_.emplace(*store_);
        const auto heads = kept_->heads();
        EXPECT_TRUE(heads);
        return heads ? heads->size() : 0;
    }
    /// The same as the next version writes it, as far as anybody knows.
    static Bytes later(const Bytes& bytes) { return with_number(bytes, 0, stored_version + 1); }
    Shelf shelf() { return {store_->manifest(), store_->keys()}; }

    std::optional<KeptConversations> kept_;
};

/// An older program is started on the folder of a newer one, and the newer one again.
TEST_F(NewerConversationTest, IsRefusedWholeAndStaysAsItIs) {
    ASSERT_EQ(start(), 0U);
    const ConversationKey key{{"acme", "c-1"}, 17};
    const Round round = StoreTest::round("acme", nullptr, 0, 32);
    const Bytes head = from_hex(head_of_version_1), body = from_hex(conversation_of_version_1);
    ASSERT_TRUE(kept_->keep({key, head, body}));
    ASSERT_EQ(write(round), KvStore::Refusal::none);
    ASSERT_TRUE(kept_->tie(key, name_of(round)));
    ASSERT_TRUE(kept_->commit());
    ASSERT_EQ(start(), 1U);
    const StoreName name = shelf().name("acme", "c-1");
    const std::vector<StoreName> records{name_of(round)};
    ASSERT_TRUE(shelf().put(name, store_->tenant_name("acme"), later(head), later(body), records));
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(start(), 0U) << "it is not listed";
        EXPECT_THAT(store_->notes(), ::testing::IsEmpty()) << "nor taken for damaged";
        ASSERT_TRUE(store_->expire());
        ASSERT_TRUE(kept_->forget_removed());
        EXPECT_TRUE(must(shelf().head(name)) == later(head));
        EXPECT_TRUE(must(shelf().body(name)) == later(body));
        EXPECT_TRUE(must(shelf().records(name)) == records);
        EXPECT_TRUE(is_there(round));
    }
    EXPECT_EQ(read_head(later(head)).error().code, ErrorCode::unsupported);
    ASSERT_TRUE(shelf().put(name, store_->tenant_name("acme"), head, body, records));
    EXPECT_EQ(start(), 1U) << "who knows the version has it again";
    EXPECT_TRUE(must(kept_->body(key.name)) == body);
}

}  // namespace
}  // namespace rondo

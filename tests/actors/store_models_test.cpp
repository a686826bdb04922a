// Engines of other models, KV types and tokenizers over one store's folder.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "memory/store/store_survey.hpp"
#include "tests/actors/store_actor_fixture.hpp"
#include "tests/flip_bit.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::must;
using testing::settings_of;
using testing::StoreActorTest;

class StoreModelsTest : public StoreActorTest {
protected:
    using Overrides = std::vector<std::string>;

    /// Our model in a folder of its own, which a test may change.
    std::filesystem::path copied_model() const {
        const std::filesystem::path copy = folder_.path() + "/other_model";
        std::filesystem::copy(testing::demo_model_in_f32(), copy);
        return copy;
    }
    static void change_a_weight(const std::filesystem::path& model) {
        const std::filesystem::path file = model / "model.safetensors";
        testing::flip_bit(file, std::filesystem::file_size(file) / 2);
    }
    static Overrides with_model(const std::filesystem::path& model) { return {"model.path=" + model.string()}; }
    /// In f32, since histories are computed again in other pieces.
    static Overrides ours() { return with_model(testing::demo_model_in_f32()); }

    /// What is said where nothing is kept.
    Heard without_store(const Overrides& more, Ask ask) {
        Overrides all{testing::demo_pool(170), "devices.cpu.threads=1"};
        all.insert(all.end(), more.begin(), more.end());
        stage_.reset();
        stage_.emplace(settings_of(all));
        return turn(std::move(ask));
    }
    StoreSurvey survey() {
        stage_.reset();
        return must(survey_store({.path = folder_.path() + "/kv"}));
    }
};

/// Both have the same ids, and the same folder one after the other.
class OtherKvTest : public StoreModelsTest, public ::testing::WithParamInterface<const char*> {
protected:
    Overrides other() const {
        const std::string what = GetParam();
        if (what != "weight") return {ours().front(), "memory.kv_dtype=" + what};
        const std::filesystem::path model = copied_model();
        change_a_weight(model);
        return with_model(model);
    }
};

INSTANTIATE_TEST_SUITE_P(Engines, OtherKvTest, ::testing::Values("weight", "f32", "int8"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(OtherKvTest, IsNeitherUsedNorLost) {
    const Overrides theirs = other();
    start(ours());
    const Heard first = turn(continue_ids(some_ids(100), 8));
    const std::vector<int32_t> next = joined(joined(some_ids(100), first.ids), {200, 201});
    wait_until_written();
    const Heard by_us = turn(continue_ids(next, 8));
    EXPECT_EQ(by_us.ends[0].usage.cached_tokens, 107);
    wait_until_written();
    const uint64_t our_records = figures().records;
    ASSERT_EQ(our_records, 2U);
    const Heard by_them = without_store(theirs, continue_ids(next, 8));

    start(theirs);
    ASSERT_TRUE(figures().serves);
    EXPECT_EQ(figures().records, our_records);
    const Heard beside = turn(continue_ids(next, 8));
    EXPECT_EQ(beside.ids, by_them.ids);
    EXPECT_EQ(beside.ends[0].usage.restored_tokens, 0);
    EXPECT_EQ(beside.ends[0].usage.recomputed_tokens, std::ssize(next));
    EXPECT_EQ(figures().tokens_found, 0);
    wait_until_written();
    EXPECT_EQ(figures().written, 1) << "under their own name, though ours has these ids";
    EXPECT_EQ(figures().records, our_records + 1);

    const StoreSurvey found = survey();
    EXPECT_TRUE(found.damaged.empty());
    ASSERT_EQ(found.by_kind.size(), 2U);
    const StoreSurvey::Sum &one = found.by_kind.begin()->second, &another = found.by_kind.rbegin()->second;
    EXPECT_EQ(std::minmax({one.records, another.records}), std::pair(int64_t{1}, int64_t{2}));
    EXPECT_EQ(one.tokens, another.tokens);

    start(ours());
    const Heard our_own = turn(continue_ids(next, 8));
    EXPECT_EQ(our_own.ids, by_us.ids);
    EXPECT_EQ(our_own.ends[0].usage.restored_tokens, 107);
    start(theirs);
    const Heard their_own = turn(continue_ids(next, 8));
    EXPECT_EQ(their_own.ids, by_them.ids);
    EXPECT_GE(their_own.ends[0].usage.restored_tokens, 64) << "the beginning of their one record";
}

/// Its model may have the same weights, or others.
class OtherTokenizerTest : public StoreModelsTest, public ::testing::WithParamInterface<bool> {
protected:
    /// " is" and " the" have each other's ids, and " code" is two tokens.
    static void change_the_tokenizer(const std::filesystem::path& model) {
        const std::string space = "\xC4\xA0";  // as the file spells it
        nlohmann::json tokenizer;
        std::ifstream(model / "tokenizer.json") >> tokenizer;
        nlohmann::json& vocabulary = tokenizer["model"]["vocab"];
        nlohmann::json& merges = tokenizer["model"]["merges"];
        std::swap(vocabulary.at(space + "is"), vocabulary.at(space + "the"));
        const nlohmann::json merge = space + "co de";
        const auto found = std::ranges::find(merges, merge);
        ASSERT_NE(found, merges.end());
        merges.erase(found);
        std::ofstream(model / "tokenizer.json") << tokenizer;
    }
    static Ask go_on(const std::string& text) {
        Ask ask = chat("c", text);
        ask.goes_on = true;
        return ask;
    }
};

INSTANTIATE_TEST_SUITE_P(Weights, OtherTokenizerTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "others" : "the_same"; });

TEST_P(OtherTokenizerTest, AConversationIsEncodedAnewAndGoesOn) {
    const std::filesystem::path model = copied_model();
    ASSERT_NO_FATAL_FAILURE(change_the_tokenizer(model));
    if (GetParam()) change_a_weight(model);
    const Overrides theirs = with_model(model);
    start(ours());
    Ask all_said = chat("", "");
    all_said.messages.clear();
    for (const std::string text : {"The code of the red box is 4817.", "What is the code of the red box?"}) {
        all_said.messages.push_back({"user", text});
        all_said.messages.push_back({"assistant", turn(chat("c", text)).text});
    }
    all_said.messages.push_back({"user", "Hello!"});
    wait_until_written();
    const uint64_t our_records = figures().records;
    ASSERT_EQ(our_records, 2U);
    const Heard by_us = without_store(ours(), all_said), by_them = without_store(theirs, all_said);
    ASSERT_NE(by_them.ends[0].usage.prompt_tokens, by_us.ends[0].usage.prompt_tokens);

    start(theirs);
    const Heard third = turn(go_on("Hello!"));
    ASSERT_EQ(third.ends[0].outcome, TurnOutcome::stop) << third.ends[0].error.message;
    EXPECT_EQ(third.ids, by_them.ids);
    EXPECT_EQ(third.text, by_them.text);
    EXPECT_EQ(third.ends[0].usage.prompt_tokens, by_them.ends[0].usage.prompt_tokens);
    EXPECT_EQ(third.ends[0].usage.recomputed_tokens, third.ends[0].usage.prompt_tokens);
    EXPECT_EQ(figures().tokens_found, 0);
    EXPECT_EQ(answer<ConversationInfoPtr>(list_atom::value, ConversationName{"t", "c"})->rounds.size(), 3U);
    const Heard fourth = turn(go_on("What is the code of the red box?"));
    EXPECT_GT(fourth.ends[0].usage.cached_tokens, third.ends[0].usage.prompt_tokens) << "it has ids again";
    wait_until_written();
    EXPECT_GT(figures().records, our_records);

    start(theirs);
    EXPECT_GE(turn(go_on("Hello!")).ends[0].usage.restored_tokens, fourth.ends[0].usage.prompt_tokens);
    wait_until_written();
    start(ours());
    const Heard back = turn(go_on("Hello!"));
    EXPECT_EQ(back.ends[0].outcome, TurnOutcome::stop) << back.ends[0].error.message;
    EXPECT_GT(back.ends[0].usage.restored_tokens, 0) << "of what we computed in the beginning";
    EXPECT_EQ(answer<ConversationInfoPtr>(list_atom::value, ConversationName{"t", "c"})->rounds.size(), 6U);
}

}  // namespace
}  // namespace rondo

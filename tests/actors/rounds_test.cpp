#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/actors/pipeline_fixture.hpp"

/// Rounds keep the ids they were computed with, whatever comes between: answers cut off by their user, by a stop string
/// or by length, forks, rewinds, rounds dropped, turns asked twice. Each turn is compared with one that is asked for
/// the ids that its history spells by what users were told alone.
namespace rondo {
namespace {

using testing::chat;
using testing::Heard;
using testing::must;
using testing::settings_of;
using testing::Stage;

/// A conversation as its user could write it down: ids he was told of, in order.
struct Told {
    struct Round {
        std::vector<ChatMessage> asked;
        std::string answer;
        std::vector<int32_t> prompt, ids;  ///< none: computed with what was dropped since
    };
    std::string name;
    std::vector<Round> rounds;
};

class Rounds : public ::testing::TestWithParam<uint64_t> {
protected:
    const Model& model() { return stage_.inside().model(); }
    size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

    std::vector<int32_t> encoded(const std::string& text) { return must(model().tokenizer->encode(text, true)); }

    /// As many of the ids as spell no more than was told, and the rest of what was told.
    std::pair<std::vector<int32_t>, std::string> spelled(const Told::Round& round) {
        std::vector<int32_t> ids = round.ids;
        if (!ids.empty() && model().tokenizer->is_special(ids.back())) ids.pop_back();
        for (; !ids.empty() && !round.answer.starts_with(model().tokenizer->decode(ids));) ids.pop_back();
        return {ids, round.answer.substr(model().tokenizer->decode(ids).size())};
    }

    std::vector<int32_t> expected_prompt(const Told& told, const std::vector<ChatMessage>& messages) {
        std::vector<int32_t> ids;
        std::string rest;
        for (size_t i = 0; i < told.rounds.size(); ++i) {
            const Told::Round& round = told.rounds[i];
            if (round.prompt.empty()) {
                rest += written(round.asked) + "<|assistant|>" + round.answer + "<|end|>";
                continue;
            }
            const auto [said, more] = spelled(round);
            ids = round.prompt;
            ids.insert(ids.end(), said.begin(), said.end());
            const bool ended = !round.ids.empty() && model().tokenizer->bytes_of(round.ids.back(), true) == "<|end|>";
            if (ended && more.empty()) ids.push_back(round.ids.back());
            rest = ended && more.empty() ? "" : more + "<|end|>";
        }
        const std::vector<int32_t> end = encoded(rest + written(messages) + "<|assistant|>");
        ids.insert(ids.end(), end.begin(), end.end());
        return ids;
    }
    static std::string written(const std::vector<ChatMessage>& messages) {
        std::string text;
        for (const ChatMessage& message : messages) text += "<|" + message.role + "|>" + message.content + "<|end|>";
        return text;
    }

    Ask random_ask(const Told& told) {
        static const std::vector<std::string> texts{
            "The code of the red box is 4817.", "What is the code of the red box?", "Hello!",
            "My lamp is old. Naïve, isn't it? \xF0\x9F\x98\x80", "Repeat the code of the red box twice, please."};
        Ask ask = chat(told.name, texts[below(texts.size())], 1 + static_cast<int64_t>(below(24)));
        ask.options.ignore_eos = below(3) == 0;
        if (below(3) == 0) ask.options.sampling = {.temperature = 1.5F, .seed = random_()};
        if (below(4) == 0) ask.options.stops = {std::string(1, "aeo c4"[below(6)])};
        return ask;
    }

    /// A turn that its user may leave at any time, and the same ids asked for by a stranger, who stays.
    void turn(Told& told) {
        const Ask ask = random_ask(told);
        const std::vector<int32_t> prompt = expected_prompt(told, ask.messages);
        const bool leaves = below(2) == 0, twice = below(5) == 0;
        Heard heard, again;
        const TurnId id = stage_.engine().ask(ask, heard.callbacks());
        const TurnId second = twice ? stage_.engine().ask(ask, again.callbacks()) : 0;
        for (size_t i = leaves ? below(300) : 0; i > 0; --i) stage_.run_one();
        if (leaves) stage_.engine().cancel(id);
        if (second != 0) stage_.engine().cancel(second);
        stage_.run();
        ASSERT_EQ(heard.ends.size(), 1U);
        ASSERT_NE(heard.ends[0].outcome, TurnOutcome::failed) << heard.ends[0].error.message;
        ASSERT_TRUE(again.ends.size() == (twice ? 1U : 0U));
        if (heard.ends[0].usage.prompt_tokens > 0) {
            ASSERT_EQ(heard.ends[0].usage.prompt_tokens, std::ssize(prompt))
                << told.name << ", round " << told.rounds.size();
        }
        compare(ask, prompt, heard);
        if (!heard.ids.empty()) told.rounds.push_back({ask.messages, heard.text, prompt, heard.ids});
        if (!again.ids.empty()) {  // it began when the other was over
            const std::vector<int32_t> next = expected_prompt(told, ask.messages);
            ASSERT_EQ(again.ends[0].usage.prompt_tokens, std::ssize(next));
            told.rounds.push_back({ask.messages, again.text, next, again.ids});
        }
        ++turns_;
    }
    void compare(const Ask& ask, const std::vector<int32_t>& prompt, const Heard& heard) {
        Ask plain = ask;
        plain.conversation = {"stranger", ""};
        plain.messages.clear();
        plain.ids = prompt;
        Heard stranger;
        stage_.engine().ask(plain, stranger.callbacks());
        stage_.run();
        ASSERT_EQ(stranger.ends.size(), 1U);
        ASSERT_LE(heard.ids.size(), stranger.ids.size());
        stranger.ids.resize(heard.ids.size());
        EXPECT_EQ(heard.ids, stranger.ids)
            << "a prompt of " << prompt.size() << ", of which " << heard.ends[0].usage.cached_tokens << " and "
            << stranger.ends[0].usage.cached_tokens << " were kept; temperature " << ask.options.sampling.temperature;
    }

    template <class... What>
    void tell(What... what) {
        caf::anon_send(stage_.inside().router(), what...);
        stage_.run();
    }
    void rewind(Told& told) {
        if (told.rounds.empty()) return;
        const size_t round = below(told.rounds.size());
        tell(rewind_atom::value, ConversationName{"t", told.name}, static_cast<int64_t>(round));
        told.rounds.resize(round);
    }
    void drop(Told& told) {
        if (told.rounds.empty()) return;
        const size_t round = below(told.rounds.size());
        tell(drop_atom::value, ConversationName{"t", told.name}, RoundList{static_cast<int64_t>(round)});
        told.rounds.erase(told.rounds.begin() + static_cast<std::ptrdiff_t>(round));
        for (size_t i = round; i < told.rounds.size(); ++i) told.rounds[i].prompt.clear();
    }
    Told fork(const Told& told, const std::string& name) {
        tell(fork_atom::value, ConversationName{"t", told.name}, ConversationName{"t", name});
        Told copy = told;
        copy.name = name;
        return copy;
    }

    Stage stage_{settings_of(testing::demo_in_f32(256, {"devices.cpu.threads=1"}))};
    std::mt19937_64 random_{GetParam()};
    int turns_ = 0;
};

TEST_P(Rounds, KeepTheIdsTheyWereComputedWith) {
    std::vector<Told> all{{"first", {}}};
    Heard begun;
    stage_.engine().ask(chat("first", "Hello!", 4), begun.callbacks());
    stage_.run();
    tell(rewind_atom::value, ConversationName{"t", "first"}, int64_t{0});
    for (int i = 0; i < 40; ++i) {
        SCOPED_TRACE("seed " + std::to_string(GetParam()) + ", step " + std::to_string(i));
        Told& told = all[below(all.size())];
        const size_t what = below(10);
        if (what < 6) turn(told);
        if (what == 6) rewind(told);
        if (what == 7) drop(told);
        if (what > 7 && all.size() < 6) all.push_back(fork(told, "fork" + std::to_string(i)));
        if (HasFatalFailure()) return;
    }
    EXPECT_GT(turns_, 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Rounds, ::testing::Range<uint64_t>(1, 13));

}  // namespace
}  // namespace rondo

#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "actors/conversation.hpp"
#include "tests/actors/pipeline_fixture.hpp"

namespace rondo::testing {

/// Conversations answered by a method that gives keys up, each beside what is remembered of it here; and strangers, who
/// share no KV with anybody.
class EvictedConversations : public ::testing::TestWithParam<std::string> {
protected:
    static constexpr int64_t tokens_of_answer = 24;

    struct Talk {
        std::string name;
        Conversation remembered;
    };

    Talk talk(const std::string& name) { return {name, Conversation(stage_.inside().model())}; }

    /// A turn, and a stranger's with the very same ids before it: they answer the same.
    TurnUsage ask(Talk& talk, const std::string& text) {
        SCOPED_TRACE(talk.name + ": " + text);
        const std::vector<ChatMessage> said{{"user", text}};
        const Conversation::Prompt prompt = must(talk.remembered.prompt(said));
        const Heard heard = hear(chat(talk.name, text, tokens_of_answer));
        Ask again = chat("", "", tokens_of_answer);
        again.conversation.tenant = "stranger " + std::to_string(++strangers_);
        again.messages.clear();
        again.ids = prompt.ids;
        const Heard stranger = hear(std::move(again));
        EXPECT_EQ(heard.ids, stranger.ids);
        EXPECT_EQ(heard.text, stranger.text);
        const TurnEnd &end = heard.ends.at(0), &fresh = stranger.ends.at(0);
        EXPECT_EQ(end.usage.prompt_tokens, std::ssize(prompt.ids));
        EXPECT_EQ(fresh.usage.cached_tokens, 0);
        for (const TurnEnd& one : {end, fresh}) {
            EXPECT_EQ(one.attention.selections, 1);
            EXPECT_EQ(one.attention.given_up, 0);
        }
        expect_all_blocks_back();
        talk.remembered.answered(said, heard.text, prompt, heard.ids);
        return end.usage;
    }

    Talk fork(const Talk& from, const std::string& name) {
        tell(fork_atom::value, ConversationName{"t", from.name}, ConversationName{"t", name});
        return {name, from.remembered};
    }
    void rewind(Talk& talk, int64_t round) {
        tell(rewind_atom::value, ConversationName{"t", talk.name}, round);
        ASSERT_TRUE(talk.remembered.rewind(round).is_ok());
    }
    void remove(const Talk& talk) { tell(remove_atom::value, ConversationName{"t", talk.name}); }

    const KvPool& pool() { return stage_.inside().pool(); }
    /// None is held but by what may be used again.
    void expect_all_blocks_back() {
        EXPECT_EQ(static_cast<int64_t>(pool().blocks_free(LayerGroup::upper)) + stage_.inside().load().blocks_cached,
                  static_cast<int64_t>(pool().blocks_total(LayerGroup::upper)));
    }

    // The prompts here are chosen from, and what they ask for stays within every method's budget.
    Stage stage_{settings_of(
        demo_in_f32(682, {"devices.cpu.threads=1", "pipeline.decode.attention.method=" + GetParam(),
                          "pipeline.decode.attention.budget_tokens=96", "pipeline.decode.attention.window=8"}))};

private:
    Heard hear(Ask ask) {
        Heard heard;
        stage_.engine().ask(std::move(ask), heard.callbacks());
        stage_.run();
        EXPECT_EQ(heard.ends.size(), 1U);
        return heard;
    }
    template <class... What>
    void tell(const What&... what) {
        caf::anon_send(stage_.inside().router(), what...);
        stage_.run();
    }

    int strangers_ = 0;
};

}  // namespace rondo::testing

// Chats are rendered and tokenized on threads of their own: what comes between ends a turn once, and holds nobody up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "tests/actors/pipeline_fixture.hpp"
#include "tests/cpu_time.hpp"
#include "tests/folder.hpp"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;
using testing::chat;
using testing::cpu_time;
using testing::must;
using testing::question;
using testing::right_answer;
using testing::settings_of;

/// A template that takes long for a message that asks for it, and leaves out most of a long message: so a huge text
/// makes a short prompt.
constexpr const char* slow_template =
    "{% for m in messages %}{% if 'slowly' in m.content %}"
    "{% for i in range(2000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}{% endif %}"
    "{{ '<|' + m.role + '|>' + m.content[:100] + '<|end|>' }}{% endfor %}{{ '<|assistant|>' }}";

/// The demo model with that template.
std::filesystem::path slow_model() {
    static const testing::Folder own;
    static const std::filesystem::path folder = [] {
        const std::filesystem::path made = own.path() + "/slow_template";
        std::filesystem::create_directory(made);
        for (const auto& file : std::filesystem::directory_iterator(demo_model_path()))
            if (file.is_regular_file()) std::filesystem::copy_file(file.path(), made / file.path().filename());
        std::ofstream(made / "tokenizer_config.json")
            << R"({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "chat_template": ")"
            << slow_template << "\"}";
        return made;
    }();
    return folder;
}

/// Too long for the thread of short texts.
std::string huge(const std::string& begins_with) {
    return begins_with + std::string(100, ' ') + std::string(200'000, 'x') + " slowly";
}

/// What a turn's user heard, on whatever thread.
class HeardTurn {
public:
    TurnCallbacks callbacks() {
        TurnCallbacks callbacks;
        callbacks.on_delta = [this](const TurnDelta& delta) {
            const std::lock_guard lock(mutex_);
            text_ += delta.text;
        };
        callbacks.on_end = [this](TurnEnd end) {
            const std::lock_guard lock(mutex_);
            ends_.push_back(std::move(end));
            ended_.notify_all();
        };
        return callbacks;
    }
    const TurnEnd& end() {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(ended_.wait_for(lock, std::chrono::seconds(60), [&] { return !ends_.empty(); }));
        return ends_.at(0);
    }
    bool has_ended() {
        const std::lock_guard lock(mutex_);
        return !ends_.empty();
    }
    size_t ends() {
        const std::lock_guard lock(mutex_);
        return ends_.size();
    }
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }

private:
    std::mutex mutex_;
    std::condition_variable ended_;
    std::string text_;
    std::vector<TurnEnd> ends_;
};

class ChatTexts : public ::testing::Test {
protected:
    void SetUp() override {
        EngineInside::Hooks hooks;
        hooks.started = [this](const Supervisor::Pipeline& pipeline) {
            const std::lock_guard lock(mutex_);
            pipeline_ = pipeline;
            ++starts_;
        };
        engine_ = must(EngineInside::open(
            settings_of({testing::demo_pool(170), "devices.cpu.threads=1", "model.path=" + slow_model().string()}), {},
            std::move(hooks)));
        while (starts() == 0) std::this_thread::yield();
    }
    void TearDown() override {
        pipeline_ = {};
        engine_.reset();
    }

    int starts() {
        const std::lock_guard lock(mutex_);
        return starts_;
    }
    TurnId ask(HeardTurn& turn, const std::string& conversation, const std::string& text, double deadline_s = 600.0) {
        Ask ask = chat(conversation, text, 16);
        ask.deadline_seconds = deadline_s;
        const TurnId id = engine_->ask(std::move(ask), turn.callbacks());
        while (inside(*engine_).load().turns == 0 && !turn.has_ended()) std::this_thread::yield();
        return id;
    }
    /// The time of one text that takes long, and what is computed for it.
    struct Rendering {
        Clock::duration time;
        std::chrono::nanoseconds cpu;
    };
    Rendering rendering() {
        HeardTurn turn;
        const auto begun = Clock::now();
        const auto computed = cpu_time();
        ask(turn, "", huge(question));
        EXPECT_NE(turn.end().outcome, TurnOutcome::failed) << turn.end().error.message;
        return {Clock::now() - begun, cpu_time() - computed};
    }
    /// All that was said before it counts, and nothing else.
    void expect_as_ever(const std::string& conversation, size_t rounds) {
        HeardTurn turn;
        ask(turn, conversation, question);
        EXPECT_NE(turn.end().outcome, TurnOutcome::failed) << turn.end().error.message;
        EXPECT_EQ(must(engine_->conversation({"t", conversation}))->rounds.size(), rounds + 1);
    }

    std::unique_ptr<Engine> engine_;
    std::mutex mutex_;
    Supervisor::Pipeline pipeline_;
    int starts_ = 0;
};

TEST_F(ChatTexts, TwoHugeOnesAtOnceHoldUpNoShortOne) {
    HeardTurn first, second, third, small;
    ask(first, "a", huge(question));
    ask(second, "b", huge(question));
    ask(third, "c", huge(question));
    ask(small, "d", question);
    EXPECT_EQ(small.end().outcome, TurnOutcome::stop) << small.end().error.message;
    EXPECT_EQ(small.text(), right_answer);
    EXPECT_FALSE(first.has_ended() && second.has_ended() && third.has_ended());
    for (HeardTurn* turn : {&first, &second, &third}) {
        EXPECT_EQ(turn->end().outcome, TurnOutcome::stop) << turn->end().error.message;
        EXPECT_EQ(turn->text(), right_answer);
        EXPECT_EQ(turn->ends(), 1U);
    }
}

TEST_F(ChatTexts, ACancelEndsTheTurnAndItsRendering) {
    const Rendering whole = rendering();
    expect_as_ever("c", 0);
    const auto before = cpu_time();
    for (int i = 0; i < 8; ++i) {
        HeardTurn turn;
        const TurnId id = ask(turn, "c", huge(question));
        std::this_thread::sleep_for(whole.time / 20);
        engine_->cancel(id);
        EXPECT_EQ(turn.end().outcome, TurnOutcome::cancelled);
        EXPECT_EQ(turn.ends(), 1U);
    }
    expect_as_ever("c", 1);
    expect_as_ever("c", 2);
    EXPECT_LT(cpu_time() - before, 4 * whole.cpu) << "eight of them would take twice as much";
}

TEST_F(ChatTexts, ADeadlineEndsATurnWhoseTextWaitsOrIsRendered) {
    const Clock::duration whole = rendering().time;
    std::vector<HeardTurn> turns(6);  // two are rendered, and the others wait
    for (size_t i = 0; i < turns.size(); ++i)
        ask(turns[i], "c" + std::to_string(i), huge(question), std::chrono::duration<double>(whole).count() / 10);
    for (HeardTurn& turn : turns) {
        EXPECT_EQ(turn.end().outcome, TurnOutcome::failed);
        EXPECT_EQ(turn.end().error.code, ErrorCode::timeout);
    }
    expect_as_ever("c0", 0);
    for (HeardTurn& turn : turns) EXPECT_EQ(turn.ends(), 1U);
    EXPECT_EQ(inside(*engine_).load().refused, 0U);
}

TEST_F(ChatTexts, WhatAPromptIsMadeOfStaysUntilItIsMade) {
    expect_as_ever("c", 0);
    HeardTurn slow;
    const TurnId id = ask(slow, "c", huge(question));
    const Status statuses[] = {engine_->rewind({"t", "c"}, 0).status(), engine_->drop({"t", "c"}, {0}).status()};
    for (const Status& status : statuses) {
        ASSERT_FALSE(status.is_ok());
        EXPECT_THAT(status.error().message, ::testing::HasSubstr("has a turn under way"));
    }
    engine_->cancel(id);
    EXPECT_EQ(slow.end().outcome, TurnOutcome::cancelled);
    EXPECT_EQ(must(engine_->rewind({"t", "c"}, 0))->rounds.size(), 0U);
    expect_as_ever("c", 0);
    // One that is removed meanwhile ends its turn, and another may begin under its name.
    HeardTurn removed;
    ask(removed, "c", huge(question));
    EXPECT_TRUE(must(engine_->remove({"t", "c"})));
    EXPECT_EQ(removed.end().outcome, TurnOutcome::cancelled);
    expect_as_ever("c", 0);
}

TEST_F(ChatTexts, AsManyWaitBehindOneThatIsRenderedAsBehindOneThatIsComputed) {
    HeardTurn first;
    ask(first, "c", huge(question));
    std::vector<HeardTurn> behind(9);
    for (HeardTurn& turn : behind) ask(turn, "c", "Hello!");
    EXPECT_EQ(behind[8].end().error.code, ErrorCode::overloaded);
    EXPECT_FALSE(first.has_ended());
    EXPECT_NE(first.end().outcome, TurnOutcome::failed);
    for (size_t i = 0; i < 8; ++i) EXPECT_NE(behind[i].end().outcome, TurnOutcome::failed);
    for (HeardTurn& turn : behind) EXPECT_EQ(turn.ends(), 1U);
    expect_as_ever("c", 9);
}

TEST_F(ChatTexts, StagesThatAreStartedAnewMeanwhileCostNoTurn) {
    HeardTurn slow;
    ask(slow, "c", huge(question));
    {
        const std::lock_guard lock(mutex_);
        caf::anon_send_exit(pipeline_.stages.decode, caf::exit_reason::kill);
    }
    EXPECT_EQ(slow.end().outcome, TurnOutcome::stop) << slow.end().error.message;
    EXPECT_EQ(slow.text(), right_answer);
    EXPECT_EQ(starts(), 2);
}

TEST_F(ChatTexts, AnEngineThatEndsMeanwhileEndsEachTurnOnce) {
    const Rendering whole = rendering();
    std::vector<HeardTurn> turns(10);
    for (size_t i = 0; i < turns.size(); ++i) ask(turns[i], i % 2 == 0 ? "c" : "", huge(question));
    const auto before = cpu_time();
    pipeline_ = {};
    engine_.reset();
    EXPECT_LT(cpu_time() - before, 4 * whole.cpu) << "ten times as much, if all were rendered";
    for (HeardTurn& turn : turns) {
        EXPECT_EQ(turn.end().outcome, TurnOutcome::failed);
        EXPECT_EQ(turn.ends(), 1U);
    }
}

TEST_F(ChatTexts, TenThousandAtOnceAreAnsweredOrToldWhenToAskAgain) {
    std::atomic<int> answered{0}, refused{0}, others{0};
    std::atomic<bool> told_when{true};
    for (int i = 0; i < 10'000; ++i) {
        TurnCallbacks callbacks;
        callbacks.on_end = [&](const TurnEnd& end) {
            if (end.outcome != TurnOutcome::failed) {
                ++answered;
            } else if (end.error.code == ErrorCode::overloaded) {
                if (end.error.retry_after_s < 1.0) told_when = false;
                ++refused;
            } else {
                ++others;
            }
        };
        // Some are made at once, and others go to the thread for short texts.
        const std::string text = "Hello!" + std::string(i % 2 == 0 ? 0 : 6000, ' ');
        engine_->ask(chat(i % 3 == 0 ? "c" + std::to_string(i) : "", text, 1), std::move(callbacks));
    }
    const auto deadline = Clock::now() + std::chrono::seconds(120);
    while (answered + refused + others < 10'000 && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(answered + refused, 10'000);
    EXPECT_EQ(others, 0);
    EXPECT_GE(answered, 288);
    EXPECT_GT(refused, 0);
    EXPECT_TRUE(told_when);
    expect_as_ever("after", 0);
}

}  // namespace
}  // namespace rondo

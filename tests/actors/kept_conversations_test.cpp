// Conversations that outlive the process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "actors/engine_inside.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using testing::chat;
using testing::must;
using testing::question;
using testing::right_answer;
using testing::settings_of;

class KeptConversationsTest : public ::testing::Test {
protected:
    KeptConversationsTest() { start(); }
    void start(std::vector<std::string> more = {}) {
        engine_.reset();
        std::vector<std::string> all{"memory.device_kv_mib=8", "devices.cpu.threads=1", "memory.disk.free_mib=0",
                                     "memory.disk.min_tokens=16", "memory.disk.path=" + folder_.path() + "/kv"};
        all.insert(all.end(), more.begin(), more.end());
        engine_ = must(Engine::open(settings_of(all)));
        ASSERT_TRUE(inside(*engine_).store_figures().serves);
    }
    Engine::Reply ask(const std::string& conversation, const std::string& text) {
        return engine_->ask(chat(conversation, text)).get();
    }
    void restart(std::vector<std::string> more = {}) {
        ASSERT_TRUE(engine_->put_away(std::chrono::seconds(10)));
        start(std::move(more));
    }
    std::vector<std::string> listed() {
        std::vector<std::string> ids;
        const ConversationPagePtr page = must(engine_->conversations({"t", "", 100}));
        for (const auto& one : page->conversations) ids.push_back(one.id);
        return ids;
    }
    /// Whether these bytes are in any file of the store's.
    bool is_anywhere(const std::string& bytes) const {
        for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
            if (!entry.is_regular_file()) continue;
            std::ifstream file(entry.path(), std::ios::binary);
            std::stringstream all;
            all << file.rdbuf();
            if (all.str().find(bytes) != std::string::npos) return true;
        }
        return false;
    }

    testing::Folder folder_;
    std::unique_ptr<Engine> engine_;
};

TEST_F(KeptConversationsTest, AreListedAndGoOnAfterARestart) {
    ask("a", "The code of the red box is 4817.");
    ask("b", "Hello!");
    must(engine_->create({"t", "empty"}, {{"system", "Be short."}}));
    const auto before = must(engine_->conversation({"t", "a"}));
    restart();
    EXPECT_EQ(listed(), (std::vector<std::string>{"empty", "b", "a"}));
    const auto after = must(engine_->conversation({"t", "a"}));
    ASSERT_EQ(after->rounds.size(), 1U);
    EXPECT_EQ(after->rounds[0].answer, before->rounds[0].answer);
    EXPECT_EQ(after->tokens, before->tokens);
    EXPECT_EQ(must(engine_->conversation({"t", "empty"}))->preamble.size(), 1U);

    Ask next = chat("a", "What is the code of the red box?");
    next.goes_on = true;
    const Engine::Reply reply = engine_->ask(std::move(next)).get();
    EXPECT_EQ(reply.text, right_answer);
    EXPECT_GT(reply.end.usage.restored_tokens, 16);
    EXPECT_EQ(reply.end.usage.cached_tokens, 0);
    restart();
    EXPECT_EQ(must(engine_->conversation({"t", "a"}))->rounds.size(), 2U);
}

/// A process that is killed in its first turn leaves nothing that a client could go on with.
TEST_F(KeptConversationsTest, AreKeptFromTheirFirstRoundOn) {
    std::promise<void> is_told;
    std::atomic<bool> told = false;
    TurnCallbacks callbacks;
    callbacks.on_delta = [&](const TurnDelta&) {
        if (!told.exchange(true)) is_told.set_value();
    };
    std::promise<void> is_over;
    callbacks.on_end = [&](const TurnEnd&) { is_over.set_value(); };
    Ask endless = chat("canary-of-a-turn", question, 4000);
    endless.options.ignore_eos = true;
    const TurnId turn = engine_->ask(std::move(endless), std::move(callbacks));
    is_told.get_future().wait();
    must(engine_->create({"t", "canary-that-was-made"}, {}));
    while (!is_anywhere("canary-that-was-made")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    auto over = is_over.get_future();
    const bool found = is_anywhere("canary-of-a-turn");
    if (over.wait_for(std::chrono::seconds(0)) == std::future_status::timeout) {
        EXPECT_FALSE(found);
    }
    engine_->cancel(turn);
    over.wait();
    restart();
    EXPECT_EQ(must(engine_->conversation({"t", "canary-of-a-turn"}))->rounds.size(), 1U);
}

TEST_F(KeptConversationsTest, ChangesAreKept) {
    for (const char* text : {"Hello!", "The code of the red box is 4817.", "Thanks."}) ask("a", text);
    must(engine_->fork({"t", "a"}, {"t", "fork"}));
    must(engine_->rewind({"t", "a"}, 2));
    must(engine_->drop({"t", "a"}, {0}));
    restart();
    EXPECT_EQ(must(engine_->conversation({"t", "a"}))->rounds.size(), 1U);
    EXPECT_EQ(must(engine_->conversation({"t", "fork"}))->rounds.size(), 3U);
    const Engine::Reply reply = ask("fork", "What is the code of the red box?");
    EXPECT_GT(reply.end.usage.restored_tokens, 40) << "a fork keeps what it shares";
    EXPECT_EQ(reply.text, right_answer);
}

TEST_F(KeptConversationsTest, RoundsAreStoredOneByOne) {
    for (const char* text : {"Hello!", "The code of the red box is 4817.", "Thanks."}) ask("a", text);
    ASSERT_TRUE(engine_->put_away(std::chrono::seconds(10)));
    EXPECT_EQ(inside(*engine_).store_figures().records, 3U);
    // What is computed anew is cut as it was, so nothing is written twice.
    start({"memory.disk.kv_mib=20480"});
    const Engine::Reply reply = ask("a", question);
    EXPECT_GT(reply.end.usage.restored_tokens, 0);
    ASSERT_TRUE(engine_->put_away(std::chrono::seconds(10)));
    EXPECT_EQ(inside(*engine_).store_figures().records, 4U);
}

TEST_F(KeptConversationsTest, NothingIsLeftOfOneThatIsDeleted) {
    const std::string canary = "Zanzibar";
    ask("a", "The password of " + canary + " is 7391.");
    must(engine_->fork({"t", "a"}, {"t", "fork"}));
    ask("stays", "Hello!");
    ASSERT_TRUE(engine_->put_away(std::chrono::seconds(10)));
    EXPECT_TRUE(is_anywhere(canary));
    const uint64_t records = inside(*engine_).store_figures().records;
    EXPECT_TRUE(must(engine_->remove({"t", "a"})));
    ASSERT_TRUE(engine_->put_away(std::chrono::seconds(10)));
    EXPECT_EQ(inside(*engine_).store_figures().records, records) << "the fork owns it";
    EXPECT_TRUE(must(engine_->remove({"t", "fork"})));
    for (int i = 0; i < 100 && is_anywhere(canary); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(is_anywhere(canary));
    EXPECT_EQ(inside(*engine_).store_figures().records, 1U);
    restart();
    EXPECT_EQ(listed(), std::vector<std::string>{"stays"});
}

TEST_F(KeptConversationsTest, ASessionThatDiesIsReadAgain) {
    ask("a", "The code of the red box is 4817.");
    std::promise<caf::actor> session;
    ASSERT_TRUE(engine_->put_away(std::chrono::seconds(10)));
    caf::scoped_actor self(engine_->system());
    Ask asked = chat("a", "Hello!");
    asked.id = engine_->new_turn_id();
    // What is spawned takes an argument: CAF 0.17 goes through a null pointer for a function without one.
    asked.listener = caf::actor_cast<listener_actor>(self->spawn(
        [&](caf::event_based_actor* own, int) -> caf::behavior {
            return {[&session](const TurnBegun& begun) { session.set_value(begun.session); }, [](const TurnDelta&) {},
                    [own](const TurnEnd&) { own->quit(); }};
        },
        0));
    self->send(engine_->front(), ask_atom::value, AskPtr(std::make_shared<Ask>(std::move(asked))));
    self->send_exit(session.get_future().get(), caf::exit_reason::kill);
    for (int i = 0; i < 200 && inside(*engine_).load().turns > 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(ask("a", "What is the code of the red box?").text, right_answer);
}

}  // namespace
}  // namespace rondo

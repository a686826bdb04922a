// Conversations that outlive the process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "actors/engine_inside.hpp"
#include "actors/field_io.hpp"
#include "memory/store/manifest_keys.hpp"
#include "tests/actors/pipeline_fixture.hpp"
#include "tests/actors/stored_bytes.hpp"
#include "tests/any_file_has.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using testing::Busy;
using testing::chat;
using testing::Heard;
using testing::must;
using testing::question;
using testing::right_answer;
using testing::settings_of;
using testing::Stage;

class KeptConversationsTest : public ::testing::Test {
protected:
    static constexpr std::chrono::seconds patience{60};

    KeptConversationsTest() { start(); }
    Settings settings(const std::vector<std::string>& more = {}) const {
        std::vector<std::string> all{testing::demo_pool(170), "devices.cpu.threads=1", "memory.disk.free_mib=0",
                                     "memory.disk.min_tokens=16", "memory.disk.path=" + folder_.path() + "/kv"};
        all.insert(all.end(), more.begin(), more.end());
        return settings_of(all);
    }
    void start(const std::vector<std::string>& more = {}) {
        engine_.reset();
        EngineInside::Hooks hooks;
        hooks.taken_within_s = 60.0;  // what is stored must come back
        engine_ = must(EngineInside::open(settings(more), {}, std::move(hooks)));
        ASSERT_TRUE(inside(*engine_).store_figures().serves);
    }
    Engine::Reply ask(const std::string& conversation, const std::string& text) {
        return engine_->ask(chat(conversation, text)).get();
    }
    void restart() {
        ASSERT_TRUE(engine_->put_away(patience));
        start();
    }
    /// Of a client who keeps his history himself.
    Engine::Reply send_again(const std::vector<ChatMessage>& history) {
        Ask ask = chat("", "");
        ask.messages = history;
        return engine_->ask(std::move(ask)).get();
    }
    /// That are on the disk, once everything is.
    uint64_t records() {
        EXPECT_TRUE(engine_->put_away(patience));
        return inside(*engine_).store_figures().records;
    }
    std::vector<std::string> listed() {
        std::vector<std::string> ids;
        const ConversationPagePtr page = must(engine_->conversations({"t", "", 100}));
        for (const auto& one : page->conversations) ids.push_back(one.id);
        return ids;
    }
    /// Without an engine, what is on the disk beside KV.
    void with_shelf(const std::function<void(Shelf&)>& use) {
        with_manifest([&](Manifest& manifest) {
            const std::optional<StoreKeys> none;
            Shelf shelf(manifest, none);
            use(shelf);
        });
    }
    void with_manifest(const std::function<void(Manifest&)>& use) {
        engine_.reset();
        const std::unique_ptr<Manifest> manifest = must(Manifest::open(folder_.path() + "/kv/manifest")).manifest;
        use(*manifest);
    }
    /// What is kept of these conversations, by key.
    static std::map<std::string, std::string> all_of(const Manifest& manifest,
                                                     const std::map<std::string, char>& conversations) {
        std::map<std::string, std::string> all;
        for (const auto& [id, own] : conversations)
            for (const char letter : {store::head_letter, store::body_letter, store::refers_letter}) {
                const std::string key = store::key_of(letter, Shelf::name({}, "t", id));
                all[key] = must(manifest.get(key));
            }
        return all;
    }
    /// Who asks for it, or would replace or remove it, hears why not.
    void check_newer(const std::string& id, const std::string& other) {
        Ask next = chat(id, "Hello!");
        next.goes_on = true;
        for (const Error& error :
             {ask(id, "Hello!").end.error, engine_->ask(next).get().end.error, engine_->create({"t", id}, {}).error(),
              engine_->fork({"t", other}, {"t", id}).error(), engine_->conversation({"t", id}).error(),
              engine_->put_away({"t", id}).error(), engine_->remove({"t", id}).error()}) {
            EXPECT_EQ(error.code, ErrorCode::unsupported) << error.message;
            EXPECT_THAT(error.message, ::testing::HasSubstr("a newer version"));
        }
    }
    bool is_anywhere(const std::string& bytes) const { return testing::any_file_has(folder_.path(), bytes); }

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
    const std::string killed = folder_.path() + "/killed";
    engine_.reset();
    {
        Stage stage(settings());
        Heard heard;
        stage.engine().ask(chat("canary-of-a-turn", question), heard.callbacks());
        while (heard.text.empty()) ASSERT_TRUE(stage.run_one());
        Busy busy(stage);  // so the turn is under way until the test lets it end
        caf::anon_send(stage.inside().router(), create_atom::value, ConversationName{"t", "canary-that-was-made"},
                       Preamble());
        busy.run();
        EXPECT_TRUE(is_anywhere("canary-that-was-made"));
        EXPECT_FALSE(is_anywhere("canary-of-a-turn"));
        EXPECT_TRUE(heard.ends.empty());
        fs::copy(folder_.path() + "/kv", killed, fs::copy_options::recursive);
        stage.run();
        EXPECT_EQ(heard.ends.size(), 1U);
        EXPECT_TRUE(is_anywhere("canary-of-a-turn"));
    }
    start({"memory.disk.path=" + killed});
    EXPECT_EQ(listed(), std::vector<std::string>{"canary-that-was-made"});
    start();
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
    EXPECT_EQ(records(), 3U);
    start();
    const Engine::Reply reply = ask("a", question);
    EXPECT_GT(reply.end.usage.restored_tokens, 0);
    EXPECT_EQ(records(), 4U) << "nothing is written twice";
}

/// A history whose KV is lost is computed in one go, and cut as it was.
TEST_F(KeptConversationsTest, RoundsThatAreComputedAgainAreStoredOneByOneToo) {
    for (const char* text : {"Hello!", "The code of the red box is 4817.", "Thanks."}) ask("a", text);
    ASSERT_EQ(records(), 3U);
    engine_.reset();
    for (const auto& entry : fs::directory_iterator(folder_.path() + "/kv"))
        if (entry.path().filename().string().starts_with("kv-")) fs::remove(entry.path());
    start();
    const TurnUsage usage = ask("a", question).end.usage;
    EXPECT_EQ(usage.recomputed_tokens, usage.prompt_tokens) << "all of it is lost";
    EXPECT_EQ(records(), 4U);
    must(engine_->rewind({"t", "a"}, 2));
    EXPECT_EQ(records(), 2U) << "each of them ends with a round";
}

/// Where his answers end his rounds end: who sends his history again and asks something else shares them.
TEST_F(KeptConversationsTest, RoundsOfAHistoryThatIsSentAgainAreStoredOneByOne) {
    std::vector<ChatMessage> history{{"user", "Hello, this is a fine day to remember codes."},
                                     {"assistant", "Good morning. Tell me one of them, please."},
                                     {"user", "The code of the red box is 4817."},
                                     {"assistant", "I shall remember what the red one has."},
                                     {"user", question}};
    send_again(history);
    EXPECT_EQ(records(), 3U) << "one for each answer";
    history.back().content = "Where does Ann live?";
    const int64_t shared = send_again(history).end.usage.cached_tokens;
    EXPECT_GT(shared, 32);
    EXPECT_EQ(records(), 4U) << "its last round alone is written";
    start();
    history.back().content = "What did Tom lose?";
    EXPECT_EQ(send_again(history).end.usage.restored_tokens, shared) << "up to the end of the second answer";
}

TEST_F(KeptConversationsTest, NothingIsLeftOfOneThatIsDeleted) {
    const std::string canary = "Zanzibar";
    ask("a", "The password of " + canary + " is 7391.");
    must(engine_->fork({"t", "a"}, {"t", "fork"}));
    ask("stays", "Hello!");
    ASSERT_TRUE(engine_->put_away(patience));
    EXPECT_TRUE(is_anywhere(canary));
    const uint64_t records = inside(*engine_).store_figures().records;
    EXPECT_TRUE(must(engine_->remove({"t", "a"})));
    ASSERT_TRUE(engine_->put_away(patience));
    EXPECT_EQ(inside(*engine_).store_figures().records, records) << "the fork owns it";
    EXPECT_TRUE(must(engine_->remove({"t", "fork"})));
    for (int i = 0; i < 100 && is_anywhere(canary); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(is_anywhere(canary));
    EXPECT_EQ(inside(*engine_).store_figures().records, 1U);
    restart();
    EXPECT_EQ(listed(), std::vector<std::string>{"stays"});
}

/// What stood before them is still the conversation's.
TEST_F(KeptConversationsTest, RoundsBeforeOneThatIsDroppedStay) {
    for (const char* text : {"The code of the red box is 4817.", "Hello!", "Thanks."}) ask("a", text);
    ASSERT_EQ(records(), 3U);
    must(engine_->drop({"t", "a"}, {1}));
    EXPECT_EQ(records(), 1U);
    must(engine_->put_away({"t", "a"}));
    EXPECT_GT(ask("a", "What is the code of the red box?").end.usage.restored_tokens, 0);
}

TEST_F(KeptConversationsTest, AreListedAsTheyWereWhenATurnEndsBeforeTheyAreRead) {
    ask("a", "The code of the red box is 4817.");
    const ConversationFigures before = must(engine_->conversations({"t", "", 1}))->conversations.at(0).figures;
    engine_.reset();
    Stage stage(settings());
    Heard heard;
    stage.engine().cancel(stage.engine().ask(chat("a", "Hello!"), heard.callbacks()));
    stage.run();
    ASSERT_EQ(heard.ends.at(0).outcome, TurnOutcome::cancelled);
    ConversationPagePtr page;
    const auto client = [&page](caf::event_based_actor* self, const front_actor& front) {
        self->request(front, caf::infinite, list_atom::value, PageOf{"t", "", 1})
            .then([&page](const ConversationPagePtr& all) { page = all; });
    };
    stage.system().spawn(client, stage.engine().front());
    stage.run();
    const ConversationFigures& after = page->conversations.at(0).figures;
    EXPECT_EQ(after.title, before.title);
    EXPECT_EQ(after.rounds, 1);
    EXPECT_EQ(after.tokens, before.tokens);
    EXPECT_EQ(after.bytes, before.bytes);
}

/// An older server is started on the folder of a newer one.
TEST_F(KeptConversationsTest, OfANewerVersionAreNeitherReadNorReplaced) {
    ask("a", "Hello!");
    ask("b", "Hello!");
    std::vector<std::byte> body;
    StoreName name{};
    with_shelf([&](Shelf& shelf) {
        name = shelf.name("t", "a");
        body = must(shelf.body(name));
        const std::vector<std::byte> head = testing::with_number(must(shelf.head(name)), 0, stored_version + 1);
        ASSERT_TRUE(shelf.put(name, KvStore::tenant_name({}, "t"), head, body, must(shelf.records(name))));
    });
    start();
    EXPECT_EQ(listed(), std::vector<std::string>{"b"});
    check_newer("a", "b");
    with_shelf([&](Shelf& shelf) {
        EXPECT_EQ(must(shelf.body(name)), body);
        EXPECT_EQ(read_head(must(shelf.head(name))).error().code, ErrorCode::unsupported);
    });
}

/// It may put what it keeps there in another form. Of "head" it has written the head, and so on.
TEST_F(KeptConversationsTest, OfANewerVersionsFormAreNeitherReadNorReplaced) {
    const std::map<std::string, char> letters{
        {"head", store::head_letter}, {"body", store::body_letter}, {"list", store::refers_letter}};
    for (const auto& [id, letter] : letters) ask(id, "Hello!");
    ask("old", "Hello!");
    ASSERT_TRUE(engine_->put_away(patience));
    std::map<std::string, std::string> values;
    with_manifest([&](Manifest& manifest) {
        Manifest::Changes changes;
        for (const auto& [id, letter] : letters) {
            const std::string key = store::key_of(letter, Shelf::name({}, "t", id));
            std::string value = must(manifest.get(key));
            value[0] = 3;
            changes.put(key, value);
        }
        ASSERT_TRUE(manifest.commit(std::move(changes)));
        values = all_of(manifest, letters);
    });
    start();
    EXPECT_EQ(listed(), std::vector<std::string>{"old"});
    for (const auto& [id, letter] : letters) check_newer(id, "old");
    ASSERT_TRUE(engine_->put_away(patience));
    with_manifest([&](Manifest& manifest) { EXPECT_EQ(all_of(manifest, letters), values); });
}

/// By whatever path: else the second would take away what the first one writes.
TEST_F(KeptConversationsTest, OneEngineHasTheFolder) {
    ask("a", "Hello!");
    std::vector<std::string> said;
    Engine::Options options;
    options.log = [&](const std::string& line) {
        said.push_back(line);
        throw std::runtime_error("a host must not");
    };
    const auto second = must(Engine::open(settings({"memory.disk.path=" + folder_.path() + "/./kv"}), options));
    EXPECT_FALSE(inside(*second).store_figures().serves);
    EXPECT_THAT(said, ::testing::ElementsAre(::testing::HasSubstr("another engine of this process has this store")));
    EXPECT_FALSE(second->put_away(patience)) << "nothing is on the disk";
    restart();
    EXPECT_EQ(listed(), std::vector<std::string>{"a"});
}

TEST_F(KeptConversationsTest, ASessionThatDiesIsReadAgain) {
    ask("a", "The code of the red box is 4817.");
    std::promise<caf::actor> session;
    ASSERT_TRUE(engine_->put_away(patience));
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

// A disk that cannot be used, a store that dies, and what leaves it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/actors/store_actor_fixture.hpp"
#include "tests/any_file_has.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::question;
using testing::settings_of;
using testing::Stage;
using testing::StoreActorTest;

TEST_F(StoreActorTest, AFolderThatCannotBeUsedIsSaidAndServingGoesOn) {
    std::ofstream(folder_.path() + "/kv") << "a file";
    std::vector<std::string> log;
    Engine::Options options;
    options.log = [&](const std::string& line) { log.push_back(line); };
    stage_.emplace(settings_of(overrides()), std::move(options));
    EXPECT_FALSE(figures().serves);
    EXPECT_THAT(log, ::testing::ElementsAre(::testing::HasSubstr("must be a folder")));
    EXPECT_EQ(turn(continue_ids(some_ids(40), 4)).ids.size(), 4U);
}

/// Who removes it, or puts another in its place, is told; serving goes on, and nothing is said to be kept any more.
TEST_F(StoreActorTest, AFolderThatIsRemovedEndsTheStoreAndServingGoesOn) {
    const std::string path = folder_.path() + "/kv", elsewhere = path + "-elsewhere";
    const std::function<void()> removals[] = {
        [&] { std::filesystem::rename(path, elsewhere); },
        [&] {
            std::filesystem::rename(path, elsewhere);
            std::filesystem::create_directory(path);
        },
        [&] { std::filesystem::remove_all(path + "/manifest"); },
        [&] {
            for (const auto& entry : std::filesystem::directory_iterator(path))
                if (entry.path().filename().string().starts_with("kv-")) std::filesystem::remove(entry.path());
        },
    };
    for (const auto& remove : removals) {
        std::vector<std::string> log;
        Engine::Options options;
        options.log = [&](const std::string& line) { log.push_back(line); };
        stage_.reset();
        stage_.emplace(settings_of(overrides(testing::demo_in_f32(170))), std::move(options));
        const Heard first = turn(continue_ids(some_ids(100), 4));
        wait_until_written();
        ASSERT_TRUE(figures().serves);
        ASSERT_THAT(log, ::testing::IsEmpty());
        remove();
        EXPECT_EQ(turn(continue_ids(some_ids(150), 4)).ids.size(), 4U);
        run_until([&] { return !figures().serves; });
        EXPECT_THAT(log, ::testing::ElementsAre(::testing::HasSubstr("was removed or replaced")));
        EXPECT_EQ(turn(continue_ids(some_ids(100), 4)).ids, first.ids);
        stage_.reset();
        for (const std::string& left : {path, elsewhere}) std::filesystem::remove_all(left);
    }
}

/// What was kept and never asked for since the start is not there any more; everything else goes on.
TEST_F(StoreActorTest, WithoutItsStoreAConversationThatWasNotReadIsNotThere) {
    start();
    for (const char* name : {"a", "b", "c"}) turn(chat(name, question));
    wait_until_written();
    start();
    const Heard read = turn(chat("a", question));
    EXPECT_NE(read.ends.at(0).outcome, TurnOutcome::failed);
    caf::anon_send_exit(stage_->inside().store(), caf::exit_reason::kill);
    run_until([&] { return !figures().serves; });
    Ask on = chat("b", question);
    on.goes_on = true;
    const Heard lost = turn(on);
    EXPECT_EQ(lost.ends.at(0).error.code, ErrorCode::not_found);
    EXPECT_THAT(lost.ends.at(0).error.message, ::testing::HasSubstr("because the store died"));
    EXPECT_NE(turn(chat("c", question)).ends.at(0).outcome, TurnOutcome::failed) << "it begins anew";
    on = chat("a", question);
    on.goes_on = true;
    EXPECT_NE(turn(on).ends.at(0).outcome, TurnOutcome::failed);
    EXPECT_TRUE(answer<bool>(drain_atom::value)) << "nothing is left to be written";
    EXPECT_TRUE((failed<int64_t>(away_atom::value, ConversationName{"t", "a"})));
    EXPECT_TRUE(answer<bool>(remove_atom::value, ConversationName{"t", "c"})) << "it was never on the disk";
    for (const char* name : {"a", "b", "a"}) {
        const Result<bool> removed = asked<bool>(remove_atom::value, ConversationName{"t", name});
        ASSERT_FALSE(removed) << "nobody takes it off the disk";
        EXPECT_EQ(removed.error().code, ErrorCode::io);
    }
    start();
    on = chat("b", question);
    on.goes_on = true;
    EXPECT_NE(turn(on).ends.at(0).outcome, TurnOutcome::failed) << "the next start finds it";
}

/// On a server that puts nothing away, too.
TEST_F(StoreActorTest, WhatWasNotUsedForTooLongGoes) {
    Settings settings = settings_of(overrides());
    settings.memory.disk.unused_s = 1;  // a pipeline file must say a minute at least
    stage_.emplace(settings);
    turn(chat("a", question));
    wait_until_written();
    ASSERT_GT(figures().records, 0U);
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));  // by the clock of people: it holds across starts
    stage_->pass(std::chrono::minutes(11));
    run_until([&] { return figures().records == 0; });
    EXPECT_GT(figures().expired, 0);
    turn(chat("a", question));
    wait_until_written();
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    stage_.reset();
    stage_.emplace(settings);
    stage_->run();
    EXPECT_GT(figures().records, 0U) << "a machine that starts may not know the time yet";
    stage_->pass(std::chrono::minutes(11));
    run_until([&] { return figures().records == 0; });
}

/// One that was kept would leave the disk for good.
TEST_F(StoreActorTest, NobodyLeavesByAgeWhileTheClockMayBeWrong) {
    start({"server.conversation_idle_s=60"});
    turn(chat("a", question));
    wait_until_written();
    start({"server.conversation_idle_s=60"});
    const auto conversations = [this] { return stage_->inside().load().conversations.load(); };
    stage_->pass(std::chrono::minutes(9));
    EXPECT_EQ(conversations(), 1U);
    stage_->pass(std::chrono::minutes(2));
    EXPECT_EQ(conversations(), 1U) << "it was used a moment ago, by the clock as it is now";
    stage_->pass(std::chrono::minutes(2));
    EXPECT_EQ(conversations(), 0U);
}

/// Nobody waits for that: it is done with the next look at what is old.
TEST_F(StoreActorTest, OfWhatLeftByAgeNoFileHasAnythingLater) {
    const std::string canary = "Zanzibar", folder = folder_.path() + "/kv";
    start({"server.conversation_idle_s=60"});
    stage_->pass(std::chrono::minutes(11));  // what had left before the start is forgotten once
    stage_->pass(std::chrono::seconds(4));
    turn(chat("a", "The password of " + canary + " is 7391."));
    wait_until_written();
    ASSERT_GT(figures().records, 0U);
    stage_->pass(std::chrono::minutes(2));
    run_until([&] { return figures().records == 0; });
    EXPECT_EQ(stage_->inside().load().left_by_age, 1);
    EXPECT_TRUE(testing::any_file_has(folder, canary)) << "nothing is tested";
    stage_->pass(std::chrono::minutes(10));
    stage_->pass(std::chrono::seconds(4));
    EXPECT_FALSE(testing::any_file_has(folder, canary));
}

/// Who leaves by itself leaves the disk too.
TEST_F(StoreActorTest, WhatLeavesByNumberLeavesTheDisk) {
    start({"server.conversations_max=2"});
    for (const char* name : {"a", "b"}) turn(chat(name, question));
    wait_until_written();
    EXPECT_EQ(figures().conversations, 2U);
    const size_t records = figures().records;
    turn(chat("c", "Hello!"));
    wait_until_written();
    EXPECT_EQ(figures().conversations, 2U);
    start({"server.conversations_max=2"});
    EXPECT_EQ(figures().conversations, 2U);
    Ask on = chat("a", question);
    on.goes_on = true;
    EXPECT_EQ(turn(on).ends.at(0).error.code, ErrorCode::not_found);
    on = chat("b", question);
    on.goes_on = true;
    EXPECT_NE(turn(on).ends.at(0).outcome, TurnOutcome::failed);
    EXPECT_GE(records, 1U);
}

/// Who waits for what it would do is answered when it dies.
TEST_F(StoreActorTest, ADeadStoreKeepsNobodyWaiting) {
    start();
    Heard heard;
    stage_->engine().ask(chat("a", question), heard.callbacks());
    stage_->run();  // and nobody takes up what the device has copied
    ASSERT_EQ(heard.ends.size(), 1U);
    ASSERT_EQ(figures().queue_sequences, 1);
    ASSERT_GT(figures().queue_bytes, 0U);
    std::optional<bool> away;
    const auto host = [&away](caf::event_based_actor* self, const front_actor& front) {
        self->request(front, caf::infinite, away_atom::value, ConversationName{"t", "a"})
            .then([&away](int64_t) { away = true; }, [&away](const caf::error&) { away = false; });
    };
    stage_->system().spawn(host, stage_->engine().front());
    stage_->run();
    ASSERT_FALSE(away.has_value());
    caf::anon_send_exit(stage_->inside().store(), caf::exit_reason::kill);
    run_until([&] { return away.has_value(); });
    EXPECT_EQ(figures().queue_sequences, 0);
    EXPECT_EQ(figures().queue_bytes, 0U);
    EXPECT_EQ(turn(continue_ids(some_ids(40), 4)).ids.size(), 4U);
}

/// Its first turn may still fail: then a conversation would be on the disk in which nothing was ever said.
TEST_F(StoreActorTest, ATitleKeepsNoConversationThatHasNotBegun) {
    start();
    const ConversationName name{"t", "c"};
    Heard heard;
    stage_->engine().ask(chat("c", question), heard.callbacks());
    testing::Busy busy(*stage_);
    busy.run();
    std::string title;
    const auto host = [&](caf::event_based_actor* self, const front_actor& front) {
        self->request(front, caf::infinite, title_atom::value, name, std::string("Boxes"))
            .then([&title](const ConversationInfoPtr& info) { title = info->title; });
    };
    stage_->system().spawn(host, stage_->engine().front());
    busy.run();
    ASSERT_EQ(title, "Boxes");
    ASSERT_TRUE(heard.ends.empty());
    EXPECT_EQ(figures().conversations, 0U);
    run_until([&heard] { return !heard.ends.empty(); });
    wait_until_written();
    EXPECT_EQ(figures().conversations, 1U);
    start();
    const auto kept = answer<ConversationInfoPtr>(list_atom::value, name);
    EXPECT_EQ(kept->title, "Boxes");
    EXPECT_EQ(kept->rounds.size(), 1U);
}

/// It is being read when it is deleted: who asked for it hears so at once.
TEST_F(StoreActorTest, WhoWaitsForAConversationThatIsRemovedIsTold) {
    start();
    turn(chat("a", question));
    wait_until_written();
    start();
    std::optional<Error> told;
    const auto host = [&told](caf::event_based_actor* self, const front_actor& front) {
        self->request(front, caf::infinite, list_atom::value, ConversationName{"t", "a"})
            .then([](const ConversationInfoPtr&) {},
                  [&told](const caf::error& error) { told = from_caf(error, "the router"); });
        self->request(front, caf::infinite, remove_atom::value, ConversationName{"t", "a"}).then([](bool) {});
    };
    stage_->system().spawn(host, stage_->engine().front());
    while (!told && stage_->run_one()) {
    }
    ASSERT_TRUE(told.has_value());
    EXPECT_EQ(told->code, ErrorCode::not_found);
}

}  // namespace
}  // namespace rondo

#include "actors/gateway/list_desk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::Heard;
using testing::small_settings;
using testing::Stage;

/// Who was answered with what, in order.
using Answers = std::vector<std::pair<std::string, int>>;

struct Reply : HttpReply {
    Reply(std::string whose, Answers& answers) : whose(std::move(whose)), answers(answers) {}
    void send(int status, HttpHeaders, std::string) override { answers.emplace_back(whose, status); }
    void begin(int, HttpHeaders) override {}
    bool write(std::string) override { return true; }
    void finish() override {}
    void on_gone(std::function<void()>) override {}
    const std::string whose;
    Answers& answers;
};

class ListDeskTest : public ::testing::Test {
protected:
    ~ListDeskTest() override {
        caf::anon_send_exit(desk_, caf::exit_reason::user_shutdown);
        desk_ = nullptr;
        stage_.run();
    }
    list_desk_actor desk(bool several_tenants) {
        return stage_.system().spawn<ListDesk>(stage_.engine().front(), stage_.inside().load(), several_tenants);
    }
    void list(const Tenant& tenant) {
        auto exchange =
            std::make_shared<Exchange>(HttpRequest{}, std::make_shared<Reply>(tenant, answers_), LogTo{}, "");
        caf::anon_send(desk_, list_atom::value,
                       ListJobPtr(std::make_shared<ListJob>(ListJob{std::move(exchange), {tenant, "", 20}})));
    }

    Stage stage_{small_settings()};
    Answers answers_;
    list_desk_actor desk_ = desk(false);
};

TEST_F(ListDeskTest, ServesTenantsInTurn) {
    for (int i = 0; i < 5; ++i) list("many");
    list("few");
    stage_.run();
    ASSERT_EQ(answers_.size(), 6U);
    EXPECT_TRUE(std::ranges::all_of(answers_, [](const auto& one) { return one.second == 200; }));
    const auto few = std::ranges::find(answers_, "few", [](const auto& one) { return one.first; });
    EXPECT_LE(few - answers_.begin(), 2) << "behind one or two of the other's, not behind all";
}

TEST_F(ListDeskTest, RefusesWhatIsTooMuch) {
    for (int i = 0; i < 1'100; ++i) list("t");
    stage_.run();
    ASSERT_EQ(answers_.size(), 1'100U);
    const auto served = std::ranges::count(answers_, 200, [](const auto& one) { return one.second; });
    EXPECT_GE(served, 1'024);
    EXPECT_LE(served, 1'026);
    EXPECT_EQ(std::ranges::count(answers_, 429, [](const auto& one) { return one.second; }), 1'100 - served);
    list("t");
    stage_.run();
    EXPECT_EQ(answers_.back().second, 200);
}

TEST_F(ListDeskTest, ATenantWhoAsksForTooManyLeavesRoomForOthers) {
    caf::anon_send_exit(desk_, caf::exit_reason::user_shutdown);
    desk_ = desk(true);
    for (int i = 0; i < 1'100; ++i) list("many");
    list("few");
    stage_.run();
    ASSERT_EQ(answers_.size(), 1'101U);
    const auto few = std::ranges::find(answers_, "few", [](const auto& one) { return one.first; });
    EXPECT_EQ(few->second, 200);
    EXPECT_GT(std::ranges::count(answers_, 429, [](const auto& one) { return one.second; }), 100);
}

TEST_F(ListDeskTest, RestsBetweenListsWhileATurnIsUnderWay) {
    Heard heard;
    stage_.engine().ask(chat("c", "Hello!"), heard.callbacks());
    testing::Busy busy(stage_);  // so that the turn stays under way
    busy.run();
    for (int i = 0; i < 3; ++i) list("t");
    busy.run();
    EXPECT_EQ(answers_.size(), 1U);
    busy.pass(std::chrono::milliseconds(2));
    EXPECT_EQ(answers_.size(), 2U);
    busy.pass(std::chrono::milliseconds(2));
    EXPECT_EQ(answers_.size(), 3U);
    stage_.run();
    EXPECT_EQ(heard.ends.size(), 1U);
}

TEST_F(ListDeskTest, RestsForAMomentAfterATurn) {
    Heard heard;
    stage_.engine().ask(chat("c", "Hello!"), heard.callbacks());
    testing::Busy busy(stage_);
    busy.run();
    list("t");
    busy.run();
    stage_.run();
    ASSERT_EQ(heard.ends.size(), 1U);
    const size_t before = answers_.size();
    for (int i = 0; i < 3; ++i) list("t");
    busy.run();
    EXPECT_LT(answers_.size(), before + 3) << "another turn may come at once";
    busy.pass(std::chrono::milliseconds(200));
    EXPECT_EQ(answers_.size(), before + 3);
    for (int i = 0; i < 3; ++i) list("t");
    busy.run();
    EXPECT_EQ(answers_.size(), before + 6) << "nobody talks any more";
}

}  // namespace
}  // namespace rondo

#include "actors/conversation_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/actors/pipeline_fixture.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::must;

using Names = std::vector<ConversationName>;

ConversationTable table(size_t count, size_t bytes = 1'000'000, bool several = false, double idle_s = 0.0) {
    return ConversationTable({count, bytes, idle_s, several});
}

void fill(ConversationTable& all, const Tenant& tenant, int count, double from = 0.0) {
    for (int i = 0; i < count; ++i) all.add({tenant, std::to_string(i)}, {}, {1, 1, 10}, from + i);
}

std::vector<std::string> ids(const ConversationPage& page) {
    std::vector<std::string> ids;
    for (const ListedConversation& one : page.conversations) ids.push_back(one.id);
    return ids;
}

TEST(ConversationTable, ListsTheNewestFirstByPages) {
    ConversationTable all = table(100);
    fill(all, "t", 5);
    fill(all, "u", 1);
    all.used({"t", "0"}, 100.0);  // changes who leaves, not who is listed where
    const ConversationPage first = must(all.page({"t", "", 2}));
    EXPECT_THAT(ids(first), ElementsAre("4", "3"));
    EXPECT_TRUE(first.has_more);
    all.remove({"t", "2"}, ConversationTable::Left::deleted);
    EXPECT_THAT(ids(must(all.page({"t", "3", 2}))), ElementsAre("1", "0"));
    EXPECT_FALSE(must(all.page({"t", "3", 2})).has_more);
    EXPECT_THAT(ids(must(all.page({"t", "0", 2}))), IsEmpty());
    EXPECT_THAT(ids(must(all.page({"nobody", "", 2}))), IsEmpty());
    EXPECT_THAT(ids(must(all.page({"t", "2", 2}))), ElementsAre("1", "0")) << "it has left while the list was read";
    EXPECT_THAT(all.page({"t", "never", 2}).error().message, HasSubstr("names no conversation"));
    EXPECT_THAT(all.page({"u", "3", 2}).error().message, HasSubstr("names no conversation")) << "another tenant's";
    EXPECT_THAT(all.page({"u", "2", 2}).error().message, HasSubstr("names no conversation")) << "another tenant's";
    EXPECT_EQ(must(all.page({"t", "", 0})).conversations.size(), 1U) << "a page without any would never end";
}

TEST(ConversationTable, TheOneUsedLongestAgoLeavesForAnother) {
    ConversationTable all = table(3);
    fill(all, "t", 3);
    all.used({"t", "0"}, 50.0);
    EXPECT_EQ(must(all.room_for("t", {1, 10})), (Names{{"t", "1"}}));
    all.begin_turn({"t", "1"}, 60.0);
    EXPECT_EQ(must(all.room_for("t", {1, 10})), (Names{{"t", "2"}})) << "a turn is under way";
    all.end_turn({"t", "1"}, 70.0);
    all.remove({"t", "2"}, ConversationTable::Left::room);
    EXPECT_THAT(must(all.room_for("t", {1, 10})), IsEmpty());
    EXPECT_EQ(all.totals().count, 2U);
    EXPECT_EQ(all.totals().bytes, 20U);
}

TEST(ConversationTable, NobodyLeavesWhereThatGivesNoRoom) {
    ConversationTable all = table(2);
    fill(all, "t", 2);
    for (const char* id : {"0", "1"}) all.begin_turn({"t", id}, 5.0);
    EXPECT_EQ(all.room_for("t", {1, 10}).error().code, ErrorCode::overloaded);
    const ConversationName own{"t", "0"};
    all.end_turn(own, 6.0);
    EXPECT_EQ(all.room_for("t", {1, 10}, &own).error().code, ErrorCode::overloaded) << "it is to go on";
    EXPECT_EQ(all.room_for("t", {1, 2'000'000}).error().code, ErrorCode::out_of_range) << "and no time will help";
}

TEST(ConversationTable, TextsTakeRoomToo) {
    ConversationTable all = table(100, 1'000);
    fill(all, "t", 3);
    all.grew({"t", "1"}, {5, 2, 800});
    EXPECT_EQ(all.totals().bytes, 820U);
    EXPECT_THAT(must(all.room_for("t", {0, 180})), IsEmpty());
    EXPECT_EQ(must(all.room_for("t", {0, 190})), (Names{{"t", "0"}}));
    EXPECT_EQ(must(all.room_for("t", {1, 500})), (Names{{"t", "0"}, {"t", "1"}}));
    all.grew({"t", "1"}, {1, 1, 10});
    EXPECT_EQ(all.held_by("t").bytes, 30U);
}

/// A tenant's conversations leave for his own; another's only from what is above an equal share.
TEST(ConversationTable, TenantsLeaveEachOtherTheirShare) {
    ConversationTable all = table(10, 1'000'000, true);
    fill(all, "many", 8);
    EXPECT_EQ(must(all.room_for("many", {1, 10})).front(), (ConversationName{"many", "0"})) << "a fifth stays free";
    fill(all, "few", 2);
    // The table is full: the late one takes from who holds more than five, the other one never from him.
    for (const char* id : {"0", "1"}) all.begin_turn({"few", id}, 20.0);
    EXPECT_EQ(must(all.room_for("few", {1, 10})), (Names{{"many", "0"}}));
    for (int i = 0; i < 8; ++i) all.begin_turn({"many", std::to_string(i)}, 20.0);
    EXPECT_FALSE(all.room_for("many", {1, 10}).is_ok());
    for (const char* id : {"0", "1"}) all.end_turn({"few", id}, 30.0);
    EXPECT_FALSE(all.room_for("many", {1, 10}).is_ok()) << "the other holds less than his share";
}

TEST(ConversationTable, TheOldLeaveByAge) {
    ConversationTable all = table(10, 1'000'000, false, 60.0);
    EXPECT_FALSE(all.next_too_old().has_value());
    fill(all, "t", 2, 100.0);
    EXPECT_EQ(all.next_too_old(), 160.0);
    EXPECT_THAT(all.too_old(159.0), IsEmpty());
    EXPECT_EQ(all.too_old(160.0), (Names{{"t", "0"}}));
    all.begin_turn({"t", "0"}, 150.0);
    EXPECT_EQ(all.too_old(1e9), (Names{{"t", "1"}})) << "a turn is under way";
    EXPECT_THAT(table(10).too_old(1e9), IsEmpty());
}

TEST(ConversationTable, TellsWhyOneIsNotThere) {
    ConversationTable all = table(10);
    const auto why = [&](const char* id) { return all.missing({"t", id}).message; };
    fill(all, "t", 4);
    all.remove({"t", "0"}, ConversationTable::Left::age);
    all.remove({"t", "1"}, ConversationTable::Left::room);
    all.remove({"t", "2"}, ConversationTable::Left::deleted);
    EXPECT_THAT(why("0"), HasSubstr("not used for too long"));
    EXPECT_THAT(why("1"), HasSubstr("make room"));
    EXPECT_THAT(why("2"), HasSubstr("deleted"));
    EXPECT_THAT(why("never"), HasSubstr("no conversation of that id"));
    EXPECT_THAT(all.missing({"another", "0"}).message, HasSubstr("no conversation of that id"));
    for (int i = 0; i < 20'000; ++i) {  // what is known of the departed is bounded
        all.add({"t", "n" + std::to_string(i)}, {}, {}, 0.0);
        all.remove({"t", "n" + std::to_string(i)}, ConversationTable::Left::room);
    }
    EXPECT_THAT(why("0"), HasSubstr("no conversation of that id"));
    EXPECT_THAT(why("n19999"), HasSubstr("make room"));
}

/// Whatever happens, sums are those of what is there, plans make the room they promise, and take from nobody below his
/// share but his own.
TEST(ConversationTable, KeepsItsPromisesWhateverHappens) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        std::mt19937_64 random(seed);
        const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
        ConversationTable all = table(30, 3'000, true);
        std::map<ConversationName, std::pair<size_t, size_t>> there;  // bytes, turns
        for (int step = 0; step < 2'000; ++step) {
            const ConversationName name{std::string(1, "abc"[below(3)]), std::to_string(below(20))};
            const auto known = there.find(name);
            if (known == there.end()) {
                const size_t bytes = 1 + below(200);
                const auto leaving = all.room_for(name.tenant, {1, bytes});
                if (!leaving) continue;
                size_t tenants = 1;
                std::map<Tenant, std::pair<size_t, size_t>> held;
                for (const auto& [other, what] : there) {
                    held[other.tenant].first += 1;
                    held[other.tenant].second += what.first;
                }
                tenants = held.size() + (held.contains(name.tenant) ? 0 : 1);
                for (const ConversationName& gone : *leaving) {
                    ASSERT_EQ(there.at(gone).second, 0U) << "seed " << seed;
                    if (gone.tenant != name.tenant) {
                        const auto [count, sum] = held.at(gone.tenant);
                        ASSERT_TRUE(count * tenants > 30 || sum * tenants > 3'000) << "seed " << seed;
                    }
                    held.at(gone.tenant).first -= 1;
                    held.at(gone.tenant).second -= there.at(gone).first;
                    there.erase(gone);
                    all.remove(gone, ConversationTable::Left::room);
                }
                all.add(name, {}, {0, 0, bytes}, step);
                there[name] = {bytes, 0};
                ASSERT_LE(all.totals().count, 30U);
                ASSERT_LE(all.totals().bytes, 3'000U);
            } else if (const size_t what = below(4); what == 0) {
                all.begin_turn(name, step);
                ++known->second.second;
            } else if (what == 1 && known->second.second > 0) {
                all.end_turn(name, step);
                --known->second.second;
            } else if (what == 2) {
                known->second.first = below(100);
                all.grew(name, {0, 0, known->second.first});
            } else if (what == 3 && below(4) == 0) {
                all.remove(name, ConversationTable::Left::deleted);
                there.erase(known);
            }
            size_t sum = 0;
            for (const auto& [one, held] : there) sum += held.first;
            ASSERT_EQ(all.totals().bytes, sum) << "seed " << seed;
            ASSERT_EQ(all.totals().count, there.size()) << "seed " << seed;
        }
    }
}

}  // namespace
}  // namespace rondo

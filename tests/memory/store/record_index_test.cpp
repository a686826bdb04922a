#include "memory/store/record_index.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace rondo {
namespace {

StoreName name_of(uint64_t number) {
    StoreName name{};
    std::memcpy(name.data(), &number, sizeof(number));
    return name;
}

StoredRecord record(uint64_t number, uint64_t before, double saved = 1.0, uint64_t bytes = 4096, uint64_t tenant = 1) {
    StoredRecord made;
    made.name = name_of(number);
    made.before = name_of(before);
    made.tenant = name_of(tenant);
    made.tokens = 16;
    made.layers = 1;
    made.place.bytes = bytes;
    made.saved_seconds = saved;
    return made;
}

const RecordIndex::MayGo anybody = [](const StoredRecord&) { return true; };

/// Worth more than anything else.
StoredRecord newcomer() {
    return record(999'999'999, 0, 1e12);
}

/// Takes out who goes next, if anybody does.
RecordIndex::Room take_next(RecordIndex& index) {
    const RecordIndex::Limit a_byte{nullptr, 1, 0};
    return index.make_room(newcomer(), {&a_byte, 1}, anybody);
}

std::vector<StoreName> names_of(const RecordIndex::Room& room) {
    std::vector<StoreName> names;
    for (const RecordIndex::Taken& one : room.taken) names.push_back(one.record.name);
    return names;
}

TEST(RecordIndex, CountsWhatThereIs) {
    RecordIndex index;
    EXPECT_TRUE(index.add(record(1, 0, 1.0, 100, 7)));
    EXPECT_TRUE(index.add(record(2, 1, 1.0, 200, 7)));
    EXPECT_TRUE(index.add(record(3, 0, 1.0, 400, 8)));
    EXPECT_FALSE(index.add(record(2, 0, 9.0, 900, 8))) << "there is one of that name";
    EXPECT_EQ(index.bytes(), 700U);
    EXPECT_EQ(index.bytes_of(name_of(7)), 300U);
    EXPECT_EQ(index.bytes_of(name_of(9)), 0U);
    EXPECT_TRUE(index.remove(name_of(2)));
    EXPECT_FALSE(index.remove(name_of(2)));
    EXPECT_EQ(index.bytes_of(name_of(7)), 100U);
    EXPECT_EQ(index.count(), 2U);
}

TEST(RecordIndex, WhatOthersStandBehindDoesNotGo) {
    RecordIndex index;
    index.add(record(1, 0, 0.1));
    index.add(record(2, 1, 5.0));
    index.add(record(3, 2, 9.0));
    EXPECT_EQ(index.next_to_go(newcomer(), nullptr, anybody)->name, name_of(3));
    index.remove(name_of(3));
    EXPECT_EQ(index.next_to_go(newcomer(), nullptr, anybody)->name, name_of(2));
    index.remove(name_of(1));  // by its owner, from the middle
    EXPECT_EQ(index.next_to_go(newcomer(), nullptr, anybody)->name, name_of(2));
    index.add(record(1, 0, 0.1));
    EXPECT_EQ(index.next_to_go(newcomer(), nullptr, anybody)->name, name_of(2)) << "it is before the other again";
}

TEST(RecordIndex, WhatWasUsedGoesLaterOnceOthersHaveGone) {
    RecordIndex index;
    index.add(record(1, 0, 2.0));
    index.add(record(2, 0, 3.0));
    const RecordIndex::Room room = take_next(index);
    EXPECT_EQ(names_of(room), std::vector{name_of(1)});
    index.gone(room);
    index.add(record(3, 0, 2.0));  // as little worth as what has gone, but younger
    EXPECT_EQ(index.next_to_go(newcomer(), nullptr, anybody)->name, name_of(2));
    index.use(name_of(2), 5);
    EXPECT_EQ(index.next_to_go(newcomer(), nullptr, anybody)->name, name_of(3));
    EXPECT_EQ(index.find(name_of(2))->used_at, 5);
}

TEST(RecordIndex, NobodyGoesForWhatIsWorthLess) {
    RecordIndex index;
    index.add(record(1, 0, 2.0));
    EXPECT_EQ(index.next_to_go(record(9, 0, 1.0), nullptr, anybody), nullptr);
    EXPECT_NE(index.next_to_go(record(9, 0, 2.0), nullptr, anybody), nullptr);
    EXPECT_NE(index.next_to_go(record(9, 0, 1.0, 1024), nullptr, anybody), nullptr) << "by the byte";
    EXPECT_EQ(index.next_to_go(newcomer(), nullptr, [](const auto&) { return false; }), nullptr);
    const StoreName other = name_of(2);
    EXPECT_EQ(index.next_to_go(newcomer(), &other, anybody), nullptr) << "another tenant's";
}

TEST(RecordIndex, WhatIsPutBackIsAsItWas) {
    RecordIndex index;
    for (uint64_t i = 1; i <= 6; ++i) index.add(record(i, i < 4 ? i - 1 : 0, static_cast<double>(i)));
    const auto order = [&index] {
        const RecordIndex::Limit nothing_stays{nullptr, index.bytes(), 0};
        const RecordIndex::Room room = index.make_room(newcomer(), {&nothing_stays, 1}, anybody);
        EXPECT_EQ(room.limits_kept, 1U);
        EXPECT_EQ(index.count(), 0U);
        index.put_back(room);
        return names_of(room);
    };
    const auto first = order();
    EXPECT_EQ(first.size(), 6U);
    EXPECT_EQ(order(), first);
    EXPECT_EQ(index.count(), 6U);
}

TEST(RecordIndex, RoomIsMadeForAllLimitsOrNobodyGoes) {
    RecordIndex index;
    index.add(record(1, 0, 1.0, 100, 7));
    index.add(record(2, 0, 2.0, 100, 8));
    index.add(record(3, 0, 4.0, 100, 7));
    const StoreName seven = name_of(7);
    const auto make_room = [&](std::vector<RecordIndex::Limit> limits, const RecordIndex::MayGo& may_go = anybody) {
        return index.make_room(newcomer(), limits, may_go);
    };
    EXPECT_TRUE(make_room({}).taken.empty());
    EXPECT_TRUE(make_room({{nullptr, 300, 300}, {&seven, 200, 200}}).taken.empty()) << "all are kept";
    RecordIndex::Room room = make_room({{&seven, 250, 150}, {nullptr, 400, 250}, {nullptr, 500, 300}});
    EXPECT_EQ(room.limits_kept, 3U);
    EXPECT_EQ(room.bytes, 200U) << "who goes for one limit counts for the others";
    EXPECT_EQ(names_of(room), (std::vector{name_of(1), name_of(2)}));
    EXPECT_EQ(index.count(), 1U);
    index.put_back(room);
    room = make_room({{nullptr, 400, 300}, {&seven, 300, 50}, {nullptr, 10, 10}});
    EXPECT_EQ(room.limits_kept, 1U) << "the tenant has no more than 200";
    EXPECT_TRUE(room.taken.empty());
    EXPECT_EQ(index.count(), 3U);
    EXPECT_EQ(index.bytes_of(seven), 200U);
    room = make_room({{nullptr, 400, 250}}, [](const StoredRecord& other) { return other.name != name_of(2); });
    EXPECT_EQ(names_of(room), (std::vector{name_of(1), name_of(3)})) << "who may not go stays";
}

/// Else the manifest would not hear of uses where room is often made in vain, and a start would take for unused what
/// was used each hour.
TEST(RecordIndex, WhatIsPutBackTellsOfItsUseWhenItWouldHave) {
    RecordIndex index;
    index.add(record(1, 0));
    EXPECT_EQ(index.use(name_of(1), 1000, 100).size(), 1U);
    EXPECT_TRUE(index.use(name_of(1), 1050, 100).empty());
    index.put_back(take_next(index));
    EXPECT_TRUE(index.use(name_of(1), 1099, 100).empty());
    EXPECT_EQ(index.use(name_of(1), 1100, 100).size(), 1U);
}

/// Against a list that is searched from end to end.
TEST(RecordIndex, ChoosesAsASearchThroughAllWould) {
    std::mt19937_64 random(4);
    RecordIndex index;
    std::map<uint64_t, std::pair<StoredRecord, double>> all;  // with its credit
    double age = 0.0;
    const auto worth = [&age](const StoredRecord& of) {
        return age + of.saved_seconds / static_cast<double>(of.place.bytes);
    };
    uint64_t last = 0;
    for (int step = 0; step < 20'000; ++step) {
        const uint64_t some = last == 0 ? 0 : 1 + random() % last;
        if (all.size() < 200 && random() % 2 == 0) {
            const StoredRecord made =
                record(++last, all.contains(some) ? some : 0, 1.0 + static_cast<double>(random() % 97),
                       4096 * (1 + random() % 5), 1 + random() % 3);
            ASSERT_TRUE(index.add(made));
            all[last] = {made, worth(made)};
        } else if (random() % 4 == 0) {
            ASSERT_EQ(index.remove(name_of(some)), all.erase(some) == 1);
        } else if (random() % 3 == 0) {
            index.use(name_of(some), step);
            for (uint64_t at = some; all.contains(at);) {
                all[at].second = worth(all[at].first);
                std::memcpy(&at, all[at].first.before.data(), sizeof(at));
            }
        } else {
            const std::pair<const uint64_t, std::pair<StoredRecord, double>>* best = nullptr;
            for (const auto& one : all) {
                const bool is_before = std::ranges::any_of(
                    all, [&](const auto& other) { return other.second.first.before == one.second.first.name; });
                if (!is_before && (best == nullptr || one.second.second < best->second.second)) best = &one;
            }
            const StoredRecord* const next = index.next_to_go(newcomer(), nullptr, anybody);
            ASSERT_EQ(next == nullptr, best == nullptr);
            if (next == nullptr) continue;
            uint64_t number = 0;
            std::memcpy(&number, next->name.data(), sizeof(number));
            ASSERT_EQ(all.at(number).second, best->second.second) << step;
            const RecordIndex::Room room = take_next(index);
            ASSERT_EQ(names_of(room), std::vector{name_of(number)});
            index.gone(room);
            age = std::max(age, room.taken.front().credit);
            all.erase(number);
        }
        ASSERT_EQ(index.count(), all.size());
    }
}

/// So many rounds that a stack would not hold a call for each.
TEST(RecordIndex, FindsTheWayThroughAnyNumberOfRounds) {
    constexpr int rounds = 200'000;
    RecordIndex index;
    const RecordIndex::NameOf name = [](const RecordIndex::Border& border) {
        StoreName made{};
        std::memcpy(made.data(), &border.prefix, made.size());
        return made;
    };
    RecordIndex::Border at{name_of_space("t"), Exactness::exact};
    const RecordIndex::Border from = at;
    std::vector<int32_t> ids;
    for (int i = 0; i < rounds; ++i) {
        const std::vector<int32_t> own(kv_block_tokens, i);
        ids.insert(ids.end(), own.begin(), own.end());
        StoredRecord made = record(0, 0);
        made.before = name(at);
        at.prefix = name_of_block(at.prefix, own);
        made.name = name(at);
        made.tokens = kv_block_tokens;
        ASSERT_TRUE(index.add(made));
    }
    EXPECT_EQ(index.way(from, ids, Exactness::exact, name).size(), size_t{rounds});
    ids[ids.size() / 2] = -1;
    EXPECT_EQ(index.way(from, ids, Exactness::exact, name).size(), size_t{rounds} / 2);
}

TEST(RecordIndex, AUseIsToldOfOnceInACircle) {
    RecordIndex index;
    index.add(record(1, 2));
    index.add(record(2, 1));
    EXPECT_EQ(index.use(name_of(1), 1000, 0), (std::vector{name_of(1), name_of(2)}));
}

TEST(RecordIndex, TellsOfAUseOnceInSoLong) {
    RecordIndex index;
    index.add(record(1, 0));
    index.add(record(2, 1));
    EXPECT_EQ(index.use(name_of(1), 1000, 100), std::vector<StoreName>{name_of(1)});
    EXPECT_EQ(index.use(name_of(2), 1050, 100), std::vector<StoreName>{name_of(2)});
    EXPECT_TRUE(index.use(name_of(2), 1099, 100).empty());
    EXPECT_EQ(index.use(name_of(2), 1100, 100), std::vector<StoreName>{name_of(1)});
}

}  // namespace
}  // namespace rondo

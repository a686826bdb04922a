#include "memory/store/stored_records.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <vector>

namespace rondo {
namespace {

using ::testing::ElementsAre;

class StoredRecordsTest : public ::testing::Test {
protected:
    static constexpr uint64_t bytes_of_each = 4096;

    static StoreName name(int number) {
        StoreName made{};
        made.back() = static_cast<std::byte>(number);
        return made;
    }
    /// At a place that no other one has.
    StoredRecord record(int number, int before = 0, uint64_t segment = 1, int tenant = 100) {
        StoredRecord made;
        made.name = name(number);
        made.before = name(before);
        made.tenant = name(tenant);
        made.tokens = 16;
        made.layers = 1;
        made.saved_seconds = number;
        made.place = {segment, ++places_ * bytes_of_each, bytes_of_each};
        return made;
    }
    /// Written and found.
    StoredRecord stored(int number, int before = 0, uint64_t segment = 1, int tenant = 100) {
        StoredRecord made = record(number, before, segment, tenant);
        records_.begin_writing(made);
        EXPECT_TRUE(records_.add(made));
        records_.end_writing(made);
        return made;
    }
    bool is_found(const StoredRecord& one) const {
        const StoredRecord* const found = records_.index().find(one.name);
        return found != nullptr && found->place == one.place;
    }
    /// Who would go for a record that is worth more than all.
    std::vector<StoreName> who_goes(StoredRecord for_whom) {
        for_whom.saved_seconds = 1e12;
        const RecordIndex::Limit nothing_stays{nullptr, records_.index().bytes(), 0};
        const RecordIndex::Limit a_record_less{nullptr, bytes_of_each, 0};
        const bool all = records_.make_room(for_whom, {&nothing_stays, 1}).limits_kept == 1;
        EXPECT_FALSE(all) << "nobody may stay";
        const RecordIndex::Room room = records_.make_room(for_whom, {&a_record_less, 1});
        records_.put_back(room);
        std::vector<StoreName> names;
        for (const RecordIndex::Taken& one : room.taken) names.push_back(one.record.name);
        return names;
    }

    StoredRecords records_;
    uint64_t places_ = 0;
};

TEST_F(StoredRecordsTest, ANameIsTakenFromTheBeginOfARecordToItsEnd) {
    const StoredRecord first = record(1), second = record(1);
    EXPECT_FALSE(records_.has_name(name(1)));
    records_.begin_writing(first);
    EXPECT_TRUE(records_.has_name(name(1)));
    EXPECT_FALSE(is_found(first)) << "it is on its way";
    records_.end_writing(first);
    EXPECT_FALSE(records_.has_name(name(1)));
    records_.begin_writing(second);
    records_.end_writing(first);
    EXPECT_TRUE(records_.has_name(name(1))) << "the end of another one says nothing of this";
    EXPECT_TRUE(records_.add(second));
    EXPECT_TRUE(is_found(second));
    EXPECT_TRUE(records_.leave(name(1)));
    EXPECT_FALSE(is_found(second));
    EXPECT_TRUE(records_.has_name(name(1))) << "somebody still holds what is written";
    records_.end_writing(second);
    EXPECT_FALSE(records_.has_name(name(1)));
}

TEST_F(StoredRecordsTest, WhatIsOnItsWayCountsUntilItIsFound) {
    const StoredRecord mine = record(1, 0, 1, 100), others = record(2, 0, 1, 101);
    const StoreName tenant = name(100), another = name(101), third = name(102);
    for (const StoredRecord& one : {mine, others}) records_.begin_writing(one);
    EXPECT_EQ(records_.bytes_on_their_way(nullptr), 2 * bytes_of_each);
    EXPECT_EQ(records_.bytes_on_their_way(&tenant), bytes_of_each);
    EXPECT_EQ(records_.bytes_on_their_way(&third), 0U);
    ASSERT_TRUE(records_.add(mine));
    EXPECT_EQ(records_.bytes_on_their_way(nullptr), bytes_of_each);
    EXPECT_EQ(records_.bytes_on_their_way(&tenant), 0U);
    EXPECT_EQ(records_.index().bytes_of(tenant), bytes_of_each);
    records_.end_writing(others);
    EXPECT_EQ(records_.bytes_on_their_way(&another), 0U);
    EXPECT_EQ(records_.index().bytes_of(another), 0U);
}

TEST_F(StoredRecordsTest, NobodyGoesWhoIsReadOrStoodBehind) {
    const StoredRecord cheap = stored(1), middle = stored(2), dear = stored(3);
    EXPECT_THAT(who_goes(record(9, 3)), ElementsAre(name(1))) << "3 stands before it";
    records_.begin_reading(cheap.place);
    EXPECT_THAT(who_goes(record(9, 3)), ElementsAre(name(2))) << "1 is read";
    records_.end_reading(cheap.place);
    const StoredRecord coming = record(8, 1);
    records_.begin_writing(coming);
    EXPECT_THAT(who_goes(record(9, 3)), ElementsAre(name(2))) << "1 stands before one that is on its way";
    records_.end_writing(coming);
    EXPECT_THAT(who_goes(record(9, 3)), ElementsAre(name(1)));
    for (const StoredRecord& one : {cheap, middle, dear}) EXPECT_TRUE(is_found(one)) << "all were put back";
}

TEST_F(StoredRecordsTest, SegmentsOfACircleAreNeeded) {
    stored(1, 2, 1);
    stored(2, 1, 2);
    EXPECT_EQ(records_.needed_segments(record(9, 1, 9)), (std::set<uint64_t>{1, 2}));
}

TEST_F(StoredRecordsTest, SegmentsAreNeededByWhoIsReadWrittenOrStoodBehind) {
    stored(1, 0, 1);
    stored(2, 1, 2);
    const StoredRecord read = stored(3, 0, 3), dropped = stored(4, 0, 4);
    stored(5, 0, 5);
    records_.begin_reading(read.place);
    records_.begin_writing(record(6, 5, 6));
    EXPECT_EQ(records_.needed_segments(record(9, 2, 9)), (std::set<uint64_t>{1, 2, 3, 5, 6}));
    EXPECT_EQ(records_.needed_segments(record(9, 0, 9)), (std::set<uint64_t>{3, 5, 6}));
    records_.drop(dropped.name);
    EXPECT_FALSE(is_found(dropped));
    EXPECT_TRUE(records_.leaving().empty()) << "its segment goes, and no space of its own";
}

TEST_F(StoredRecordsTest, WhoReadsKeepsTheSpaceOfWhatHasLeft) {
    const StoredRecord one = stored(1);
    for (int i = 0; i < 2; ++i) records_.begin_reading(one.place);
    EXPECT_FALSE(records_.end_reading(one.place)) << "it has not left";
    records_.begin_reading(one.place);
    ASSERT_TRUE(records_.leave(one.name));
    EXPECT_FALSE(records_.leave(one.name)) << "it has";
    EXPECT_EQ(records_.leaving().size(), 1U) << "the manifest has it still";
    const std::vector<StoredRecord> left = records_.take_leaving();
    ASSERT_EQ(left.size(), 1U);
    EXPECT_EQ(left[0].place, one.place);
    EXPECT_TRUE(records_.leaving().empty());
    EXPECT_FALSE(records_.let_go(one.place)) << "it is read";
    EXPECT_FALSE(records_.end_reading(one.place)) << "by another one, too";
    EXPECT_TRUE(records_.end_reading(one.place));
    EXPECT_TRUE(records_.let_go(stored(2).place)) << "nobody reads that";
}

TEST_F(StoredRecordsTest, WhatTheManifestMayHaveLeavesUnfound) {
    const StoredRecord one = record(1);
    records_.begin_writing(one);
    records_.leave_unfound(one);
    EXPECT_FALSE(records_.has_name(one.name)) << "another one may begin";
    EXPECT_EQ(records_.bytes_on_their_way(nullptr), 0U);
    ASSERT_EQ(records_.leaving().size(), 1U);
    EXPECT_EQ(records_.leaving()[0].place, one.place);
}

TEST_F(StoredRecordsTest, UsesAreKeptUntilTheyAreTaken) {
    const StoredRecord one = stored(1), behind = stored(2, 1);
    EXPECT_FALSE(records_.has_used());
    records_.use(behind.name, 1000, 100);
    records_.use(behind.name, 1050, 100);
    EXPECT_TRUE(records_.has_used());
    records_.leave(behind.name);
    const std::vector<StoredRecord> used = records_.take_used();
    ASSERT_EQ(used.size(), 1U) << "the other one has left";
    EXPECT_EQ(used[0].name, one.name);
    EXPECT_EQ(used[0].used_at, 1050);
    EXPECT_FALSE(records_.has_used());
}

/// A store that writes, reads, removes and fails in any order. Its manifest forgets what leaves now and then.
class StoredRecordsModel : public StoredRecordsTest {
protected:
    struct Kept {
        StoredRecord record;
        bool is_held = true;        // by who writes it
        bool is_on_its_way = true;  // another one of its name cannot begin
        bool may_be_found = false;  // in the index, or perhaps in the manifest
        bool is_in_index = false;
        int readers = 0;
        bool is_given_back = false;
    };
    Kept* pick(const std::function<bool(const Kept&)>& is_it) {
        std::vector<Kept*> those;
        for (Kept& one : all_)
            if (is_it(one)) those.push_back(&one);
        return those.empty() ? nullptr : those[random_() % those.size()];
    }
    void give_back(Kept& one) {
        EXPECT_FALSE(one.is_given_back) << "twice";
        EXPECT_EQ(one.readers, 0);
        EXPECT_FALSE(one.is_in_index);
        one.is_given_back = true;
    }
    void begin() {
        const int number = 1 + static_cast<int>(random_() % 12);
        if (records_.has_name(name(number))) return;
        all_.push_back({record(number)});
        records_.begin_writing(all_.back().record);
    }
    void finish(Kept& one) {
        one.may_be_found = true;
        if (random_() % 4 != 0) {
            EXPECT_TRUE(records_.add(one.record));
            one.is_in_index = true;
        } else {
            records_.leave_unfound(one.record);
            one.is_on_its_way = false;
        }
    }
    void end(Kept& one) {
        records_.end_writing(one.record);
        one.is_held = one.is_on_its_way = false;
        if (!one.may_be_found && records_.let_go(one.record.place)) give_back(one);
    }
    void end_reading(Kept& one) {
        --one.readers;
        if (records_.end_reading(one.record.place)) give_back(one);
    }
    void leave(int number) {
        Kept* const one = pick([&](const Kept& kept) { return kept.is_in_index && kept.record.name == name(number); });
        EXPECT_EQ(records_.leave(name(number)), one != nullptr);
        if (one != nullptr) one->is_in_index = false;
    }
    void forget_leaving() {
        for (const StoredRecord& left : records_.take_leaving())
            if (records_.let_go(left.place)) give_back(all_[left.place.offset / bytes_of_each - 1]);
    }
    void step() {
        const auto is_written = [](const Kept& one) { return one.is_on_its_way && !one.may_be_found; };
        switch (random_() % 9) {
            case 0:
            case 1:
                return begin();
            case 2:
                if (Kept* const one = pick(is_written)) finish(*one);
                return;
            case 3:  // it has failed, and is held for some time
                if (Kept* const one = pick(is_written); one != nullptr && random_() % 2 == 0) {
                    records_.end_writing(one->record);
                    one->is_on_its_way = false;
                }
                return;
            case 4:
                if (Kept* const one = pick([](const Kept& kept) { return kept.is_held; })) end(*one);
                return;
            case 5:
                if (Kept* const one = pick([](const Kept& kept) { return kept.is_in_index; })) {
                    records_.begin_reading(one->record.place);
                    ++one->readers;
                }
                return;
            case 6:
                if (Kept* const one = pick([](const Kept& kept) { return kept.readers > 0; })) end_reading(*one);
                return;
            case 7:
                return leave(1 + static_cast<int>(random_() % 12));
            default:
                if (random_() % 3 == 0) forget_leaving();
        }
    }
    void check() const {
        size_t found = 0;
        uint64_t on_their_way = 0;
        for (const Kept& one : all_) {
            found += one.is_in_index;
            EXPECT_EQ(is_found(one.record), one.is_in_index);
            if (one.is_on_its_way && !one.may_be_found) on_their_way += one.record.place.bytes;
        }
        EXPECT_EQ(records_.index().count(), found);
        EXPECT_EQ(records_.bytes_on_their_way(nullptr), on_their_way);
    }

    std::mt19937_64 random_{7};
    std::vector<Kept> all_;  // by place
};

TEST_F(StoredRecordsModel, SpaceIsGivenBackOnceAndNeverUnderAReader) {
    for (int i = 0; i < 3000 && !HasFailure(); ++i) {
        step();
        check();
    }
    EXPECT_GT(all_.size(), 50U);
    for (Kept& one : all_) {
        if (one.is_held) end(one);
        while (one.readers > 0) end_reading(one);
    }
    for (int number = 1; number <= 12; ++number) leave(number);
    forget_leaving();
    for (const Kept& one : all_) EXPECT_TRUE(one.is_given_back) << "place " << one.record.place.offset;
}

}  // namespace
}  // namespace rondo

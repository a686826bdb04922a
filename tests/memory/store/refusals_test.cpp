// Each reason for which a store does not take a record: it is counted alone, and the record is not seen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/store/kv_store.hpp"
#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

using Refusal = KvStore::Refusal;
using testing::DiskFaults;
using ::testing::ElementsAreArray;

class KvStoreRefusals : public testing::StoreTest {
protected:
    static constexpr double cheap = 0.1, dear = 1e6, dearer = 1e9;  // seconds that a record saves

    KvStoreRefusals() {
        queue_ = DiskQueue::open({4, DiskQueue::Way::threads}).value();  // whose calls DiskFaults meets
        options_.segments.segment_bytes = uint64_t{16} << 20;
        open();
    }
    ~KvStoreRefusals() override { DiskFaults::end(); }

    uint64_t record_bytes(const Round& round) const { return header_of(round).record_bytes(); }
    std::vector<StoreName> names_there() const {
        std::vector<StoreName> names;
        store_->index().each([&](const StoredRecord& record) { names.push_back(record.name); });
        std::ranges::sort(names);
        return names;
    }
    /// The store counts this reason and no other. It has what it had, and has written nothing.
    void expect_refused(const Round& round, Refusal reason) {
        const KvStore::Counts before = store_->counts();
        const uint64_t bytes = store_->bytes();
        const std::vector<StoreName> names = names_there();
        EXPECT_EQ(store_->begin(header_of(round), dear).refusal, reason);
        auto refused = before.refused;
        ++refused[static_cast<size_t>(reason)];
        EXPECT_THAT(store_->counts().refused, ElementsAreArray(refused));
        EXPECT_EQ(store_->counts().evicted, before.evicted);
        EXPECT_EQ(store_->counts().written, before.written);
        EXPECT_EQ(store_->counts().bytes_written, before.bytes_written);
        EXPECT_EQ(store_->bytes(), bytes);
        EXPECT_TRUE(names_there() == names) << "nobody comes or goes";
    }
    /// Begins to write it, and goes on until something fails.
    Status try_to_write(const Round& round) {
        const RecordHeader header = header_of(round);
        const KvStore::Begun begun = store_->begin(header, dear);
        if (begun.writing == nullptr) return make_error(ErrorCode::internal, "refused");
        RONDO_TRY(write_layers(begun.writing, header));
        return wait([&](auto done) { store_->finish(begun.writing, std::move(done)); });
    }
    /// Nobody finds the round, after a start neither.
    void expect_unseen(const Round& round) {
        EXPECT_FALSE(is_there(round));
        open();
        EXPECT_FALSE(is_there(round)) << "after a start";
    }

    const Round one_ = round("t", nullptr, 0, 64), other_ = round("t", nullptr, 5000, 64),
                third_ = round("t", nullptr, 9000, 64), large_ = round("t", nullptr, 20'000, 640);
};

TEST_F(KvStoreRefusals, StoredAlreadyIsWhatIsThere) {
    ASSERT_EQ(write(one_), Refusal::none);
    expect_refused(one_, Refusal::stored_already);
    EXPECT_TRUE(is_there(one_));
    open();
    expect_refused(one_, Refusal::stored_already);
    EXPECT_TRUE(is_there(one_));
}

TEST_F(KvStoreRefusals, StoredAlreadyIsWhatIsOnItsWay) {
    KvStore::Begun begun = store_->begin(header_of(one_), 1.0);
    ASSERT_NE(begun.writing, nullptr);
    expect_refused(one_, Refusal::stored_already);
    EXPECT_FALSE(is_there(one_)) << "the first is not written yet";
    begun.writing.reset();
    tasks_->run_all();
    expect_unseen(one_);
    EXPECT_EQ(write(one_), Refusal::none) << "nobody writes it any more";
}

TEST_F(KvStoreRefusals, TooLargeIsWhatTheLimitNeverHolds) {
    const uint64_t least = record_bytes(large_) + 2 * disk_alignment;  // it may begin a file
    options_.bytes_max = least - disk_alignment;
    open();
    ASSERT_EQ(write(one_, cheap), Refusal::none);
    expect_refused(large_, Refusal::too_large);
    EXPECT_TRUE(is_there(one_)) << "nobody goes in vain";
    expect_unseen(large_);
    options_.path += "-of-its-own";
    options_.bytes_max = least;
    open();
    EXPECT_EQ(write(large_), Refusal::none);
    EXPECT_TRUE(is_there(large_));
    EXPECT_LE(store_->bytes(), options_.bytes_max);
}

TEST_F(KvStoreRefusals, NoRoomIsWhereAllOthersAreWorthMore) {
    options_.bytes_max = 2 * record_bytes(one_) + 4 * disk_alignment;
    open();
    for (const Round& round : {one_, other_}) ASSERT_EQ(write(round, dearer), Refusal::none);
    expect_refused(third_, Refusal::no_room);
    for (const Round& round : {one_, other_}) EXPECT_TRUE(is_there(round));
    expect_unseen(third_);
}

/// A tenant's own record would go for his limit. For that of all it would not be enough.
TEST_F(KvStoreRefusals, NobodyGoesForOneLimitWhereAnotherOneRefuses) {
    options_.tenant_bytes_max = record_bytes(large_);
    options_.bytes_max = 2 * record_bytes(large_) + 2 * disk_alignment;
    open();
    const Round of_another = round("another", nullptr, 40'000, 640);
    ASSERT_EQ(write(one_, cheap), Refusal::none);
    ASSERT_EQ(write(of_another, dearer), Refusal::none);
    expect_refused(large_, Refusal::no_room);
    EXPECT_TRUE(is_there(one_));
    EXPECT_TRUE(is_there(of_another));
}

/// As much must stay free as no disk has. The sum of that and a record does not overflow.
TEST_F(KvStoreRefusals, NoRoomIsWhereTheDiskMustStayFree) {
    ASSERT_EQ(write(one_, cheap), Refusal::none);
    options_.bytes_free_min = uint64_t{1} << 50;
    options_.bytes_max = uint64_t{1} << 50;
    open();
    for (const Round& round : {third_, large_}) {
        expect_refused(round, Refusal::no_room);
        expect_unseen(round);
    }
    EXPECT_TRUE(is_there(one_)) << "its going would not be enough";
    options_.bytes_free_min = 0;
    open();
    EXPECT_EQ(write(third_), Refusal::none) << "a limit beyond the disk is none";
}

TEST_F(KvStoreRefusals, QuotaIsOfOneTenant) {
    options_.tenant_bytes_max = 2 * record_bytes(one_);
    open();
    ASSERT_EQ(write(one_, cheap), Refusal::none);
    expect_refused(large_, Refusal::quota);
    EXPECT_TRUE(is_there(one_)) << "nobody goes for what never fits";
    ASSERT_EQ(write(other_, dearer), Refusal::none);
    ASSERT_TRUE(store_->remove(name_of(one_)));
    ASSERT_EQ(write(one_, dearer), Refusal::none);
    expect_refused(third_, Refusal::quota);
    EXPECT_EQ(write(round("another", nullptr, 9000, 64), cheap), Refusal::none);
    for (const Round& round : {one_, other_}) EXPECT_TRUE(is_there(round));
    expect_unseen(third_);
    expect_unseen(large_);
}

TEST_F(KvStoreRefusals, QuotaCountsWhatIsOnItsWay) {
    options_.tenant_bytes_max = 2 * record_bytes(one_);
    open();
    const KvStore::Begun first = store_->begin(header_of(one_), 1.0), second = store_->begin(header_of(other_), 1.0);
    ASSERT_NE(second.writing, nullptr);
    expect_refused(third_, Refusal::quota);
    EXPECT_FALSE(is_there(third_));
}

/// What is told to a tenant as his limit is no more than there is for all.
TEST_F(KvStoreRefusals, AQuotaBeyondTheLimitIsTheLimit) {
    options_.bytes_max = 2 * record_bytes(one_) + 4 * disk_alignment;
    options_.tenant_bytes_max = uint64_t{1} << 50;
    open();
    EXPECT_EQ(store_->tenant_bytes_max(), options_.bytes_max);
    for (const Round& round : {one_, other_}) ASSERT_EQ(write(round, dearer), Refusal::none);
    expect_refused(third_, Refusal::no_room);
    expect_refused(large_, Refusal::too_large);
    options_.tenant_bytes_max = record_bytes(one_);
    open();
    EXPECT_EQ(store_->tenant_bytes_max(), options_.tenant_bytes_max);
    options_.tenant_bytes_max = 0;
    open();
    EXPECT_EQ(store_->tenant_bytes_max(), options_.bytes_max);
}

TEST_F(KvStoreRefusals, WrittenEnoughIsUntilTheNextDay) {
    options_.written_a_day_max = record_bytes(one_);
    open();
    ASSERT_EQ(write(one_, cheap), Refusal::none);
    expect_refused(other_, Refusal::written_enough);
    expect_refused(large_, Refusal::written_enough);
    EXPECT_TRUE(is_there(one_));
    expect_unseen(other_);
    expect_refused(other_, Refusal::written_enough);
    now_ += 24 * 3600;
    EXPECT_EQ(write(other_), Refusal::none);
    expect_refused(third_, Refusal::written_enough);
}

TEST_F(KvStoreRefusals, DiskIsWhereNoFileCanBeMade) {
    DiskFaults::begin({options_.path, DiskFaults::Kind::no_space, 1, 1'000'000});
    expect_refused(one_, Refusal::disk);
    DiskFaults::end();
    expect_unseen(one_);
    EXPECT_EQ(write(one_), Refusal::none) << "the disk is well again";
    EXPECT_TRUE(is_there(one_));
}

/// What was given back and is still on the disk would be taken for free space.
TEST_F(KvStoreRefusals, DiskIsWhereNothingLeaves) {
    for (const Round& round : {one_, other_, third_}) ASSERT_EQ(write(round), Refusal::none);
    DiskFaults::begin({options_.path});
    ASSERT_TRUE(store_->remove(name_of(one_)));
    const std::vector<std::string> met = DiskFaults::end();
    const auto hole = std::ranges::find(met, "hole kv-");
    ASSERT_NE(hole, met.end());
    DiskFaults::begin({options_.path, DiskFaults::Kind::no_space, hole - met.begin() + 1});
    EXPECT_FALSE(store_->remove(name_of(other_)));
    DiskFaults::begin({options_.path, DiskFaults::Kind::no_space, 1});  // it is tried again
    expect_refused(large_, Refusal::disk);
    DiskFaults::end();
    EXPECT_FALSE(is_there(other_));
    EXPECT_FALSE(is_there(large_));
    EXPECT_EQ(write(large_), Refusal::none) << "the disk is well again";
    EXPECT_TRUE(is_there(large_));
    EXPECT_TRUE(is_there(third_));
}

/// From one call on the disk refuses what writes a record: a layer, the header, their sync or the commit.
TEST_F(KvStoreRefusals, DiskIsWhereWhatWasBegunCannotBeWritten) {
    const auto numbered = [](int64_t number) {
        return round("t", nullptr, static_cast<int32_t>(30'000 + 1000 * number), 64);
    };
    int64_t calls = 1, failed = 0;
    for (int64_t at = 0; at <= calls; ++at) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(at));
        open();
        ASSERT_EQ(write(numbered(2 * at)), Refusal::none);  // so that there is a file
        const Round tried = numbered(2 * at + 1);
        auto refused = store_->counts().refused;
        DiskFaults::begin({options_.path, at == 0 ? DiskFaults::Kind::none : DiskFaults::Kind::no_space, at, 1000});
        const Status end = try_to_write(tried);
        const auto met = std::ssize(DiskFaults::end());
        if (at == 0) calls = met;
        if (!end) ++refused[static_cast<size_t>(Refusal::disk)];
        failed += !end;
        EXPECT_THAT(store_->counts().refused, ElementsAreArray(refused));
        EXPECT_EQ(is_there(tried), end.is_ok());
        tasks_->run_all();
        EXPECT_TRUE(store_->forget_removed());  // a commit that failed may be on the disk until then
        open();
        EXPECT_EQ(is_there(tried), end.is_ok()) << "after a start";
    }
    EXPECT_GE(failed, 6) << "three layers, the header, their sync and the commit";
}

}  // namespace
}  // namespace rondo

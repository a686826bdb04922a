// Records that a disk cannot read.

#include <gtest/gtest.h>

#include "tests/memory/store/bad_sectors.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

using Refusal = KvStore::Refusal;

class KvStoreUnreadableTest : public testing::StoreTest, public ::testing::WithParamInterface<bool> {
protected:
    KvStoreUnreadableTest() {
        auto sectors = std::make_unique<testing::BadSectors>(std::move(queue_));
        sectors_ = sectors.get();
        queue_ = std::move(sectors);
        if (GetParam()) options_.keys.emplace(testing::some_root());
        open();
    }
    bool has(const Round& round) const { return store_->index().find(name_of(round)) != nullptr; }
    RecordPlace place_of(const Round& round) const { return store_->index().find(name_of(round))->place; }
    /// The byte `at` of a place cannot be read, and all others can.
    void spoil(const RecordPlace& place, uint64_t at) {
        sectors_->bad = [spoilt = Segments::name_of(place.segment), byte = place.offset + at](
                            const std::string& file, uint64_t begin, uint64_t end) {
            return file == spoilt && begin <= byte && byte < end;
        };
    }

    const Round one_ = round("t", nullptr, 100, 64), other_ = round("t", nullptr, 5000, 64);
    testing::BadSectors* sectors_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Bytes, KvStoreUnreadableTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "sealed" : "plain"; });

/// With an unreadable record in the index all that stands behind it would be computed at each restore.
TEST_P(KvStoreUnreadableTest, ItIsWrittenElsewhere) {
    ASSERT_EQ(write(one_), Refusal::none);
    ASSERT_EQ(write(other_), Refusal::none);
    int64_t damaged = 0;
    for (const bool in_header : {true, false}) {
        const RecordPlace before = place_of(one_);
        spoil(before, in_header ? 0 : before.bytes - disk_alignment);
        const Status read = check(one_);
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().code, ErrorCode::corrupt) << read.error().message;
        EXPECT_FALSE(has(one_));
        EXPECT_EQ(store_->counts().damaged, ++damaged);
        EXPECT_TRUE(check(other_)) << "of the same file";
        ASSERT_EQ(write(one_), Refusal::none);
        EXPECT_NE(place_of(one_), before);
        EXPECT_TRUE(check(one_));
    }
    open();
    EXPECT_TRUE(check(one_));
    EXPECT_TRUE(check(other_));
}

/// A cable may be put in again.
TEST_P(KvStoreUnreadableTest, ADiskThatReadsNothingLosesNothing) {
    ASSERT_EQ(write(one_), Refusal::none);
    sectors_->bad = [](const auto&, auto, auto) { return true; };
    for (int i = 0; i < 3; ++i) {
        const Status read = check(one_);
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().code, ErrorCode::io) << read.error().message;
        EXPECT_TRUE(has(one_));
    }
    EXPECT_EQ(store_->counts().damaged, 0);
    sectors_->bad = [](const auto&, auto, auto) { return false; };
    EXPECT_TRUE(check(one_));
}

TEST_P(KvStoreUnreadableTest, AnErrorThatPassesIsNotSeen) {
    ASSERT_EQ(write(one_), Refusal::none);
    sectors_->bad = [fails = false](const auto&, auto, auto) mutable { return fails = !fails; };
    EXPECT_TRUE(check(one_));
    EXPECT_EQ(sectors_->refused, 1 + 3) << "the header and each layer were refused once";
    EXPECT_TRUE(has(one_));
    EXPECT_EQ(store_->counts().damaged, 0);
}

/// A process may have too many files open: that says nothing of a record.
TEST_P(KvStoreUnreadableTest, AFileThatCannotBeOpenedIsNotDamage) {
    ASSERT_EQ(write(one_), Refusal::none);
    const RecordPlace place = place_of(one_);
    options_.segments.open_files_max = 1;
    open();
    const std::filesystem::path file = options_.path + '/' + Segments::name_of(place.segment);
    ASSERT_EQ(write(other_), Refusal::none);  // into another file, which is the open one
    std::filesystem::rename(file, file.string() + "-away");
    const Status read = check(one_);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::io) << read.error().message;
    EXPECT_TRUE(has(one_));
    std::filesystem::rename(file.string() + "-away", file);
    EXPECT_TRUE(check(one_));
}

}  // namespace
}  // namespace rondo

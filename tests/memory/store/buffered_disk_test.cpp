// A disk whose files cannot be read past the kernel's cache, and in which no holes can be made.

#include <gtest/gtest.h>

#include "memory/store/kv_store.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"
#include "tests/memory/store/small_disk.hpp"

namespace rondo {
namespace {

class BufferedDiskTest : public testing::StoreTest {
protected:
    void SetUp() override {
        if (!disk_.why_not().empty()) GTEST_SKIP() << disk_.why_not();
        options_.path = disk_.path() + "/kv";
        open();
    }
    void TearDown() override { close(); }

    testing::SmallDisk disk_ = testing::SmallDisk::without_direct_files();
};

/// Whoever starts a server hears of it at once, not once something is stored.
TEST_F(BufferedDiskTest, SaysSoInAnEmptyFolder) {
    EXPECT_FALSE(store_->direct());
    open();
    EXPECT_FALSE(store_->direct());
}

TEST_F(BufferedDiskTest, HoldsWhatIsWritten) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(write(round("t", nullptr, 1000 * i, 64)), KvStore::Refusal::none);
    open();
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(is_there(round("t", nullptr, 1000 * i, 64)));
}

class DirectDiskTest : public testing::StoreTest {};

TEST_F(DirectDiskTest, SaysFromItsBeginningWhatHoldsOnceItIsWrittenTo) {
    open();
    const bool direct = store_->direct();
    EXPECT_EQ(write(round("t", nullptr, 0, 64)), KvStore::Refusal::none);
    EXPECT_EQ(store_->direct(), direct);
    close();
}

}  // namespace
}  // namespace rondo

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <map>

#include "memory/store/kv_store.hpp"
#include "memory/store/shelf.hpp"
#include "tests/memory/store/child_process.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"
#include "tests/memory/store/small_disk.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using Refusal = KvStore::Refusal;

constexpr int rounds_of_child = 50;

class OnSmallDisk : public testing::StoreTest {
protected:
    static std::string other_on(const std::string& disk) { return disk + "/other"; }
    /// Another program takes all that is left.
    static void fill(const std::string& disk) {
        const int file = ::open(other_on(disk).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ASSERT_GE(file, 0);
        const std::vector<char> bytes(size_t{1} << 16, 'x');
        for (size_t piece = bytes.size(); piece > 0;)
            if (::write(file, bytes.data(), piece) <= 0) piece /= 2;
        ::close(file);
    }
    static Round numbered(int number) { return round("t", nullptr, 1000 * number, 64); }
    Status put(const std::string& key, size_t bytes) {
        Manifest::Changes changes;
        changes.put(key, std::string(bytes, key.back()));
        return store_->manifest().commit(std::move(changes));
    }
    /// Until the manifest's log has no room any more; how many were taken.
    int put_until_refused() {
        for (int i = 0; i < 1000; ++i)
            if (!put("x" + std::to_string(i), 100'000)) return i;
        ADD_FAILURE() << "the disk is not full";
        return 0;
    }
    /// A round that may find no room. Only once it is there everybody sees it.
    Status try_to_write(const Round& round, double saved_seconds) {
        const RecordHeader header = header_of(round);
        KvStore::Begun begun = store_->begin(header, saved_seconds);
        const bool no_room = begun.refusal == Refusal::no_room || begun.refusal == Refusal::disk;
        EXPECT_TRUE(begun.writing != nullptr || no_room);
        Status end = begun.writing ? Status::ok() : Status(make_error(ErrorCode::out_of_memory, "no room"));
        if (end) end = write_layers(begun.writing, header);
        if (end) end = wait([&](auto done) { store_->finish(begun.writing, std::move(done)); });
        EXPECT_TRUE(end || end.error().code == ErrorCode::out_of_memory) << end.error().message;
        begun.writing.reset();
        tasks_->run_all();
        EXPECT_EQ(store_->index().find(name_of(round)) != nullptr, end.is_ok());
        return end;
    }
};

class FullDiskTest : public OnSmallDisk {
protected:
    void mount(int mib) {
        disk_.emplace(mib);
        if (!disk_->why_not().empty()) GTEST_SKIP() << disk_->why_not();
        options_.path = disk_->path() + "/kv";
        open();
    }
    void TearDown() override { close(); }
    uint64_t free_bytes() const {
        struct statvfs disk = {};
        EXPECT_EQ(statvfs(disk_->path().c_str(), &disk), 0);
        return uint64_t{disk.f_bavail} * disk.f_frsize;
    }
    void fill() {
        OnSmallDisk::fill(disk_->path());
        ASSERT_EQ(free_bytes(), 0U);
    }
    void empty() { fs::remove(other_on(disk_->path())); }
    /// All of the first that are in the index have their bytes; how many there are.
    int all_whole(int numbers) {
        int found = 0;
        for (int i = 0; i < numbers; ++i) found += is_there(numbered(i));
        EXPECT_EQ(static_cast<size_t>(found), store_->index().count());
        return found;
    }
    /// That came to be: some may fail until enough has gone.
    int write_some(int from, int count) {
        int written = 0;
        for (int i = from; i < from + count; ++i) written += try_to_write(numbered(i), 100.0 + i).is_ok();
        return written;
    }

    std::optional<testing::SmallDisk> disk_;
};

#define RONDO_MOUNT(mib) \
    mount(mib);          \
    if (IsSkipped()) return

TEST_F(FullDiskTest, RoomIsMadeAndAllThatIsThereIsWhole) {
    RONDO_MOUNT(24);
    int written = 0;
    for (int i = 0; i < 1200; ++i) written += try_to_write(numbered(i), 1.0 + i).is_ok();
    EXPECT_GT(written, 1100);
    EXPECT_GT(store_->counts().evicted, 0);
    EXPECT_LT(free_bytes(), uint64_t{1} << 20);
    const int before = all_whole(1200);
    fill();
    EXPECT_GE(write_some(2000, 20), 10) << "by what is worth less";
    EXPECT_GE(all_whole(2020), before - 20);
    empty();
    EXPECT_EQ(write_some(3000, 20), 20);
    open();
    EXPECT_GE(all_whole(3020), before);
}

/// All but half of what it takes is taken by another program. One large record more than makes up for that.
TEST_F(FullDiskTest, WhoGoesMayBeLargerThanWhatIsMissing) {
    RONDO_MOUNT(24);
    const int large = 8;
    for (int i = 0; i < large; ++i) ASSERT_TRUE(try_to_write(round("t", nullptr, 10'000 * i, 2048), 1.0 + i));
    const uint64_t bytes_of_large = store_->index().bytes() / large;
    fill();
    const Round small = round("t", nullptr, 500'000, 64);
    const uint64_t some = disk_alignment;
    fs::resize_file(other_on(disk_->path()), fs::file_size(other_on(disk_->path())) - some);
    ASSERT_EQ(free_bytes(), some);
    ASSERT_TRUE(try_to_write(small, 100.0));
    EXPECT_LT(store_->index().find(name_of(small))->place.bytes, bytes_of_large);
    EXPECT_GT(store_->index().find(name_of(small))->place.bytes, some);
    EXPECT_EQ(store_->counts().evicted, 1);
}

TEST_F(FullDiskTest, WritingGoesOnOnceThereIsSpace) {
    RONDO_MOUNT(24);
    EXPECT_EQ(write_some(0, 20), 20);
    fill();
    const int taken = put_until_refused();
    EXPECT_EQ(all_whole(20), 20) << "reading goes on";
    EXPECT_EQ(put("small", 10).error().code, ErrorCode::out_of_memory);
    empty();
    EXPECT_TRUE(put("small", 10));
    EXPECT_EQ(write_some(20, 20), 20);
    open();
    EXPECT_EQ(all_whole(40), 40);
    for (int i = 0; i < taken; ++i) EXPECT_EQ(store_->manifest().get("x" + std::to_string(i))->size(), 100'000U);
    EXPECT_EQ(store_->manifest().get("x" + std::to_string(taken)).error().code, ErrorCode::not_found);
}

TEST_F(FullDiskTest, WhatMustGoGoes) {
    RONDO_MOUNT(24);
    EXPECT_EQ(write_some(0, 800), 800);
    Shelf shelf(store_->manifest(), store_->keys());
    const StoreName name = shelf.name("t", "id"), tenant = store_->tenant_name("t");
    const std::string canary = "canary-55e1-canary";
    ASSERT_TRUE(shelf.put(name, tenant, {}, std::as_bytes(std::span(canary)), {}));
    EXPECT_TRUE(any_file_has(canary));
    fill();
    put_until_refused();
    const Status removed = shelf.remove(name);
    EXPECT_TRUE(removed) << removed.error().message;
    EXPECT_EQ(shelf.head(name).error().code, ErrorCode::not_found);
    EXPECT_TRUE(store_->remove(name_of(numbered(0))));
    const Status forgotten = store_->forget_removed();
    EXPECT_TRUE(forgotten) << forgotten.error().message;
    EXPECT_FALSE(any_file_has(canary));
    EXPECT_FALSE(is_there(numbered(0)));
    EXPECT_GE(write_some(1000, 10), 5) << "room is made again";
    EXPECT_EQ(store_->manifest().reserve_missing_bytes(), 0U) << "for the reserve, too";
    const int there = all_whole(1010);
    open();
    EXPECT_EQ(all_whole(1010), there);
    EXPECT_EQ(Shelf(store_->manifest(), store_->keys()).name("t", "id"), name);
}

/// Rewriting the manifest takes more than is free, and no more than with the reserve.
TEST_F(FullDiskTest, WhatIsForgottenGetsTheReserveThoughSomeIsFree) {
    RONDO_MOUNT(48);
    std::mt19937_64 random(3);
    const std::string canary = "canary-41c7-canary";
    for (int i = 0; i < 50; ++i) {
        std::string value(100'000, '\0');  // that cannot be compressed
        for (char& letter : value) letter = static_cast<char>(random());
        Manifest::Changes changes;
        changes.put("x" + std::to_string(i), value);
        changes.put("canary", canary);
        ASSERT_TRUE(store_->manifest().commit(std::move(changes)));
    }
    ASSERT_TRUE(store_->forget_removed());
    ASSERT_TRUE(any_file_has(canary));
    fill();
    fs::resize_file(other_on(disk_->path()), fs::file_size(other_on(disk_->path())) - (uint64_t{2} << 20));
    Manifest::Changes changes;
    changes.remove("canary");
    ASSERT_TRUE(store_->manifest().commit_removal(std::move(changes)));
    const Status forgotten = store_->forget_removed();
    EXPECT_TRUE(forgotten) << forgotten.error().message;
    EXPECT_FALSE(any_file_has(canary));
    EXPECT_EQ(store_->manifest().reserve_missing_bytes(), 0U) << "it is taken again";
    for (int i = 0; i < 50; ++i) EXPECT_EQ(store_->manifest().get("x" + std::to_string(i))->size(), 100'000U);
}

TEST_F(FullDiskTest, RoomIsMadeForTheReserve) {
    RONDO_MOUNT(24);
    EXPECT_EQ(write_some(0, 800), 800);
    close();
    fs::remove(options_.path + "/manifest/reserve");
    fill();
    fs::resize_file(other_on(disk_->path()), fs::file_size(other_on(disk_->path())) - (uint64_t{1} << 20));
    open();
    EXPECT_EQ(store_->manifest().reserve_missing_bytes(), Manifest::reserve_bytes);
    EXPECT_EQ(write_some(1000, 3), 3);
    EXPECT_EQ(store_->manifest().reserve_missing_bytes(), 0U);
    EXPECT_GT(all_whole(1003), 100) << "of what is left";
}

/// Opens a store on a small disk, writes, fills the disk, and is killed.
TEST_F(OnSmallDisk, DISABLED_Child) {
    if (testing::ChildProcess::task() == nullptr) GTEST_SKIP() << "a child of other tests";
    std::istringstream task(testing::ChildProcess::task());
    std::string disk;
    size_t log_bytes = 0;
    task >> disk >> log_bytes;
    options_.path = disk + "/kv";
    open();
    for (int i = 0; i < rounds_of_child; ++i) ASSERT_TRUE(try_to_write(numbered(i), 1.0 + i));
    ASSERT_TRUE(store_->forget_removed());
    if (log_bytes > 0) {
        ASSERT_TRUE(put("log", log_bytes));
    }
    fill(disk);
    kill(getpid(), SIGKILL);
}

class KilledOnFullDisk : public FullDiskTest, public ::testing::WithParamInterface<size_t> {};

INSTANTIATE_TEST_SUITE_P(Log, KilledOnFullDisk, ::testing::Values(0, 1'000'000, 3'900'000, 15'000'000));

TEST_P(KilledOnFullDisk, IsOpenedAgain) {
    RONDO_MOUNT(GetParam() < 4'000'000 ? 24 : 64);
    close();
    testing::ChildProcess child("OnSmallDisk.DISABLED_Child", disk_->path() + ' ' + std::to_string(GetParam()),
                                folder_.path());
    const std::string output = child.output();
    const int status = child.wait();
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << output;
    ASSERT_EQ(free_bytes(), 0U);
    open();
    ASSERT_TRUE(store_);
    EXPECT_EQ(all_whole(rounds_of_child), rounds_of_child);
    if (GetParam() > 0) {
        EXPECT_EQ(store_->manifest().get("log")->size(), GetParam());
    }
    EXPECT_TRUE(store_->remove(name_of(numbered(0))));
    empty();
    EXPECT_EQ(write_some(1000, 10), 10);
    EXPECT_EQ(store_->manifest().reserve_missing_bytes(), 0U);
    open();
    EXPECT_EQ(all_whole(1010), rounds_of_child + 9);
    if (GetParam() > 0) {
        EXPECT_EQ(store_->manifest().get("log")->size(), GetParam());
    }
}

}  // namespace
}  // namespace rondo

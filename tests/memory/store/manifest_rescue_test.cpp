#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <vector>

#include "memory/store/manifest.hpp"
#include "tests/memory/store/child_process.hpp"
#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/fault_amount.hpp"
#include "tests/memory/store/store_fixture.hpp"

/// A manifest whose files are damaged: it opens with all that is whole, and with nothing else.
namespace rondo {
namespace {

namespace fs = std::filesystem;

using testing::DiskFaults;
using testing::fault_amount;
using ::testing::HasSubstr;

using Pairs = std::map<std::string, std::string>;

class ManifestRescueTest : public ::testing::Test {
protected:
    static Pairs some_pairs(int from, int count, const std::string& version = "") {
        Pairs pairs;
        for (int i = from; i < from + count; ++i) {
            std::mt19937_64 random(static_cast<uint64_t>(i));
            std::string value = version + std::to_string(i) + ' ';
            while (value.size() < 200) value.push_back(static_cast<char>(random()));
            pairs["key" + std::to_string(1000 + i)] = value;
        }
        return pairs;
    }
    static Status put(Manifest& manifest, const Pairs& pairs) {
        for (const auto& [key, value] : pairs) {
            Manifest::Changes changes;
            changes.put(key, value);
            RONDO_TRY(manifest.commit(std::move(changes)));
        }
        return Status::ok();
    }
    static Pairs all(const Manifest& manifest) {
        Pairs found;
        const Status walked = manifest.each("", [&](std::string_view key, std::string_view value) {
            found.emplace(key, value);
            return Status::ok();
        });
        EXPECT_TRUE(walked) << walked.error().message;
        return found;
    }
    Manifest::Opened open() const {
        auto opened = Manifest::open(path_);
        EXPECT_TRUE(opened) << opened.error().message;
        return opened ? std::move(*opened) : Manifest::Opened{};
    }
    /// A table of some blocks, and a log.
    void make() {
        fs::remove_all(path_);
        const auto opened = open();
        ASSERT_TRUE(put(*opened.manifest, some_pairs(0, 120)));
        ASSERT_TRUE(opened.manifest->forget_removed());
        ASSERT_TRUE(put(*opened.manifest, some_pairs(120, 30)));
    }
    static Pairs made() { return some_pairs(0, 150); }

    /// All files but the reserve, which holds nothing.
    std::map<std::string, std::string> files() const {
        std::map<std::string, std::string> found;
        for (const auto& entry : fs::directory_iterator(path_)) {
            const std::string name = entry.path().filename();
            std::ostringstream bytes;
            if (name != "reserve") bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
            if (name != "reserve") found[name] = bytes.str();
        }
        return found;
    }
    void set(const std::string& name, const std::string& bytes) const {
        std::ofstream(path_ + '/' + name, std::ios::binary) << bytes;
    }
    void set_all(const std::map<std::string, std::string>& files) const {
        fs::remove_all(path_);
        fs::create_directory(path_);
        for (const auto& [name, bytes] : files) set(name, bytes);
    }
    static std::vector<std::string> names_of(const std::map<std::string, std::string>& files, const char* part) {
        std::vector<std::string> found;
        for (const auto& [name, bytes] : files)
            if (name.find(part) != std::string::npos) found.push_back(name);
        return found;
    }
    void change(const std::string& name, size_t at, int mask) const {
        std::string bytes = files().at(name);
        bytes.at(at) = static_cast<char>(bytes.at(at) ^ mask);
        set(name, bytes);
    }
    /// Of the only table: where its properties are, by what one of them says.
    void damage_properties() const {
        const auto tables = names_of(files(), ".sst");
        ASSERT_EQ(tables.size(), 1U);
        const size_t at = files().at(tables[0]).find("BytewiseComparator");
        ASSERT_NE(at, std::string::npos);
        change(tables[0], at, 32);
    }

    testing::Folder folder_{testing::in_memory()};
    const std::string path_ = folder_.path() + "/manifest";
};

/// Of the last KiB of a table nothing has entries. RocksDB ends the process on some of it.
TEST_F(ManifestRescueTest, AChangedByteCostsABlockAtMost) {
    make();
    const auto good = files();
    const Pairs pairs = made();
    int64_t damages = 0, repaired = 0, lost_some = 0;
    for (const auto& [name, bytes] : good) {
        const bool table = name.ends_with(".sst"), log = name.ends_with(".log");
        const size_t last_kib = table ? bytes.size() - 1024 : 0;
        for (size_t at = 0; at < bytes.size() && !HasFailure();) {
            const size_t step = !table && !log  ? fault_amount(17, 1)
                                : at < last_kib ? fault_amount(997, 31)
                                                : fault_amount(23, 1);
            const int mask = at % 3 == 0 ? 255 : 1 << at % 8;
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name + " at " + std::to_string(at));
            set_all(good);
            change(name, at, mask);
            const auto opened = open();
            ASSERT_TRUE(opened.manifest);
            const Pairs found = all(*opened.manifest);
            for (const auto& [key, value] : found) ASSERT_EQ(pairs.at(key), value) << "nothing wrong is served";
            EXPECT_EQ(opened.repaired, !opened.note.empty());
            EXPECT_EQ(std::ranges::count(opened.note, '\n'), 0);
            const size_t lost = pairs.size() - found.size();
            if (log) {
                EXPECT_GE(found.size(), 120U) << "the table is whole";
            } else {
                EXPECT_LE(lost, table && at < last_kib ? 20U : 0U);
            }
            ++damages;
            repaired += opened.repaired;
            lost_some += lost > 0;
            at += step;
        }
    }
    std::cout << damages << " damages, " << repaired << " repaired, " << lost_some << " cost something\n";
    EXPECT_GT(repaired, 10);
}

TEST_F(ManifestRescueTest, ARepairedOneGoesOn) {
    make();
    damage_properties();
    Pairs pairs = made();
    {
        const auto opened = open();
        EXPECT_TRUE(opened.repaired);
        EXPECT_THAT(opened.note, HasSubstr("150 entries are kept"));
        EXPECT_THAT(opened.note, HasSubstr("the block of properties is damaged"));
        EXPECT_EQ(all(*opened.manifest), pairs);
        ASSERT_TRUE(put(*opened.manifest, some_pairs(200, 5)));
        pairs.merge(some_pairs(200, 5));
    }
    const auto again = open();
    EXPECT_FALSE(again.repaired);
    EXPECT_EQ(all(*again.manifest), pairs);
    ASSERT_TRUE(again.manifest->forget_removed());
    EXPECT_EQ(all(*again.manifest), pairs);
}

/// At each start it would turn the store off, and at run time nothing removed would leave the files.
TEST_F(ManifestRescueTest, ASectorThatTheDiskDoesNotReadCostsWhatLiesThere) {
    const auto fails = [this](uint64_t at) {
        DiskFaults::Plan plan{path_, DiskFaults::Kind::io_error, 1, 1'000'000};
        plan.bad_byte = {names_of(files(), ".sst").at(0), at};
        DiskFaults::begin(plan);
    };
    const auto some_are_left = [](const Manifest& manifest) {
        const Pairs left = all(manifest), before = made();
        EXPECT_GE(left.size(), 100U);
        EXPECT_LT(left.size(), before.size());
        for (const auto& [key, value] : left) EXPECT_EQ(before.at(key), value) << key;
        return left;
    };
    make();
    const uint64_t size = files().at(names_of(files(), ".sst").at(0)).size();
    for (const uint64_t at : {size / 3, size - 1}) {  // among entries; where the table says what lies where
        make();
        fails(at);
        Pairs left;
        {
            const auto opened = open();
            EXPECT_TRUE(opened.repaired) << at;
            EXPECT_THAT(opened.note, HasSubstr("blocks of its tables")) << at;
            left = some_are_left(*opened.manifest);
        }
        EXPECT_GT(DiskFaults::end().size(), 0U);
        EXPECT_EQ(all(*open().manifest), left) << at;
        make();
        {
            const auto opened = open();
            fails(at);
            EXPECT_TRUE(opened.manifest->forget_removed()) << at;
            some_are_left(*opened.manifest);
            EXPECT_TRUE(put(*opened.manifest, some_pairs(200, 1)));
        }
        EXPECT_GT(DiskFaults::end().size(), 0U);
    }
}

/// Of its file nothing is read then, and yet the disk reads. What an older table says of its keys may be old.
TEST_F(ManifestRescueTest, ATableThatLiesInSuchASectorCostsItsKeys) {
    make();
    ASSERT_TRUE(put(*open().manifest, some_pairs(40, 3, "newer")));
    open();  // which makes a table of them
    const auto tables = names_of(files(), ".sst");
    const auto smallest =
        std::ranges::min(tables, {}, [&](const std::string& name) { return files().at(name).size(); });
    ASSERT_LT(files().at(smallest).size(), 4096U);
    DiskFaults::Plan plan{path_, DiskFaults::Kind::io_error, 1, 1'000'000};
    plan.bad_byte = {smallest, 0};
    Pairs left = made();
    for (int key = 1040; key < 1043; ++key) left.erase("key" + std::to_string(key));
    DiskFaults::begin(plan);
    {
        const auto opened = open();
        EXPECT_TRUE(opened.repaired);
        EXPECT_EQ(all(*opened.manifest), left);
    }
    EXPECT_GT(DiskFaults::end().size(), 0U);
    EXPECT_EQ(all(*open().manifest), left);
}

TEST_F(ManifestRescueTest, WhoReadsAloneIsToldAndChangesNothing) {
    make();
    damage_properties();
    const auto before = files();
    const auto reading = Manifest::open_to_read(path_);
    ASSERT_FALSE(reading);
    EXPECT_EQ(reading.error().code, ErrorCode::corrupt);
    EXPECT_THAT(reading.error().message, HasSubstr(".sst: the block of properties is damaged"));
    EXPECT_EQ(files(), before);
}

/// Each start makes a table of what the one before it wrote.
TEST_F(ManifestRescueTest, WhatIsOldDoesNotComeBackForWhatIsLost) {
    ASSERT_TRUE(put(*open().manifest, some_pairs(0, 120, "old ")));
    {
        const auto opened = open();
        ASSERT_TRUE(put(*opened.manifest, some_pairs(0, 100, "new ")));
        Manifest::Changes changes;
        for (const auto& [key, value] : some_pairs(100, 10)) changes.remove(key);
        ASSERT_TRUE(opened.manifest->commit(std::move(changes)));
    }
    ASSERT_TRUE(open().manifest);
    const auto good = files();
    const auto tables = names_of(good, ".sst");
    ASSERT_EQ(tables.size(), 2U);
    const std::string& newer = tables[1];
    int64_t lost_some = 0;
    for (size_t at = 0; at < good.at(newer).size() && !HasFailure(); at += static_cast<size_t>(fault_amount(499, 13))) {
        set_all(good);
        change(newer, at, 1 << at % 8);
        const auto opened = open();
        const Pairs found = all(*opened.manifest);
        for (const auto& [key, value] : found) {
            const bool is_new = value.starts_with("new ");
            EXPECT_EQ(is_new, key < "key1100") << key << " of " << at;
            EXPECT_TRUE(is_new || key >= "key1110") << key << " was removed";
        }
        lost_some += found.size() < 110;
    }
    EXPECT_GT(lost_some, 0);
}

TEST_F(ManifestRescueTest, AMissingFileCostsWhatItHeld) {
    make();
    const auto good = files();
    for (const auto& [name, bytes] : good) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, name);
        set_all(good);
        fs::remove(path_ + '/' + name);
        const auto opened = open();
        ASSERT_TRUE(opened.manifest);
        const bool table = name.ends_with(".sst"), log = name.ends_with(".log");
        const Pairs pairs = table ? some_pairs(120, 30) : log ? some_pairs(0, 120) : made();
        EXPECT_EQ(all(*opened.manifest), pairs);
    }
}

TEST_F(ManifestRescueTest, WithoutSpaceNothingIsLost) {
    make();
    damage_properties();
    const auto damaged = files();
    const int64_t stride = fault_amount(5, 1);
    int64_t refused = 0;
    for (int64_t from = 1; !HasFailure(); from += stride) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(from));
        set_all(damaged);
        const auto kind = from % 4 < 2 ? DiskFaults::Kind::no_space : DiskFaults::Kind::quota;
        DiskFaults::begin({path_, kind, from, 1000, from % 2 == 0});
        auto opened = Manifest::open(path_);
        if (opened) {
            EXPECT_EQ(all(*opened->manifest), made());
        } else {
            EXPECT_EQ(opened.error().code, ErrorCode::out_of_memory) << opened.error().message;
            EXPECT_EQ(std::ranges::count(opened.error().message, '\n'), 0);
        }
        refused += !opened;
        if (opened) opened->manifest.reset();
        if (static_cast<int64_t>(DiskFaults::end().size()) < from) break;
        EXPECT_EQ(all(*open().manifest), made());
    }
    EXPECT_GT(refused, 0);
}

/// Opens a manifest and is killed at some boundary of the disk's.
TEST_F(ManifestRescueTest, DISABLED_Child) {
    if (testing::ChildProcess::task() == nullptr) GTEST_SKIP() << "a child of other tests";
    std::istringstream task(testing::ChildProcess::task());
    std::string path;
    int64_t from = 0;
    task >> path >> from;
    const auto kind = from % 2 == 0 ? DiskFaults::Kind::kill : DiskFaults::Kind::kill_and_forget;
    DiskFaults::begin({path, kind, from, 1, from % 3 == 0, static_cast<uint64_t>(from)});
    ASSERT_TRUE(Manifest::open(path));
    testing::ChildProcess::say("opened");
}

TEST_F(ManifestRescueTest, AKillLosesNothing) {
    make();
    damage_properties();
    const auto damaged = files();
    const int64_t stride = fault_amount(4, 1);
    int64_t killed = 0;
    for (int64_t from = 1; !HasFailure(); from += stride) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(from));
        set_all(damaged);
        testing::ChildProcess child("ManifestRescueTest.DISABLED_Child", path_ + ' ' + std::to_string(from),
                                    folder_.path());
        const std::string output = child.output();
        const int status = child.wait();
        if (output.find("@opened") != std::string::npos) break;
        ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << output;
        ++killed;
        const auto opened = open();
        EXPECT_EQ(all(*opened.manifest), made());
        ASSERT_TRUE(opened.manifest->forget_removed());
        EXPECT_EQ(all(*opened.manifest), made());
    }
    std::cout << killed << " kills of a repair\n";
    EXPECT_GE(killed, fault_amount(3, 12));
}

}  // namespace
}  // namespace rondo

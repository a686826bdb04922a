#include "memory/store/manifest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "tests/any_file_has.hpp"
#include "tests/memory/store/child_process.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using Pairs = std::map<std::string, std::string>;

class ManifestTest : public ::testing::Test {
protected:
    Manifest::Opened open() {
        auto opened = Manifest::open(path_);
        EXPECT_TRUE(opened) << opened.error().message;
        return std::move(*opened);
    }
    static Pairs all(const Manifest& manifest, std::string_view begin = "") {
        Pairs found;
        EXPECT_TRUE(manifest.each(begin, [&](std::string_view key, std::string_view value) {
            found.emplace(key, value);
            return Status::ok();
        }));
        return found;
    }
    static Status put(Manifest& manifest, const Pairs& pairs) {
        Manifest::Changes changes;
        for (const auto& [key, value] : pairs) changes.put(key, value);
        return manifest.commit(std::move(changes));
    }
    bool any_file_has(const std::string& text) const { return testing::any_file_has(path_, text); }

    testing::Folder folder_;
    const std::string path_ = folder_.path() + "/manifest";
};

TEST_F(ManifestTest, WhatWasCommittedIsThereAfterAStart) {
    const Pairs pairs = {{"a1", "x"}, {"a2", std::string("\0y", 2)}, {"b", ""}};
    ASSERT_TRUE(put(*open().manifest, pairs));
    const auto again = open();
    EXPECT_FALSE(again.repaired);
    EXPECT_EQ(all(*again.manifest), pairs);
    EXPECT_EQ(all(*again.manifest, "a"), (Pairs{{"a1", "x"}, {"a2", std::string("\0y", 2)}}));
    EXPECT_EQ(again.manifest->get("a1").value(), "x");
    EXPECT_EQ(again.manifest->get("c").error().code, ErrorCode::not_found);
    Manifest::Changes changes;
    changes.remove("a1");
    changes.put("c", "z");
    ASSERT_TRUE(again.manifest->commit(std::move(changes)));
    EXPECT_EQ(all(*again.manifest), (Pairs{{"a2", std::string("\0y", 2)}, {"b", ""}, {"c", "z"}}));
}

TEST_F(ManifestTest, ARefusedPairEndsTheWalk) {
    const auto opened = open();
    ASSERT_TRUE(put(*opened.manifest, {{"1", ""}, {"2", ""}, {"3", ""}}));
    int seen = 0;
    const Status walked = opened.manifest->each("", [&](std::string_view, std::string_view) {
        return ++seen < 2 ? Status::ok() : Status(make_error(ErrorCode::cancelled, "enough"));
    });
    EXPECT_EQ(walked.error().code, ErrorCode::cancelled);
    EXPECT_EQ(seen, 2);
}

TEST_F(ManifestTest, ASecondProcessIsRefused) {
    const auto opened = open();
    const auto second = Manifest::open(path_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(second.error().message, ::testing::HasSubstr("another process has this store open"));
}

/// Times of change and contents of all files.
std::map<std::string, std::pair<fs::file_time_type, std::string>> files_in(const std::string& path) {
    std::map<std::string, std::pair<fs::file_time_type, std::string>> found;
    for (const auto& entry : fs::directory_iterator(path)) {
        std::ostringstream bytes;
        bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
        found[entry.path().filename()] = {entry.last_write_time(), bytes.str()};
    }
    return found;
}

TEST_F(ManifestTest, WhoReadsAloneChangesNothingAndIsAlone) {
    const auto missing = Manifest::open_to_read(path_);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::not_found);
    EXPECT_FALSE(fs::exists(path_));
    const Pairs pairs = {{"a", "in a file"}, {"b", "in the log"}};
    {
        const auto opened = open();
        ASSERT_TRUE(put(*opened.manifest, {{"a", "in a file"}}));
        ASSERT_TRUE(opened.manifest->forget_removed());
        ASSERT_TRUE(put(*opened.manifest, {{"b", "in the log"}}));
        const auto beside = Manifest::open_to_read(path_);
        ASSERT_FALSE(beside);
        EXPECT_THAT(beside.error().message, ::testing::HasSubstr("another process has this store open"));
    }
    const auto before = files_in(path_);
    {
        const auto reading = Manifest::open_to_read(path_);
        ASSERT_TRUE(reading) << reading.error().message;
        EXPECT_EQ(all(**reading), pairs);
        EXPECT_EQ((*reading)->get("b").value(), "in the log");
        EXPECT_FALSE(put(**reading, {{"c", ""}}));
        EXPECT_EQ(files_in(path_), before);
        EXPECT_FALSE(Manifest::open(path_)) << "while it is read";
    }
    EXPECT_EQ(all(*open().manifest), pairs);
}

TEST_F(ManifestTest, FilesAreItsUsersAlone) {
    const auto opened = open();
    ASSERT_TRUE(put(*opened.manifest, {{"a", "b"}}));
    ASSERT_TRUE(opened.manifest->forget_removed());
    int files = 0;
    for (const auto& entry : fs::directory_iterator(path_)) {
        struct stat what = {};
        if (entry.path().filename() == "LOCK") continue;  // empty
        if (stat(entry.path().c_str(), &what) != 0) {
            ASSERT_EQ(errno, ENOENT) << entry.path();  // RocksDB deletes behind its answer
            continue;
        }
        EXPECT_EQ(what.st_mode & 0077U, 0U) << entry.path();
        ++files;
    }
    EXPECT_GE(files, 3);
}

TEST_F(ManifestTest, WhatIsForgottenIsInNoFile) {
    const std::string canary = "canary-7f3a-canary";
    const auto opened = open();
    ASSERT_TRUE(put(*opened.manifest, {{"key", canary}, {"other", "stays"}}));
    EXPECT_TRUE(any_file_has(canary));
    Manifest::Changes changes;
    changes.remove("key");
    ASSERT_TRUE(opened.manifest->commit(std::move(changes)));
    ASSERT_TRUE(opened.manifest->forget_removed());
    EXPECT_FALSE(any_file_has(canary));
    EXPECT_EQ(opened.manifest->get("other").value(), "stays");
}

/// Commits until it is killed, and says so each time.
TEST_F(ManifestTest, DISABLED_Child) {
    if (testing::ChildProcess::task() == nullptr) GTEST_SKIP() << "a child of another test";
    const Manifest::Opened opened = Manifest::open(testing::ChildProcess::task()).value();
    for (int i = 1;; ++i) {
        Manifest::Changes changes;
        changes.put("x", std::to_string(i));
        changes.put("y", std::to_string(i));
        ASSERT_TRUE(opened.manifest->commit(std::move(changes)));
        testing::ChildProcess::say(std::to_string(i));
    }
}

/// A process that is killed has committed all of a change or nothing, and what it said was committed is there.
TEST_F(ManifestTest, AKillLeavesWholeChanges) {
    for (size_t round = 0; round < 5; ++round) {
        testing::ChildProcess child("ManifestTest.DISABLED_Child", path_, folder_.path());
        std::string said = child.output(1 + 5 * round);
        child.kill_it();
        said += child.output();
        child.wait();
        ASSERT_NE(said.rfind('@'), std::string::npos) << said;
        const Manifest::Opened opened = open();
        const Pairs found = all(*opened.manifest);
        ASSERT_TRUE(found.contains("x") && found.contains("y"));
        EXPECT_EQ(found.at("x"), found.at("y"));
        EXPECT_GE(std::stoi(found.at("x")), std::stoi(said.substr(said.rfind('@') + 1)));
    }
}

/// Damage of any file: it opens with what could be read, or says in one line that it cannot; it never crashes.
TEST_F(ManifestTest, DamageIsRepairedOrSaid) {
    std::mt19937_64 random(3);
    int opened_again = 0;
    for (int round = 0; round < 12; ++round) {
        fs::remove_all(path_);
        Pairs pairs;
        for (int i = 0; i < 200; ++i) pairs["key" + std::to_string(i)] = std::to_string(i);
        ASSERT_TRUE(put(*open().manifest, pairs));
        std::vector<fs::path> files;
        for (const auto& entry : fs::directory_iterator(path_))
            if (entry.file_size() > 0) files.push_back(entry.path());
        std::ranges::sort(files);
        const fs::path file = files[random() % files.size()];
        if (round % 2 == 0) {
            fs::resize_file(file, random() % fs::file_size(file));
        } else {
            std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
            bytes.seekp(static_cast<std::streamoff>(random() % fs::file_size(file)));
            bytes.put(static_cast<char>(random()));
        }
        const auto again = Manifest::open(path_);
        if (!again) {
            EXPECT_EQ(std::ranges::count(again.error().message, '\n'), 0);
            continue;
        }
        ++opened_again;
        for (const auto& [key, value] : all(*again->manifest)) EXPECT_EQ(pairs.at(key), value) << file;
    }
    EXPECT_GE(opened_again, 6);
}

}  // namespace
}  // namespace rondo

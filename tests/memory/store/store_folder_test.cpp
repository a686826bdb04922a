#include "memory/store/store_folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

using ::testing::Contains;
using testing::DiskFaults;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string refusal(const std::string& path) {
    const auto opened = StoreFolder::open(path);
    return opened ? "opened" : opened.error().message;
}

TEST(StoreFolder, IsMadeForItsUserAlone) {
    const testing::Folder around;
    const std::string path = around.path() + "/kv";
    const auto folder = StoreFolder::open(path);
    ASSERT_TRUE(folder) << folder.error().message;
    struct stat what = {};
    ASSERT_EQ(stat(path.c_str(), &what), 0);
    EXPECT_EQ(what.st_mode & 0777U, 0700U);
    const auto file = folder->open_file("one", O_RDWR | O_CREAT);
    ASSERT_TRUE(file);
    ASSERT_EQ(fstat(*file, &what), 0);
    EXPECT_EQ(what.st_mode & 0777U, 0600U);
    close(*file);
    EXPECT_THAT(folder->names().value(), ElementsAre("one"));
    EXPECT_THAT(folder->names().value(), ElementsAre("one")) << "again";
    EXPECT_TRUE(folder->sync());
    EXPECT_GT(folder->bytes_free().value(), 0U);
    EXPECT_TRUE(folder->remove("one"));
    EXPECT_TRUE(folder->remove("one")) << "it is gone";
    EXPECT_THAT(folder->names().value(), ElementsAre());
    EXPECT_EQ(refusal(path), "opened") << "one that is there";
}

/// Whatever is synced in a folder is lost when the folder's own name is.
TEST(StoreFolder, ItsNameIsSyncedWhenItIsMade) {
    const testing::Folder around;
    const std::string above = std::filesystem::canonical(around.path()).string(), path = above + "/kv";
    const auto calls = [&] {
        DiskFaults::begin({above});
        const std::string opened = refusal(path);
        std::vector<std::string> met = DiskFaults::end();
        EXPECT_EQ(opened, "opened");
        return met;
    };
    EXPECT_THAT(calls(), ElementsAre("mkdir kv", StartsWith("fsync rondo-test-")));
    EXPECT_THAT(calls(), Not(Contains(StartsWith("fsync")))) << "it was there";
    std::filesystem::remove(path);
    DiskFaults::begin({above, DiskFaults::Kind::io_error, 2});
    const std::string refused = refusal(path);
    DiskFaults::end();
    EXPECT_THAT(refused, HasSubstr("/kv: cannot sync the folder that it lies in"));
    EXPECT_FALSE(std::filesystem::exists(path)) << "else the next start would take it for durable";
    EXPECT_THAT(calls(), ElementsAre("mkdir kv", StartsWith("fsync rondo-test-")));
}

TEST(StoreFolder, OneThatMustBeThereIsNotMade) {
    const testing::Folder around;
    const auto missing = StoreFolder::open_existing(around.path() + "/kv");
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().message, HasSubstr("/kv: No such file"));
    EXPECT_FALSE(std::filesystem::exists(around.path() + "/kv"));
    EXPECT_TRUE(StoreFolder::open_existing(around.path()));
}

TEST(StoreFolder, OthersAndLinksAreRefused) {
    const testing::Folder around;
    const std::string path = around.path() + "/kv";
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
    for (const mode_t mode : {0750, 0705, 0777}) {
        chmod(path.c_str(), mode);
        EXPECT_THAT(refusal(path), HasSubstr("must be closed to others (chmod 700)"));
    }
    chmod(path.c_str(), 0700);
    std::filesystem::create_directory_symlink(path, around.path() + "/link");
    EXPECT_THAT(refusal(around.path() + "/link"), HasSubstr("must be a folder, and not a link"));
    std::ofstream(around.path() + "/file");
    EXPECT_THAT(refusal(around.path() + "/file"), HasSubstr("must be a folder"));
    EXPECT_THAT(refusal(around.path() + "/no/such"), HasSubstr("cannot be made"));
    EXPECT_THAT(refusal("/proc"), HasSubstr("closed to others"));
}

TEST(StoreFolder, FilesInItAreNotLinks) {
    const testing::Folder around;
    const auto folder = StoreFolder::open(around.path() + "/kv").value();
    std::ofstream(around.path() + "/outside") << "theirs";
    std::filesystem::create_symlink(around.path() + "/outside", folder.path() + "/soft");
    std::filesystem::create_hard_link(around.path() + "/outside", folder.path() + "/hard");
    std::filesystem::create_directory(folder.path() + "/folder");
    for (const char* name : {"soft", "hard", "folder", "none"}) {
        EXPECT_FALSE(folder.open_file(name, O_RDWR)) << name;
        EXPECT_FALSE(folder.open_file(name, O_RDONLY)) << name;
    }
    std::ifstream outside(around.path() + "/outside");
    std::string text;
    outside >> text;
    EXPECT_EQ(text, "theirs");
}

}  // namespace
}  // namespace rondo

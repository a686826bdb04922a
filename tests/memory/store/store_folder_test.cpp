#include "memory/store/store_folder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
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

/// A folder that this thread may write and not read, until this ends. Root gives up the right to read all of them.
class NotToBeRead {
public:
    explicit NotToBeRead(std::string folder) : folder_(std::move(folder)) {
        EXPECT_EQ(chmod(folder_.c_str(), S_IWUSR | S_IXUSR), 0);
        EXPECT_EQ(syscall(SYS_capget, &head_, before_), 0);
        Rights less[2] = {before_[0], before_[1]};
        less[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
        EXPECT_EQ(syscall(SYS_capset, &head_, less), 0);
    }
    ~NotToBeRead() {
        EXPECT_EQ(syscall(SYS_capset, &head_, before_), 0);
        EXPECT_EQ(chmod(folder_.c_str(), S_IRWXU), 0);
    }
    NotToBeRead(const NotToBeRead&) = delete;
    NotToBeRead& operator=(const NotToBeRead&) = delete;

private:
    using Rights = __user_cap_data_struct;

    std::string folder_;
    __user_cap_header_struct head_{_LINUX_CAPABILITY_VERSION_3, 0};
    Rights before_[2] = {};
};

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

TEST(StoreFolder, ItsNameIsSyncedInAFolderThatMayNotBeRead) {
    const testing::Folder around(testing::in_memory());  // where all of the file system is synced at once
    const std::string above = std::filesystem::canonical(around.path()).string(), path = above + "/kv";
    const NotToBeRead forbidden(above);
    ASSERT_LT(open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0);
    ASSERT_EQ(errno, EACCES);
    DiskFaults::begin({above, DiskFaults::Kind::io_error, 2});
    const std::string refused = refusal(path);
    EXPECT_THAT(DiskFaults::end(), ElementsAre("mkdir kv", "syncfs kv"));
    EXPECT_THAT(refused, HasSubstr("/kv: cannot sync the file system that it lies on"));
    EXPECT_FALSE(std::filesystem::exists(path)) << "else the next start would take it for durable";
    EXPECT_EQ(refusal(path), "opened");
}

TEST(StoreFolder, OneThatMustBeThereIsNotMade) {
    const testing::Folder around;
    const auto missing = StoreFolder::open_existing(around.path() + "/kv");
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().message, HasSubstr("/kv: No such file"));
    EXPECT_FALSE(std::filesystem::exists(around.path() + "/kv"));
    EXPECT_TRUE(StoreFolder::open_existing(around.path()));
}

TEST(StoreFolder, IsClaimedOnceByWhateverPath) {
    const testing::Folder around;
    const std::string path = around.path() + "/kv", link = around.path() + "/above";
    std::filesystem::create_directory_symlink(around.path(), link);
    auto first = StoreFolder::open(path);
    ASSERT_TRUE(first && first->claim());
    std::optional<StoreFolder> moved(std::move(*first));
    const auto claim = [](const std::string& by) { return StoreFolder::open(by).value().claim(); };
    for (const std::string& by : {path, around.path() + "/./kv", path + "/", link + "/kv"}) {
        const Status refused = claim(by);
        ASSERT_FALSE(refused) << by;
        EXPECT_THAT(refused.error().message, HasSubstr("another engine of this process has this store open"));
    }
    EXPECT_TRUE(claim(around.path() + "/other"));
    moved.reset();
    EXPECT_TRUE(claim(link + "/kv"));
}

TEST(StoreFolder, IsThereWhereverTheProcessGoes) {
    const testing::Folder around;
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(around.path());
    const auto folder = StoreFolder::open("kv");
    std::filesystem::current_path(before);
    ASSERT_TRUE(folder) << folder.error().message;
    EXPECT_TRUE(folder->is_there());
    EXPECT_TRUE(std::filesystem::equivalent(folder->path(), around.path() + "/kv"));
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

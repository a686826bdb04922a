#include "memory/store/folder_key.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <random>

#include "memory/store/byte_io.hpp"
#include "memory/store/record_header.hpp"
#include "tests/memory/store/random_numbers.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

SealKey::Bytes key_of(int byte) {
    SealKey::Bytes key{};
    key.fill(static_cast<std::byte>(byte));
    return key;
}

/// A file with these keys, the first one on top.
KeyFile keys(std::initializer_list<int> bytes) {
    KeyFile file(key_of(*bytes.begin()));
    for (const int* next = bytes.begin() + 1; next != bytes.end(); ++next) file.add(key_of(*next));
    return file;
}

StoreName name_by(const StoreKeys& keys) {
    return keys.name("use", std::as_bytes(std::span(std::string_view("text")))).value();
}

class FolderKeyTest : public ::testing::Test {
protected:
    /// What the folder's key makes of a text; nothing where the file does not open it.
    std::optional<StoreName> opened(const KeyFile& file) {
        auto key = FolderKey::open(folder_, file);
        said_ = key ? key->note : key.error().message;
        if (!key) return {};
        return name_by(key->keys);
    }
    std::optional<StoreName> read(const KeyFile& file) {
        const auto key = FolderKey::read(folder_, file);
        said_ = key ? "" : key.error().message;
        if (!key) return {};
        return name_by(*key);
    }
    std::string bytes() const {
        std::ifstream in(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void put(const std::string& path, const std::string& bytes) const {
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
        chmod(path.c_str(), 0600);
    }

    const testing::Folder around_;
    const StoreFolder folder_ = StoreFolder::open(around_.path() + "/kv").value();
    const std::string path_ = folder_.path() + "/sealed-key";
    std::string said_;
};

TEST_F(FolderKeyTest, IsMadeOnceForEachFolder) {
    EXPECT_FALSE(read(keys({1}))) << "reading makes none";
    const auto made = FolderKey::open(folder_, keys({1})).value();
    EXPECT_TRUE(made.made);
    EXPECT_EQ(made.note, "");
    struct stat what = {};
    ASSERT_EQ(stat(path_.c_str(), &what), 0);
    EXPECT_EQ(what.st_mode & 0777U, 0600U);
    const std::string before = bytes();
    const auto found = FolderKey::open(folder_, keys({1})).value();
    EXPECT_FALSE(found.made);
    EXPECT_EQ(found.note, "");
    EXPECT_EQ(name_by(found.keys), name_by(made.keys));
    EXPECT_EQ(read(keys({1})), name_by(made.keys));
    EXPECT_EQ(bytes(), before);
    EXPECT_THAT(folder_.names().value(), ::testing::ElementsAre("sealed-key"));

    const StoreFolder other = StoreFolder::open(around_.path() + "/other").value();
    EXPECT_NE(name_by(FolderKey::open(other, keys({1})).value().keys), name_by(made.keys));
    EXPECT_NE(name_by(StoreKeys(key_of(1))), name_by(made.keys)) << "it is not the operator's";
}

TEST_F(FolderKeyTest, TheOperatorsKeyIsChangedByTwoStarts) {
    const auto name = opened(keys({1}));
    ASSERT_TRUE(name);
    EXPECT_EQ(read(keys({2, 1})), name);
    EXPECT_EQ(opened(keys({1, 2})), name);
    EXPECT_EQ(said_, "") << "it is the first line's already";
    EXPECT_EQ(opened(keys({2, 3, 1})), name);
    EXPECT_EQ(said_, path_ +
                         ": the key is sealed anew, by the first line of memory.disk.key_file; line 3 is not "
                         "needed here any more");
    EXPECT_EQ(opened(keys({2, 3, 1})), name);
    EXPECT_EQ(said_, "") << "it is said once";
    EXPECT_EQ(opened(keys({2})), name);
    const std::string before = bytes();
    for (const KeyFile& old : {keys({1}), keys({3}), keys({3, 1})}) {
        EXPECT_FALSE(opened(old));
        EXPECT_THAT(said_, HasSubstr(path_ + ": sealed by another key than those of memory.disk.key_file"));
        EXPECT_FALSE(read(old));
    }
    EXPECT_EQ(bytes(), before);
    EXPECT_EQ(opened(keys({3, 2})), name) << "and once more";
}

TEST_F(FolderKeyTest, NothingIsSealedWithoutRandomNumbers) {
    for (const int given : {0, 1, 2}) {
        testing::random_numbers_left = given;
        const auto key = opened(keys({1}));
        testing::random_numbers_left = -1;
        EXPECT_FALSE(key);
        EXPECT_THAT(said_, HasSubstr("no random numbers for "));
        EXPECT_FALSE(fs::exists(path_));
    }
    EXPECT_TRUE(opened(keys({1})));
}

/// Reading by a further line seals nothing anew.
TEST_F(FolderKeyTest, ReadingChangesNothing) {
    const auto name = opened(keys({1}));
    const std::string before = bytes();
    EXPECT_EQ(read(keys({2, 1})), name);
    EXPECT_EQ(bytes(), before);
}

TEST_F(FolderKeyTest, AnyDamageIsSaidAndLeftAlone) {
    const auto name = opened(keys({1}));
    const std::string whole = bytes();
    const auto refused = [&](const std::string& damaged) {
        put(path_, damaged);
        const bool both = !opened(keys({1, 2})) && !read(keys({1, 2}));
        EXPECT_THAT(said_, HasSubstr(path_ + ": damaged; it must be put back from a copy"));
        return both && bytes() == damaged;
    };
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        std::string damaged = whole;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
        EXPECT_TRUE(refused(damaged)) << bit;
    }
    for (size_t size = 0; size < whole.size(); ++size) EXPECT_TRUE(refused(whole.substr(0, size))) << size;
    EXPECT_TRUE(refused(whole + '\0'));
    EXPECT_TRUE(refused(std::string(100'000, 'x')));
    put(path_, whole);
    EXPECT_EQ(opened(keys({1})), name);
}

/// Of somebody who can make a checksum, too.
TEST_F(FolderKeyTest, ForgedBytesAreNotOpened) {
    const auto name = opened(keys({1}));
    const std::string whole = bytes();
    for (size_t bit = 0; bit < 8 * (whole.size() - sizeof(uint64_t)); ++bit) {
        std::string forged = whole.substr(0, whole.size() - sizeof(uint64_t));
        forged[bit / 8] = static_cast<char>(forged[bit / 8] ^ (1 << bit % 8));
        const uint64_t sum = checksum_of(std::as_bytes(std::span(forged)));
        put(path_, forged.append(reinterpret_cast<const char*>(&sum), sizeof(sum)));
        EXPECT_FALSE(opened(keys({1}))) << bit;
        EXPECT_THAT(said_, HasSubstr(bit < 96 ? "must be of version 1" : "sealed by another key")) << bit;
    }
    put(path_, whole);
    EXPECT_EQ(opened(keys({1})), name);
}

TEST_F(FolderKeyTest, AFolderOrALinkInItsPlaceIsRefused) {
    for (const bool link : {true, false}) {
        link ? fs::create_symlink(around_.path() + "/none", path_) : fs::create_directory_symlink("/", path_);
        EXPECT_FALSE(opened(keys({1})));
        EXPECT_THAT(said_, HasSubstr("sealed-key: cannot open"));
        EXPECT_TRUE(fs::is_symlink(path_));
        fs::remove(path_);
    }
    fs::create_directory(path_);
    EXPECT_FALSE(opened(keys({1})));
    EXPECT_TRUE(fs::is_directory(path_));
}

/// The bytes of the new seal as far as a crash let them come, beside the old seal.
TEST_F(FolderKeyTest, ATornSealBesideTheWholeOneIsNoHarm) {
    const auto name = opened(keys({1}));
    const std::string old = bytes();
    ASSERT_EQ(opened(keys({2, 1})), name);
    const std::string next = bytes();
    for (size_t size = 0; size <= next.size(); ++size) {
        put(path_, old);
        put(path_ + ".new", next.substr(0, size));
        EXPECT_EQ(opened(keys({1})), name) << "who takes the new key back again";
        EXPECT_FALSE(fs::exists(path_ + ".new")) << "which then opens nothing here";
        put(path_ + ".new", next.substr(0, size));
        EXPECT_EQ(opened(keys({2, 1})), name);
        EXPECT_FALSE(fs::exists(path_ + ".new"));
        EXPECT_EQ(opened(keys({2})), name);
    }
}

TEST_F(FolderKeyTest, WhatCannotBeSealedAnewKeepsItsOldKey) {
    const auto name = opened(keys({1}));
    const std::string before = bytes();
    fs::create_directories(path_ + ".new/in the way");
    EXPECT_EQ(opened(keys({2, 1})), name);
    EXPECT_THAT(said_, HasSubstr("is not sealed anew, so line 2 of memory.disk.key_file must stay: "));
    EXPECT_EQ(bytes(), before);
    fs::remove_all(path_ + ".new");
    EXPECT_EQ(opened(keys({2, 1})), name);
    EXPECT_THAT(said_, HasSubstr("is sealed anew"));

    fs::remove(path_);
    fs::create_directories(path_ + ".new/in the way");
    EXPECT_FALSE(opened(keys({1}))) << "nothing may be written by a key that is not on the disk";
    EXPECT_FALSE(fs::exists(path_));
}

/// A process killed at any moment while it seals the key anew, again and again.
TEST_F(FolderKeyTest, AKillNeverLosesTheKey) {
    const auto name = opened(keys({1}));
    const uint64_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int turn = 0; turn < 60; ++turn) {
        const pid_t child = fork();
        if (child == 0) {
            for (int i = 0;; ++i)
                if (!FolderKey::open(folder_, i % 2 == 0 ? keys({1, 2}) : keys({2, 1}))) _exit(1);
        }
        usleep(static_cast<useconds_t>(random() % 12'000));
        EXPECT_EQ(kill(child, SIGKILL), 0);
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself: a seal was lost while it ran";
        EXPECT_EQ(read(keys({1, 2})), name);
    }
    EXPECT_EQ(opened(keys({1, 2})), name);
    EXPECT_EQ(opened(keys({1})), name);
}

}  // namespace
}  // namespace rondo

#include "memory/store/key_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;

class KeyFileTest : public ::testing::Test {
protected:
    std::string write(const std::string& text, mode_t mode = 0600) const {
        const std::string path = folder_.path() + "/key";
        std::filesystem::remove(path);
        std::ofstream(path) << text;
        chmod(path.c_str(), mode);
        return path;
    }
    static std::string refusal(const std::string& path) {
        const auto read = KeyFile::read(path);
        return read ? "taken" : read.error().message;
    }
    static StoreName name(const StoreKeys& keys) {
        return keys.name("use", std::as_bytes(std::span(std::string_view("text")))).value();
    }
    /// Of the key whose bytes count on from there.
    static StoreName name_from(int first) {
        SealKey::Bytes bytes{};
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
        return name(StoreKeys(bytes));
    }

    testing::Folder folder_;
    const std::string digits_ = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
    const std::string others_ = "0102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F20";
};

TEST_F(KeyFileTest, IsTakenWithAndWithoutTheEndOfItsLine) {
    for (const char* end : {"", "\n", "\r\n"}) {
        const auto file = KeyFile::read(write(digits_ + end));
        ASSERT_TRUE(file) << file.error().message;
        ASSERT_EQ(file->keys().size(), 1U);
        EXPECT_EQ(name(file->keys()[0]), name_from(0));
    }
}

TEST_F(KeyFileTest, HasFurtherKeysInFurtherLines) {
    std::string text = others_;
    for (size_t keys = 2; keys <= KeyFile::keys_max + 1; ++keys) {
        text += (keys % 2 == 0 ? "\n" : "\r\n") + digits_;
        const auto file = KeyFile::read(write(text));
        if (keys > KeyFile::keys_max) {
            EXPECT_THAT(refusal(write(text)), HasSubstr("must have at most 8 lines"));
            EXPECT_THAT(refusal(write(std::string(100'000, '\n'))), HasSubstr("must have at most 8 lines"));
            continue;
        }
        ASSERT_TRUE(file) << file.error().message;
        ASSERT_EQ(file->keys().size(), keys);
        EXPECT_EQ(name(file->keys().front()), name_from(1));
        EXPECT_EQ(name(file->keys().back()), name_from(0));
    }
}

TEST_F(KeyFileTest, AnythingElseIsRefusedInOneLine) {
    for (const std::string& text : {std::string(), std::string("\n\n"), digits_.substr(1), digits_ + "0",
                                    std::string(64, 'g'), std::string(64, '\0'), "\n" + digits_, " " + digits_})
        EXPECT_THAT(refusal(write(text)), HasSubstr("/key: line 1 must be 64 hexadecimal digits")) << text;
    for (const std::string& text : {digits_ + "\n\n\n" + "x", digits_ + "\n" + digits_.substr(1),
                                    digits_ + "\n\n" + digits_, digits_ + "\n" + digits_ + " # the old one"})
        EXPECT_THAT(refusal(write(text)), HasSubstr("/key: line 2 must be 64 hexadecimal digits")) << text;
    EXPECT_THAT(refusal(write(std::string(100'000, 'a'))), HasSubstr("must have at most 8 lines of 64 digits"));
    EXPECT_EQ(refusal(write(digits_ + "\n" + digits_.substr(1))).find(digits_.substr(1, 8)), std::string::npos)
        << "no key is told";
}

TEST_F(KeyFileTest, OthersAndLinksAreRefused) {
    for (const mode_t mode : {0640, 0604, 0666, 0700 | 0010})
        EXPECT_THAT(refusal(write(digits_, mode)), HasSubstr("chmod 600")) << mode;
    const std::string path = write(digits_), link = folder_.path() + "/link";
    std::filesystem::create_symlink(path, link);
    EXPECT_THAT(refusal(link), HasSubstr("must be a file, and not a link"));
    EXPECT_THAT(refusal(folder_.path()), HasSubstr("must be a file"));
    EXPECT_THAT(refusal(folder_.path() + "/none"), HasSubstr("No such file"));
    EXPECT_THAT(refusal("/dev/zero"), HasSubstr("must be a file"));
}

}  // namespace
}  // namespace rondo

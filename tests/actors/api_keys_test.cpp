#include "actors/gateway/bodies/api_keys.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "config/limits.hpp"

namespace rondo {
namespace {

constexpr const char* key_a = "sk-aaaaaaaaaaaaaaaa";
constexpr const char* key_b = "sk-bbbbbbbbbbbbbbbb#1";

TEST(ApiKeys, LetEveryoneInWithoutAFile) {
    const ApiKeys keys;
    EXPECT_EQ(keys.tenant_of(""), "default");
    EXPECT_EQ(keys.tenant_of("Bearer whatever"), "default");
}

TEST(ApiKeys, KnowTheTenantOfEachKey) {
    const auto keys = ApiKeys::parse(
        "# our keys\n\n  sk-aaaaaaaaaaaaaaaa\tacme \r\n"
        "sk-bbbbbbbbbbbbbbbb#1 Tenant_2-x # the second\nsk-cccccccccccccccc acme",
        "keys");
    ASSERT_TRUE(keys.is_ok()) << keys.error().message;
    EXPECT_EQ(keys->tenant_of(std::string("Bearer ") + key_a), "acme");
    EXPECT_EQ(keys->tenant_of(std::string("bearer  ") + key_a + " "), "acme");
    EXPECT_EQ(keys->tenant_of(std::string("Bearer ") + key_b), "Tenant_2-x");
    EXPECT_EQ(keys->tenant_of("BEARER sk-cccccccccccccccc"), "acme");
}

TEST(ApiKeys, LetNobodyElseIn) {
    const auto keys = ApiKeys::parse(std::string(key_a) + " acme\n", "keys");
    ASSERT_TRUE(keys.is_ok());
    const std::string key = key_a;
    const std::vector<std::string> headers = {"",
                                              "Bearer",
                                              "Bearer ",
                                              "Bearer " + key + "a",
                                              "Bearer " + key.substr(0, key.size() - 1),
                                              "Bearer SK-aaaaaaaaaaaaaaaa",
                                              key,
                                              "Basic " + key,
                                              "Bearer" + key,
                                              "Bearer " + key + " " + key,
                                              "Bearer " + key + std::string(1, '\0'),
                                              "Bearer acme",
                                              "Bearer " + std::string(1 << 20, 'a')};
    for (const std::string& header : headers) {
        EXPECT_EQ(keys->tenant_of(header), std::nullopt) << header.substr(0, 60);
    }
}

TEST(ApiKeys, NameTheLineThatIsWrongAndNeverTheKey) {
    const std::string good = std::string(key_a) + " acme\n";
    const std::string short_key = "short-secret-15";
    struct Row {
        std::string text, message_part;
    };
    for (const Row& row : {Row{short_key + " acme", "keys:1: the key is not 16 to 256"},
                           Row{std::string(257, 'k') + " acme", "keys:1: the key is not 16 to 256"},
                           Row{"sk-secret-\xC3\xA9-secret acme", "keys:1: the key is not"},
                           Row{"# x\n\nsk-secret-secret-secret", "keys:3: no tenant"},
                           Row{"sk-secret-secret-secret # acme", "keys:1: no tenant"},
                           Row{"sk-secret-secret-secret a/b", "keys:1: the tenant is not"},
                           Row{"sk-secret-secret-secret " + std::string(65, 't'), "keys:1: the tenant is not"},
                           Row{"sk-secret-secret-secret acme more", "keys:1: more than two words"},
                           Row{good + "\n" + std::string(key_a) + " other", "keys:3: the key of line 1 again"},
                           Row{"", "keys: no key"}, Row{"# nothing\n\n", "keys: no key"}}) {
        const auto keys = ApiKeys::parse(row.text, "keys");
        ASSERT_FALSE(keys.is_ok()) << row.text;
        EXPECT_NE(keys.error().message.find(row.message_part), std::string::npos) << keys.error().message;
        for (const char* secret : {"secret", "kkkk", key_a}) {
            EXPECT_EQ(keys.error().message.find(secret), std::string::npos) << keys.error().message;
        }
    }
}

/// A file of keys, of this mode.
class KeyFile : public ::testing::Test {
protected:
    ~KeyFile() override { std::filesystem::remove(path_); }
    void write(const std::string& text, mode_t mode = 0600) {
        std::filesystem::remove(path_);
        std::ofstream(path_) << text;
        ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    }
    /// "" when it is taken.
    std::string refusal(mode_t mode, bool shared = false) {
        write(std::string(key_a) + " acme\n", mode);
        const auto keys = ApiKeys::read(path_, shared);
        return keys ? "" : keys.error().message;
    }

    const std::filesystem::path path_ =
        std::filesystem::temp_directory_path() / ("rondo-api-keys-" + std::to_string(::getpid()));
};

TEST_F(KeyFile, IsReadWithinBounds) {
    write(std::string(key_a) + " acme\n");
    const auto keys = ApiKeys::read(path_);
    ASSERT_TRUE(keys.is_ok()) << keys.error().message;
    EXPECT_EQ(keys->tenant_of(std::string("Bearer ") + key_a), "acme");
    write(std::string(limits::api_keys_bytes_max, '#') + "\n");
    EXPECT_EQ(ApiKeys::read(path_).error().code, ErrorCode::out_of_range);
    std::filesystem::remove(path_);
    EXPECT_EQ(ApiKeys::read(path_).error().code, ErrorCode::not_found);
    std::filesystem::create_directory(path_);
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    EXPECT_EQ(ApiKeys::read(path_).error().code, ErrorCode::io);
}

TEST_F(KeyFile, IsRefusedWhenOthersCanReadIt) {
    for (const mode_t mode : {0600, 0400, 0700}) EXPECT_EQ(refusal(mode), "") << mode;
    EXPECT_EQ(refusal(0644), path_.string() + ": mode 0644 lets others read the file of API keys; run: chmod 600 " +
                                 path_.string() + ", or server.api_keys_shared must be true");
    for (const mode_t mode : {0640, 0604, 0444, 0440})
        EXPECT_NE(refusal(mode).find("lets others read"), std::string::npos) << mode;
    EXPECT_NE(refusal(0610).find("lets others run"), std::string::npos);
    EXPECT_EQ(refusal(0622),
              path_.string() + ": mode 0622 lets others write the file of API keys; run: chmod 600 " + path_.string());
}

TEST_F(KeyFile, OfAContainerIsTakenWhereItIsSaidToBeShared) {
    for (const mode_t mode : {0600, 0400, 0644, 0444, 0440, 0555}) EXPECT_EQ(refusal(mode, true), "") << mode;
    for (const mode_t mode : {0664, 0646, 0666, 0620})
        EXPECT_NE(refusal(mode, true).find("lets others write"), std::string::npos) << mode;
}

TEST_F(KeyFile, OfAnotherUserIsRefused) {
    constexpr uid_t other = 12345;
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
    write(std::string(key_a) + " acme\n");
    ASSERT_EQ(::chown(path_.c_str(), other, 0), 0);
    const auto keys = ApiKeys::read(path_);
    ASSERT_FALSE(keys.is_ok());
    EXPECT_EQ(keys.error().message, path_.string() +
                                        ": user 12345 owns the file of API keys and can read it; run: "
                                        "chown 0 " +
                                        path_.string() + ", or server.api_keys_shared must be true");
    EXPECT_TRUE(ApiKeys::read(path_, true).is_ok());
}

}  // namespace
}  // namespace rondo

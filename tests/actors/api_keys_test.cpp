#include "actors/api/api_keys.hpp"

#include <gtest/gtest.h>
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

TEST(ApiKeys, AreReadFromABoundedFile) {
    const auto path = std::filesystem::temp_directory_path() / ("rondo-api-keys-" + std::to_string(::getpid()));
    std::ofstream(path) << key_a << " acme\n";
    const auto keys = ApiKeys::read(path);
    ASSERT_TRUE(keys.is_ok()) << keys.error().message;
    EXPECT_EQ(keys->tenant_of(std::string("Bearer ") + key_a), "acme");
    std::ofstream(path) << std::string(limits::api_keys_bytes_max, '#') << "\n";
    EXPECT_EQ(ApiKeys::read(path).error().code, ErrorCode::out_of_range);
    std::filesystem::remove(path);
    EXPECT_EQ(ApiKeys::read(path).error().code, ErrorCode::not_found);
    EXPECT_FALSE(ApiKeys::read(std::filesystem::temp_directory_path()).is_ok());
}

}  // namespace
}  // namespace rondo

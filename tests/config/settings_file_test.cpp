#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "config/limits.hpp"
#include "config/settings.hpp"
#include "tests/folder.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;

class SettingsFile : public ::testing::Test {
protected:
    std::string written(const std::string& text) const {
        const std::string path = folder_.path() + "/pipeline.yaml";
        std::ofstream(path) << text;
        return path;
    }
    static DiskSettings disk_of(const std::string& path, const std::vector<std::string>& overrides = {}) {
        const Result<Settings> settings = settings_from_file(path, overrides);
        EXPECT_TRUE(settings) << settings.error().message;
        return settings ? settings->memory.disk : DiskSettings();
    }
    static std::string error_of(const std::string& path) {
        const Result<Settings> settings = settings_from_file(path);
        return settings ? "no error" : settings.error().message;
    }

    testing::Folder folder_;
};

TEST_F(SettingsFile, IsReadAsItsText) {
    const std::string text = "preset: loopserve\nmemory: { device_kv_mib: 64 }\n";
    const Result<Settings> settings = settings_from_file(written(text));
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_EQ(*settings, settings_from_yaml(text, "text", {}).value());
}

TEST_F(SettingsFile, ItsPathsOfTheStoreBeginWhereItLies) {
    const std::string path = written("memory: { disk: { path: kv, key_file: /etc/key } }");
    EXPECT_EQ(disk_of(path).path, folder_.path() + "/kv");
    EXPECT_EQ(disk_of(path).key_file, "/etc/key");
    EXPECT_EQ(disk_of(written("{}")).path, "");
}

TEST_F(SettingsFile, PathsOfOverridesBeginWhereTheProcessRuns) {
    const std::string path = written("memory: { disk: { path: kv, key_file: key } }");
    EXPECT_EQ(disk_of(path, {"memory.disk.path=other"}).path, "other");
    EXPECT_EQ(disk_of(path, {"memory.disk.path=other"}).key_file, folder_.path() + "/key");
    EXPECT_EQ(disk_of(path, {"memory.disk={path: other}"}).path, "other");
    EXPECT_EQ(disk_of(path, {"memory={disk: {path: other}}"}).path, "other");
}

TEST_F(SettingsFile, WhatCannotBeReadIsNamed) {
    EXPECT_EQ(error_of(folder_.path() + "/none"), folder_.path() + "/none cannot be read");
    EXPECT_EQ(error_of(folder_.path()), folder_.path() + " cannot be read");
    EXPECT_THAT(error_of(written(std::string(limits::settings_bytes_max + 1, '#'))),
                HasSubstr("pipeline.yaml is too long, must be at most 65536 bytes"));
    EXPECT_THAT(error_of(written("\nserver: { port: -1 }")),
                HasSubstr("pipeline.yaml:2: server.port: is \"-1\", must be a whole number 0 to 65535"));
}

}  // namespace
}  // namespace rondo

#include "config/device_roles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* devices =
    "devices: {a: , b: , c: , g: {kind: cuda}, h: {kind: cuda, ordinal: 1}, i: {kind: cuda}}\n";

/// Of settings that name these devices; "" names none.
Result<Settings> naming(const std::string& prompts, const std::string& answers) {
    std::vector<std::string> overrides;
    if (!prompts.empty()) overrides.push_back("pipeline.prefill.on=" + prompts);
    if (!answers.empty()) overrides.push_back("pipeline.decode.on=" + answers);
    return settings_from_yaml(devices, "f.yaml", overrides);
}

DeviceRoles roles_of(const std::string& prompts, const std::string& answers) {
    const Result<Settings> settings = naming(prompts, answers);
    if (!settings) throw std::runtime_error(settings.error().message);
    const Result<DeviceRoles> roles = checked_device_roles(*settings);
    if (!roles) throw std::runtime_error(roles.error().message);
    return *roles;
}

std::string refused(const std::string& prompts, const std::string& answers) {
    const Result<Settings> settings = naming(prompts, answers);
    return settings ? "no error" : settings.error().message;
}

void expect(const DeviceRoles& roles, const std::vector<std::string>& names, size_t prompts, size_t answers) {
    EXPECT_EQ(roles.names, names);
    EXPECT_EQ(roles.prompts, prompts);
    EXPECT_EQ(roles.answers, answers);
}

TEST(DeviceRoles, EachDeviceHasOnePlaceWhateverItDoes) {
    expect(roles_of("", ""), {"a"}, 1, 0);
    expect(roles_of("[b]", "[b]"), {"b"}, 1, 0);
    expect(roles_of("[b]", "[a]"), {"b", "a"}, 1, 1);
    expect(roles_of("[c, a]", "[b]"), {"c", "a", "b"}, 2, 2);
    expect(roles_of("[c, a]", "[a]"), {"c", "a"}, 2, 1);
    expect(roles_of("[c, a, b]", "[c]"), {"c", "a", "b"}, 3, 0);
    expect(roles_of("[g]", "[g]"), {"g"}, 1, 0);
    expect(roles_of("[g]", "[i]"), {"g", "i"}, 1, 1);
    EXPECT_TRUE(roles_of("[c]", "[a]").has("a"));
    EXPECT_FALSE(roles_of("[c]", "[a]").has("b"));
}

TEST(DeviceRoles, WhereOneRoleHasNoDeviceTheOtherOnesServes) {
    expect(roles_of("", "[b]"), {"b"}, 1, 0);
    expect(roles_of("[b]", ""), {"b"}, 1, 0);
    expect(roles_of("[c, b]", ""), {"c", "b"}, 2, 0);
}

TEST(DeviceRoles, WhatCannotBeIsRefusedInOneLineThatSaysWhereAndWhatMustBe) {
    EXPECT_EQ(refused("[a]", "[a, b]"),
              "--set pipeline.decode.on: pipeline.decode.on: is a list of 2, must be a list of one device's name");
    EXPECT_EQ(refused("[a, b, a]", "[c]"),
              "--set pipeline.prefill.on: pipeline.prefill.on: names a twice, must name each device once");
    EXPECT_EQ(refused("[a, g]", "[a]"),
              "--set pipeline.prefill.on: pipeline.prefill.on: is [a, g], must be CPU "
              "devices, which share memory, or one GPU");
    EXPECT_EQ(refused("[g, h]", "[g]"),
              "--set pipeline.prefill.on: pipeline.prefill.on: is [g, h], must be CPU "
              "devices, which share memory, or one GPU");
    EXPECT_EQ(refused("[a]", "[g]"),
              "--set pipeline.decode.on: pipeline.decode.on: is [g], must be a device of "
              "pipeline.prefill.on, [a], or all must be CPU devices, which share memory");
    EXPECT_EQ(refused("[g]", "[a]"),
              "--set pipeline.decode.on: pipeline.decode.on: is [a], must be a device of "
              "pipeline.prefill.on, [g], or all must be CPU devices, which share memory");
    EXPECT_EQ(refused("[a, b]", "[h]"),
              "--set pipeline.decode.on: pipeline.decode.on: is [h], must be a device of "
              "pipeline.prefill.on, [a, b], or all must be CPU devices, which share memory");
    EXPECT_EQ(refused("[a, bb]", "[a]"),
              "--set pipeline.prefill.on: pipeline.prefill.on: is [\"bb\"], must name one "
              "of devices: a, b, c, g, h or i");
    EXPECT_THAT(refused("[]", ""), HasSubstr("is a list of 0, must be a list of devices' names"));
    EXPECT_THAT(refused("a", ""), HasSubstr("is \"a\", must be a list of devices' names"));
    EXPECT_THAT(refused("[['a']]", ""), HasSubstr("is a list of 1, must be a list of devices' names"));
}

/// Of which there may be ten thousand, in a file from anywhere.
TEST(DeviceRoles, AnErrorStaysShortHoweverManyNamesThereAre) {
    std::string many = "[a";
    for (int i = 0; i < 10'000; ++i) many += ", a";
    EXPECT_LT(refused(many + "]", "").size(), 120U);
}

/// A host fills Settings by itself.
TEST(DeviceRoles, SettingsThatNobodyHasCheckedAreCheckedHere) {
    Settings settings;
    EXPECT_THAT(checked_device_roles(settings).value().names, ElementsAre("cpu"));
    settings.pipeline.decode.on = {"cpu", "cpu"};
    EXPECT_EQ(checked_device_roles(settings).error().message,
              "pipeline.decode.on: is [cpu, cpu], must name one device");
    settings.pipeline.decode.on.clear();
    EXPECT_EQ(checked_device_roles(settings).error().message, "pipeline.decode.on: is [], must name one device");
    settings.pipeline.prefill.on.clear();
    EXPECT_EQ(checked_device_roles(settings).error().message, "pipeline.prefill.on: is empty, must name a device");
    settings.pipeline.prefill.on = {"none"};
    settings.pipeline.decode.on = {"cpu"};
    EXPECT_THAT(checked_device_roles(settings).error().message, HasSubstr("must name one of devices: cpu"));
}

}  // namespace
}  // namespace rondo

#include "config/setting_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <type_traits>

#include "config/limits.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(const Settings& settings) {
    const Status status = check_settings(settings);
    if (status) return "no error";
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
    return status.error().message;
}

/// A key's path as it is in the default settings, whose one device is cpu.
std::string path_of(const SettingKey& key) {
    std::string path(key.path);
    if (const size_t star = path.find('*'); star != std::string::npos) path.replace(star, 1, "cpu");
    return path;
}

/// Values that no key of the type may have.
template <class Value>
std::vector<Value> wrong_values_of(const SettingKey& key) {
    if constexpr (std::is_same_v<Value, int>) {
        return {static_cast<int>(key.low - 1), static_cast<int>(key.high + 1)};
    } else if constexpr (std::is_same_v<Value, double>) {
        return {0.0, -1.0, 1.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
    } else if constexpr (std::is_same_v<Value, std::string>) {
        return {"\n", std::string("a\0b", 3)};
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
        return {{"\n"}, {"", ""}};
    } else if constexpr (std::is_enum_v<Value>) {
        return {static_cast<Value>(99), static_cast<Value>(-1)};
    } else {
        return {};
    }
}

TEST(SettingCheck, TakesTheDefaults) {
    EXPECT_EQ(error_of(Settings()), "no error");
}

TEST(SettingCheck, HoldsEveryKeyToWhatAFileMaySay) {
    size_t checked = 0;
    for (const SettingKey& key : setting_keys()) {
        Settings settings;
        std::visit(
            [&](auto* slot) {
                using Value = std::remove_reference_t<decltype(*slot)>;
                for (const Value& value : wrong_values_of<Value>(key)) {
                    *slot = value;
                    EXPECT_THAT(error_of(settings), StartsWith("settings: " + path_of(key) + ": ")) << key.path;
                    ++checked;
                }
            },
            key.slot(settings, "cpu"));
    }
    EXPECT_GT(checked, 2 * setting_keys().size() - 10) << "all but those that are true or false";
}

TEST(SettingCheck, SaysWhatItIsAndWhatItMustBe) {
    Settings settings;
    settings.pipeline.decode.attention.observe = 0;
    EXPECT_EQ(error_of(settings), "settings: pipeline.decode.attention.observe: is 0, must be a whole number 1 to 256");
    settings = {};
    settings.pipeline.prefill.attention.alpha = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(error_of(settings),
              "settings: pipeline.prefill.attention.alpha: is nan, must be a number above 0 and up to 1");
    settings = {};
    settings.pipeline.methods = {"magic"};
    EXPECT_THAT(error_of(settings), HasSubstr("pipeline.methods: is [\"magic\"], must be a list of dense, loopserve"));
    settings = {};
    settings.server.host = "";
    EXPECT_EQ(error_of(settings), "settings: server.host: is \"\", must be an address or a host's name");
}

TEST(SettingCheck, WantsDevicesWithNamesOfTheirOwn) {
    Settings settings;
    settings.devices.clear();
    EXPECT_EQ(error_of(settings), "settings: devices: are 0, must be 1 to 64");
    settings.devices.resize(limits::devices_max + 1);
    EXPECT_EQ(error_of(settings), "settings: devices: are 65, must be 1 to 64");
    settings.devices = {{.name = "cpu"}, {.name = "cpu"}};
    EXPECT_EQ(error_of(settings), "settings: devices.cpu: is there twice, must be there once");
    settings.devices = {{.name = "a\nb"}};
    EXPECT_THAT(error_of(settings), HasSubstr("must be 1 to 32 letters, digits, _ or -"));
}

TEST(SettingCheck, ChecksKeysTogether) {
    Settings settings;
    settings.devices[0].ordinal = 1;
    EXPECT_EQ(error_of(settings), "settings: devices.cpu.ordinal: is 1, must be 0 where kind is cpu");
    settings = {};
    settings.pipeline.decode.attention.lag_steps = 16;
    EXPECT_THAT(error_of(settings), HasSubstr("lag_steps: is 16, must be below reselect_every, which is 16"));
    settings = {};
    settings.devices[0].kind = DeviceSettings::Kind::cuda;
    settings.pipeline.decode.attention.method = DecodeAttention::Method::quest;
    EXPECT_THAT(error_of(settings), HasSubstr("decode.attention.method: must be dense on a GPU"));
    settings = {};
    settings.pipeline.decode.on = {"gpu"};
    EXPECT_THAT(error_of(settings), HasSubstr("pipeline.decode.on: is [\"gpu\"], must name one of devices: cpu"));
}

}  // namespace
}  // namespace rondo

#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.hpp"

/// A pipeline file called f.yaml: what it says, or what is wrong with it.
namespace rondo::testing {

inline Result<Settings> read(std::string_view text, std::vector<std::string> overrides = {}) {
    return settings_from_yaml(text, "f.yaml", overrides);
}

inline std::string error_of(std::string_view text, std::vector<std::string> overrides = {}) {
    const auto settings = read(text, std::move(overrides));
    if (settings) return "no error";
    EXPECT_EQ(settings.error().message.find('\n'), std::string::npos);
    return settings.error().message;
}

inline Settings value_of(std::string_view text, std::vector<std::string> overrides = {}) {
    const auto settings = read(text, std::move(overrides));
    EXPECT_TRUE(settings) << settings.error().message;
    return settings ? *settings : Settings();
}

}  // namespace rondo::testing

#include "config/setting_values.hpp"

#include <array>
#include <cstdio>
#include <type_traits>

#include "config/setting_keys.hpp"

namespace rondo {

namespace {

template <class Value>
std::string text_of(const Value& value) {
    if constexpr (std::is_same_v<Value, std::string>) {
        return value;
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
        std::string all;
        for (const std::string& one : value) all += one + ',';
        return all;
    } else if constexpr (std::is_same_v<Value, double>) {
        std::array<char, 32> text{};
        std::snprintf(text.data(), text.size(), "%a", value);
        return text.data();
    } else {
        return std::to_string(static_cast<int>(value));
    }
}

}  // namespace

std::string setting_values(const Settings& settings, std::string_view begin) {
    Settings copy = settings;  // slots are for writing
    std::string all;
    for (const SettingKey& key : setting_keys()) {
        if (!key.path.starts_with(begin)) continue;
        const std::string value = std::visit([](const auto* slot) { return text_of(*slot); }, key.slot(copy, ""));
        all += std::string(key.path) + '=' + value + '\n';
    }
    return all;
}

}  // namespace rondo

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/method_names.hpp"
#include "config/settings.hpp"

namespace rondo {

/// Where a key's value goes; its type is the key's type. A double is a share: above 0 and up to 1.
using SettingSlot = std::variant<int*, double*, bool*, std::string*, std::vector<std::string>*, DeviceSettings::Kind*,
                                 DeviceSettings::Bf16*, MemorySettings::KvType*, PrefillAttention::Method*,
                                 PrefillAttention::Overlap*, PrefillAttention::AlphaOf*, DecodeAttention::Method*,
                                 DecodeAttention::PoolSide*, RoundSettings::Method*, ServerSettings::Reasoning*>;

/// One key of a pipeline file. Adding a key is one row of the table, its member in Settings (which has the default) and
/// its lines in reference.yaml.
struct SettingKey {
    std::string_view path;  ///< "pipeline.prefill.chunk_tokens"; "devices.*.kind" for each device
    SettingSlot (*slot)(Settings& settings, std::string_view device);

    int64_t low = 0, high = 0;                       ///< of a whole number; `low` of a list is its least length
    std::span<const std::string_view> names{};       ///< of a choice; for an enum in its order
    bool list = false;                               ///< any number of these names
    bool (*valid)(std::string_view text) = nullptr;  ///< of any other text
    std::string_view shape{};                        ///< in words, where neither range nor names say it

    /// What the value must be: "a whole number 1 to 65536", "bf16, f32 or int8".
    std::string expects() const;
};

std::span<const SettingKey> setting_keys();

/// A key that files of older versions may have, and the one value that says what happens without it.
struct GoneKey {
    std::string_view path, value;
};
std::span<const GoneKey> gone_keys();

/// Fills the method slots as settings.preset says; single keys are read after it and win.
void apply_preset(Settings& settings);

/// "a, b or c".
std::string listed(std::span<const std::string_view> names);

}  // namespace rondo

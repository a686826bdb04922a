#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>

#include "config/method_rows.hpp"

namespace rondo {

/// A name for a method of each phase.
struct Preset {
    std::string_view name;
    PrefillAttention::Method prefill;
    DecodeAttention::Method decode;
    RoundSettings::Method rounds = RoundSettings::Method::none;
};
inline constexpr Preset presets[] = {
    {"dense", PrefillAttention::Method::dense, DecodeAttention::Method::dense},
    {"loopserve", PrefillAttention::Method::loopserve, DecodeAttention::Method::progressive},
    {"rondo", PrefillAttention::Method::loopserve, DecodeAttention::Method::progressive,
     RoundSettings::Method::top_rounds}};

/// Where a method may be named: as the preset, for prompts, for answers, for rounds, or in any of these places.
enum class MethodSlot { preset, prefill, decode, rounds, any };

/// The names that a slot may have, each once, in the order of their rows.
struct MethodNames {
    std::array<std::string_view, std::size(presets) + std::size(prefill_method_rows) + std::size(decode_method_rows) +
                                     std::size(round_method_rows)>
        names{};
    size_t count = 0;

    explicit constexpr MethodNames(MethodSlot slot) {
        const auto is_of = [slot](MethodSlot one) { return slot == one || slot == MethodSlot::any; };
        if (is_of(MethodSlot::preset))
            for (const Preset& preset : presets) add(preset.name);
        if (is_of(MethodSlot::prefill)) add(prefill_method_rows);
        if (is_of(MethodSlot::decode)) add(decode_method_rows);
        // What is none of a preset's methods is called dense where any may be named.
        if (slot == MethodSlot::rounds) add(round_method_rows);
        if (slot == MethodSlot::any) add(std::span(round_method_rows).subspan(1));
    }
    constexpr std::span<const std::string_view> all() const { return {names.data(), count}; }

private:
    constexpr void add(std::string_view name) {
        if (std::ranges::find(all(), name) == all().end()) names[count++] = name;
    }
    constexpr void add(std::span<const MethodRow> rows) {
        for (const MethodRow& row : rows)
            if (row.for_pipelines) add(row.name);
    }
};
inline constexpr std::array method_names = {MethodNames(MethodSlot::preset), MethodNames(MethodSlot::prefill),
                                            MethodNames(MethodSlot::decode), MethodNames(MethodSlot::rounds),
                                            MethodNames(MethodSlot::any)};

constexpr std::span<const std::string_view> names_of_methods(MethodSlot slot) {
    return method_names[static_cast<size_t>(slot)].all();
}

/// Settings read a method as its name's place among the names, so these must be the first rows, in their order.
constexpr bool are_first(std::span<const std::string_view> names, std::span<const MethodRow> rows) {
    return std::ranges::equal(names, rows.first(names.size()), {}, {}, &MethodRow::name);
}
static_assert(are_first(names_of_methods(MethodSlot::prefill), prefill_method_rows));
static_assert(are_first(names_of_methods(MethodSlot::decode), decode_method_rows),
              "a method that pipelines cannot have must stand last");
static_assert(are_first(names_of_methods(MethodSlot::rounds), round_method_rows));

}  // namespace rondo

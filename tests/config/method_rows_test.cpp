#include "config/method_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "config/setting_keys.hpp"

namespace rondo {
namespace {

constexpr std::string_view prompts = "pipeline.prefill.attention.", answers = "pipeline.decode.attention.",
                           of_rounds = "pipeline.rounds.";

std::vector<std::string_view> keys_of(std::string_view phase) {
    std::vector<std::string_view> keys;
    for (const SettingKey& key : setting_keys()) {
        if (!key.path.starts_with(phase)) continue;
        const std::string_view name = key.path.substr(phase.size());
        if (name != "method" && name != "budget_tokens") keys.push_back(name);
    }
    return keys;
}

TEST(MethodRows, HaveNamesOfTheirOwn) {
    std::set<std::string_view> names;
    for (const std::span<const MethodRow> rows : method_rows) {
        EXPECT_EQ(rows[0].name, rows.data() == round_method_rows ? "none" : "dense");
        for (const MethodRow& row : rows.subspan(1)) {
            EXPECT_TRUE(names.insert(row.name).second) << row.name;
            EXPECT_EQ(find_row(row.name), &row);
        }
    }
    EXPECT_EQ(find_row("dens"), nullptr);
}

TEST(MethodRows, KnowTheirPhasesKeysAndLeaveNoneToNobody) {
    for (const auto& [phase, rows] : {std::pair(prompts, std::span<const MethodRow>(prefill_method_rows)),
                                      std::pair(answers, std::span<const MethodRow>(decode_method_rows)),
                                      std::pair(of_rounds, std::span<const MethodRow>(round_method_rows))}) {
        std::set<std::string_view> heeded;
        for (const MethodRow& row : rows) {
            const auto words = words_in(row.keys);
            const std::set<std::string_view> each(words.begin(), words.end());
            EXPECT_EQ(each.size(), words.size()) << row.name;
            heeded.insert(words.begin(), words.end());
        }
        EXPECT_THAT(heeded, ::testing::UnorderedElementsAreArray(keys_of(phase)));
    }
}

TEST(MethodRows, HaveVariantsOfTheKeysThatTheyHeed) {
    for (const auto& [phase, rows] : {std::pair(prompts, std::span<const MethodRow>(prefill_method_rows)),
                                      std::pair(answers, std::span<const MethodRow>(decode_method_rows))}) {
        for (const MethodRow& row : rows) {
            // A preset's name stands for a method of each phase.
            const Preset* const preset = std::ranges::find(presets, row.name, &Preset::name);
            std::vector<std::string_view> keys = words_in(row.keys);
            if (preset != std::end(presets)) {
                const auto more = words_in(row_of(preset->decode).keys);
                keys.insert(keys.end(), more.begin(), more.end());
            }
            for (const std::string_view variant : {row.printed, row.pooled}) {
                std::vector<std::string> overrides;
                for (const std::string_view word : words_in(variant)) {
                    const std::string_view key = word.substr(0, word.find('='));
                    EXPECT_THAT(keys, ::testing::Contains(key)) << row.name;
                    const bool of_prompts = std::ranges::count(keys_of(prompts), key) > 0;
                    overrides.push_back(std::string(of_prompts ? prompts : answers) + std::string(word));
                }
                const auto settings = settings_from_yaml("", row.name.data(), overrides);
                EXPECT_TRUE(settings) << settings.error().message;
            }
            EXPECT_TRUE(row.pooled.empty() || std::ranges::count(keys, "pool") > 0) << row.name;
        }
    }
}

/// Whoever was compared with its authors' code says what came of it.
TEST(MethodRows, SayHowTheyDifferFromTheirAuthorsCode) {
    for (const std::span<const MethodRow> rows : method_rows)
        for (const MethodRow& row : rows) EXPECT_EQ(row.differs.empty(), row.code.empty()) << row.name;
    EXPECT_FALSE(find_row("snapkv")->differs.empty());
}

TEST(MethodRows, AreSplitIntoWords) {
    EXPECT_THAT(words_in(""), ::testing::IsEmpty());
    EXPECT_THAT(words_in("pool"), ::testing::ElementsAre("pool"));
    EXPECT_THAT(words_in("pool=1 window=4096"), ::testing::ElementsAre("pool=1", "window=4096"));
}

TEST(MethodRows, HeedWholeKeysOfTheirLists) {
    const MethodRow row{.name = "some", .keys = "pool_side window"};
    EXPECT_TRUE(heeds(row, "pool_side"));
    EXPECT_TRUE(heeds(row, "window"));
    EXPECT_FALSE(heeds(row, "pool"));
    EXPECT_FALSE(heeds(row, ""));
    EXPECT_FALSE(heeds({.name = "dense"}, "window"));
}

}  // namespace
}  // namespace rondo

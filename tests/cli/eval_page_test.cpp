#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/measure/eval/contestant.hpp"
#include "cli/measure/eval/eval_options.hpp"
#include "cli/measure/eval/methods_page.hpp"
#include "config/method_rows.hpp"
#include "config/setting_keys.hpp"

namespace rondo::cli::eval {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// 100 dialogues at two places: dense always right, the rival nearly, the other less often at the end alone.
PageAnswers answers_of_a_page() {
    PageAnswers made;
    for (uint64_t i = 0; i < 100; ++i) {
        for (const Place place : {Place::begin, Place::end}) {
            const auto add = [&](const char* method, const char* budget, bool exact) {
                EvalRecord record;
                record.method = method;
                record.budget = budget;
                record.dialogue = seeds_of(SeedUse::report).first + i;
                record.place = place;
                record.exact = exact;
                made.records.push_back(record);
            };
            add("dense", "", true);
            add("progressive@pooled", "20%", i % 20 != 0);
            add("snapkv@pooled", "20%", i % 20 != 0 && (place == Place::begin || i % 3 != 0));
        }
    }
    made.tables = tabulate(made.records, "progressive@pooled");
    return made;
}

TEST(MethodsPage, SaysInWordsWhatTheIntervalsSay) {
    const std::string page = methods_page({"roundtalk", "demo", "rondo eval --report", {}, "Seeds of report."},
                                          {answers_of_a_page(), answers_of_a_page()});
    EXPECT_THAT(page, HasSubstr("100 dialogues a\nplace, seeds 20000000 to 20000099. Seeds of report."));
    EXPECT_THAT(page,
                HasSubstr("- snapkv@pooled at 20%: below progressive@pooled at the end; not told apart at the begin."));
    EXPECT_THAT(page, HasSubstr("0.950 ["));
    EXPECT_THAT(page, HasSubstr("- snapkv: the heads of a group share one set of keys"));
    EXPECT_THAT(page, Not(HasSubstr("- dense:")));
    EXPECT_THAT(page, Not(HasSubstr("**Fault:**")));
}

TEST(MethodsPage, ShowsFaults) {
    PageAnswers answers = answers_of_a_page();
    answers.records.push_back(answers.records.back());
    EXPECT_THAT(methods_page({"roundtalk", "demo", "rondo eval --report", {}}, {answers, answers}),
                HasSubstr("**Fault:** snapkv@pooled at 20%: dialogue 20000099 counts twice."));
}

TEST(MethodsPage, EverySectionCanBeRun) {
    for (const PageSection& section : page_sections()) {
        std::vector<std::string> labels;
        for (size_t begin = 0; begin <= section.methods.size();) {
            const size_t end = std::min(section.methods.find(',', begin), section.methods.size());
            labels.push_back(section.methods.substr(begin, end - begin));
            begin = end + 1;
        }
        EXPECT_TRUE(parse_contestants(section.methods, {})) << section.title;
        EXPECT_THAT(labels, ::testing::Contains(section.against)) << section.title;
        EXPECT_THAT(labels, ::testing::Contains("dense")) << section.title;
    }
}

TEST(MethodsPage, NamesTheMethodsThatNoSectionCompares) {
    const auto names = names_of_methods(MethodSlot::any);
    EXPECT_THAT(methods_beside({}), ::testing::ElementsAreArray(names));
    std::vector<std::string_view> others(names.begin(), names.end());
    for (const std::string_view compared : {"dense", "snapkv", "tri_shape"}) std::erase(others, compared);
    PageSection section;
    section.methods = "dense,snapkv@printed,tri_shape:density=0.4";
    EXPECT_THAT(methods_beside({&section, 1}), ::testing::ElementsAreArray(others));
}

TEST(MethodsPage, ComparesMethodsThatNoSectionNames) {
    EXPECT_THAT(methods_beside(page_sections()), ::testing::IsEmpty());
    EXPECT_THAT(sections_of_others(page_sections()), ::testing::IsEmpty());
    PageSection section;
    section.methods = "dense";
    for (const std::string_view name : names_of_methods(MethodSlot::any))
        if (name != "h2o" && name != "recent" && name != "a_shape") section.methods += "," + std::string(name);
    const auto others = sections_of_others({&section, 1});
    ASSERT_EQ(others.size(), 2U);
    EXPECT_EQ(others[0].methods, "dense,progressive@pooled,recent@printed,h2o@printed,h2o@pooled");
    EXPECT_EQ(others[1].methods, "dense,loopserve@preset,a_shape:density=0.4");
    section.methods += ",a_shape";
    EXPECT_EQ(sections_of_others({&section, 1}).size(), 1U) << "none for prompts";
    for (const PageSection& all : sections_of_others({}))
        EXPECT_TRUE(parse_contestants(all.methods, {})) << all.methods;
}

TEST(Contestants, HaveTheVariantsOfTheirRows) {
    for (const std::span<const MethodRow> rows : method_rows) {
        for (const MethodRow& row : rows) {
            const std::string name(row.name);
            if (name == "none") continue;  // which is called dense here
            EXPECT_TRUE(parse_contestant(name + "@printed", {})) << name;
            EXPECT_EQ(parse_contestant(name + "@pooled", {}).is_ok(), !row.pooled.empty()) << name;
        }
    }
    EXPECT_EQ(parse_contestant("h2o@printed", {}).value().decode.window, 4096);
    EXPECT_EQ(parse_contestant("loopserve@printed", {}).value().prefill.alpha, 0.955);
    EXPECT_EQ(parse_contestant("loopserve@printed", {}).value().decode.pool, 1);
}

TEST(Contestants, TakeTheKeysThatTheirRowsNameAndNoOthers) {
    for (const SettingKey& key : setting_keys()) {
        const bool of_prompts = key.path.starts_with(prompt_keys), of_rounds = key.path.starts_with(round_keys);
        if (!of_prompts && !of_rounds && !key.path.starts_with(answer_keys)) continue;
        const std::string name(key.path.substr((of_prompts  ? prompt_keys
                                                : of_rounds ? round_keys
                                                            : answer_keys)
                                                   .size()));
        if (name == "method" || name == "budget_tokens" || name == "overlap" || name == "patterns_file") continue;
        const std::string value(!key.names.empty() ? key.names.back() : key.high > 0 ? std::to_string(key.low) : "0.5");
        for (const MethodRow& row : of_prompts  ? std::span<const MethodRow>(prefill_method_rows)
                                    : of_rounds ? std::span<const MethodRow>(round_method_rows)
                                                : std::span<const MethodRow>(decode_method_rows)) {
            const std::string text = std::string(row.name) + ":" + name + "=" + value;
            EXPECT_EQ(parse_contestant(text, {"pipeline.decode.attention.lag_steps=0"}).is_ok(), heeds(row, name))
                << text;
        }
    }
}

TEST(Contestants, ChooseRoundsBesideLines) {
    const Contestant both = parse_contestant("top_rounds:method=loopserve:alpha=0.5:share=0.25", {}).value();
    EXPECT_TRUE(both.chooses_rounds());
    EXPECT_EQ(both.rounds.share, 0.25);
    EXPECT_EQ(both.prefill.method, PrefillAttention::Method::loopserve);
    EXPECT_EQ(both.prefill.alpha, 0.5);
    EXPECT_FALSE(both.has_budget());
    EXPECT_FALSE(parse_contestant("snapkv", {}).value().chooses_rounds());
    EXPECT_EQ(
        parse_contestant("snapkv:share=0.25", {}).error().message,
        "--methods snapkv:share=0.25: share has no effect where all rounds are attended to; there must be a method "
        "for rounds");
    EXPECT_EQ(parse_contestant("top_rounds:deviations=2", {}).error().message,
              "--methods top_rounds:deviations=2: deviations has no effect on top_rounds; the key must be share or "
              "watershed_layer");
}

}  // namespace
}  // namespace rondo::cli::eval

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/measure/eval/deviations.hpp"
#include "cli/measure/eval/eval_options.hpp"
#include "cli/measure/eval/methods_page.hpp"
#include "config/setting_keys.hpp"

namespace rondo::cli::eval {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// 100 dialogues at two places: dense always right, the rival nearly, the other less often at the end alone.
PageAnswers some_answers() {
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
                                          {some_answers(), some_answers()});
    EXPECT_THAT(page, HasSubstr("100 dialogues a place, seeds 20000000 to 20000099. Seeds of report."));
    EXPECT_THAT(page,
                HasSubstr("- snapkv@pooled at 20%: below progressive@pooled at the end; not told apart at the begin."));
    EXPECT_THAT(page, HasSubstr("0.950 ["));
    EXPECT_THAT(page, HasSubstr("- snapkv: the heads of a group share one set of keys"));
    EXPECT_THAT(page, Not(HasSubstr("- dense:")));
    EXPECT_THAT(page, Not(HasSubstr("**Fault:**")));
}

TEST(MethodsPage, ShowsFaults) {
    PageAnswers answers = some_answers();
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

TEST(Deviations, AreToldOfEveryBaseline) {
    for (const std::string_view method : names_of_methods(MethodSlot::any)) {
        const bool is_baseline = method != "dense" && method != "loopserve" && method != "progressive" &&
                                 method != "random" && method != "recent";
        EXPECT_EQ(!deviation_of(method).empty(), is_baseline) << method;
    }
}

}  // namespace
}  // namespace rondo::cli::eval

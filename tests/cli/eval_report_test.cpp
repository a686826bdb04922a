#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "cli/measure/eval/report.hpp"

namespace rondo::cli::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Key {
    const char* method;
    const char* budget;
};
constexpr Key dense = {"dense", ""}, loopserve = {"loopserve", "20%"}, snapkv = {"snapkv", "20%"};

EvalRecord answer(Key key, uint64_t dialogue, Place place, bool exact) {
    EvalRecord record;
    record.method = key.method;
    record.budget = key.budget;
    record.dialogue = dialogue;
    record.place = place;
    record.round = place == Place::begin ? 3 : 4;
    record.lag = place == Place::begin ? 1 : 3;
    record.exact = exact;
    return record;
}

/// Two dialogues with two questions each. Dense is right in both at the beginning and in one at the end.
std::vector<EvalRecord> some_answers() {
    std::vector<EvalRecord> records = {
        answer(dense, 7, Place::begin, true),     answer(dense, 8, Place::begin, true),
        answer(dense, 7, Place::end, true),       answer(dense, 8, Place::end, false),
        answer(snapkv, 7, Place::begin, true),    answer(snapkv, 8, Place::begin, false),
        answer(snapkv, 7, Place::end, false),     answer(snapkv, 8, Place::end, false),
        answer(loopserve, 7, Place::begin, true), answer(loopserve, 8, Place::begin, true),
        answer(loopserve, 7, Place::end, true),   answer(loopserve, 8, Place::end, true),
    };
    for (size_t i = 8; i < 12; ++i) {
        records[i].mass_mean = 0.9;
        records[i].mass_p5 = 0.5 + 0.1 * static_cast<double>(i - 8);  // mean .65
        records[i].top1_agreement = 1.0;
        records[i].density = 0.25;
        records[i].bytes_resident = 1024.0 * static_cast<double>(i);  // mean 9.5 KiB
    }
    records[8].kl_to_dense = 0.02;
    records[9].kl_to_dense = 0.04;
    return records;
}

EvalFacts some_facts() {
    return {"roundtalk", "demo", "--suite roundtalk --seed 7", {{"rounds", 10}, {"n_d", 4}}};
}

/// As written for people, but without the spaces that only align.
std::string markdown_of(const std::vector<EvalRecord>& records) {
    std::string text = to_markdown(some_facts(), records, tabulate(records));
    for (size_t at; (at = text.find("  |")) != std::string::npos;) text.erase(at, 1);
    return text;
}

std::vector<std::string> titles(const std::vector<EvalTable>& tables) {
    std::vector<std::string> out;
    for (const EvalTable& table : tables) out.push_back(table.title);
    return out;
}

TEST(EvalTables, HaveRatesAndPairedDifferences) {
    const std::vector<EvalRecord> records = some_answers();
    const std::vector<EvalTable> tables = tabulate(records);
    ASSERT_THAT(titles(tables), ElementsAre("recall, by question place", "recall, by lag in rounds"));
    const EvalTable& table = tables[0];
    ASSERT_EQ(table.columns.size(), 2U);  // nothing was asked in the middle
    EXPECT_EQ(table.columns[0].name, "begin");
    EXPECT_EQ(table.columns[1].dense_rate, 0.5);
    EXPECT_TRUE(table.columns[0].is_ranked());
    EXPECT_FALSE(table.columns[1].is_ranked());

    ASSERT_EQ(table.rows.size(), 3U);
    const EvalTable::Row& row = table.rows[1];
    EXPECT_EQ(row.method, "snapkv");
    EXPECT_EQ(row.cells[0].answers, 2U);
    EXPECT_EQ(row.cells[0].exact_rate, 0.5);
    EXPECT_EQ(row.cells[0].exact_interval.low, 0.0);
    EXPECT_EQ(row.cells[0].exact_interval.high, 1.0);
    EXPECT_EQ(row.cells[0].difference, -0.5);
    EXPECT_EQ(row.cells[0].difference_interval.low, -1.0);
    EXPECT_EQ(row.cells[0].difference_interval.high, 0.0);
    EXPECT_EQ(row.all.exact_rate, 0.25);
    EXPECT_EQ(row.all.difference, -0.5);
    EXPECT_EQ(row.all.pairs, 4U);
    EXPECT_EQ(row.all.figures[0], std::nullopt);
    EXPECT_NEAR(*table.rows[2].all.figures[2], 0.65, 1e-12);
    EXPECT_NEAR(*table.rows[2].all.figures[3], 0.03, 1e-12);  // of the two answers that have it
}

TEST(EvalTables, GroupLagsByPowersOfTwo) {
    std::vector<EvalRecord> records;
    for (const size_t lag : {0, 1, 2, 3, 4, 7, 8, 999}) {
        records.push_back(answer(dense, 1, Place::end, true));
        records.back().lag = lag;
        records.back().round = records.size();
    }
    records.push_back(answer(dense, 1, Place::end, false));
    records.back().lag.reset();
    const EvalTable table = tabulate(records)[1];
    std::vector<std::string> names;
    std::vector<size_t> counts;
    for (const EvalTable::Column& column : table.columns) {
        names.push_back(column.name);
        counts.push_back(column.dense_answers);
    }
    EXPECT_THAT(names, ElementsAre("lag 0", "lag 1", "lag 2-3", "lag 4-7", "lag 8-15", "lag 512-1023"));
    EXPECT_THAT(counts, ElementsAre(1, 1, 2, 2, 1, 1));
    EXPECT_EQ(table.rows[0].all.answers, 8U);  // what needs no evidence has no lag
}

TEST(EvalTables, ComeByTaskWhereThereAreSeveral) {
    std::vector<EvalRecord> records = some_answers();
    for (const bool exact : {true, false}) {
        records.push_back(answer(exact ? dense : snapkv, 9, Place::middle, exact));
        records.back().task = Task::unknown;
        records.back().lag.reset();
    }
    const std::vector<EvalTable> tables = tabulate(records);
    ASSERT_THAT(titles(tables),
                ElementsAre("all tasks, by question place", "all tasks, by lag in rounds", "by task",
                            "recall, by question place", "recall, by lag in rounds", "unknown, by question place"));
    const EvalTable& by_task = tables[2];
    EXPECT_EQ(by_task.columns[0].name, "recall");
    EXPECT_EQ(by_task.columns[0].dense_rate, 0.75);
    EXPECT_EQ(by_task.columns[1].name, "unknown");
    EXPECT_EQ(by_task.columns[1].dense_rate, 1.0);
    EXPECT_EQ(by_task.rows[1].cells[1].exact_rate, 0.0);
    EXPECT_EQ(by_task.rows[1].cells[1].difference, -1.0);
    EXPECT_EQ(by_task.rows[2].cells[1].answers, 0U);
}

TEST(EvalTables, PairWithinOneHistoryOnly) {
    std::vector<EvalRecord> records = some_answers();
    records.push_back(answer(snapkv, 7, Place::begin, false));
    records.back().history = History::free_running;
    const std::vector<EvalTable> tables = tabulate(records);
    ASSERT_EQ(tables.size(), 4U);
    EXPECT_EQ(tables[1].history, History::teacher_forced);
    EXPECT_EQ(tables[2].history, History::free_running);
    EXPECT_EQ(tables[2].rows.size(), 1U);
    EXPECT_EQ(tables[2].rows[0].all.answers, 1U);
    EXPECT_EQ(tables[2].rows[0].all.pairs, 0U);
    EXPECT_EQ(tables[0].rows[1].all.answers, 4U);
}

TEST(EvalTables, PairWithinOnePlaceAndOneTaskAskedFor) {
    // All of one seed and round. What was to be asked about nothing told has met a fact, and is a recall too.
    std::vector<EvalRecord> records;
    for (const Key key : {dense, snapkv}) {
        for (const auto asked : {std::optional<Task>(), std::optional(Task::recall), std::optional(Task::unknown)}) {
            for (const Place place : {Place::begin, Place::end}) {
                const bool is_right = asked == Task::unknown ? place == Place::begin : place == Place::end;
                records.push_back(answer(key, 7, place, is_right));
                records.back().asked = asked;
                records.back().round = 4;
                records.back().lag = 2;
            }
        }
    }
    const std::vector<EvalTable> tables = tabulate(records);
    ASSERT_THAT(titles(tables), ElementsAre("recall, by question place", "recall, by lag in rounds"));
    for (const EvalTable& table : tables) {
        const EvalTable::Row& row = table.rows.at(1);
        std::vector<Cell> cells = row.cells;
        cells.push_back(row.all);
        EXPECT_EQ(row.all.pairs, 6U);
        EXPECT_EQ(row.all.exact_rate, 0.5);
        for (const Cell& cell : cells) {
            EXPECT_EQ(cell.pairs, cell.answers);
            EXPECT_EQ(cell.difference, 0.0);
            EXPECT_EQ(cell.difference_interval.low, 0.0);
            EXPECT_EQ(cell.difference_interval.high, 0.0);
        }
    }
}

TEST(EvalRanking, OrdersOneBudgetWhereDenseIsGoodEnough) {
    std::vector<EvalRecord> records = some_answers();
    for (const uint64_t dialogue : {7, 8}) {
        records.push_back(answer({"h2o", "20%"}, dialogue, Place::begin, dialogue == 8));
        records.push_back(answer({"loopserve", "40%"}, dialogue, Place::begin, true));
    }
    const std::vector<Ranking> rankings = rank(tabulate(records)[0]);
    ASSERT_EQ(rankings.size(), 1U);  // not dense alone, not one method at 40%, and not the end
    EXPECT_EQ(rankings[0].budget, "20%");
    EXPECT_EQ(rankings[0].column, "begin");
    std::vector<std::string> order;
    for (const Ranking::Entry& entry : rankings[0].entries) order.push_back(entry.method);
    EXPECT_THAT(order, ElementsAre("loopserve", "snapkv", "h2o"));
    EXPECT_EQ(rankings[0].entries[2].exact_rate, 0.5);
}

TEST(EvalRanking, NeedsNineteenOfTwentyOfDense) {
    const auto rankings = [](size_t right) {
        std::vector<EvalRecord> records;
        for (uint64_t i = 0; i < 20; ++i) {
            records.push_back(answer(dense, i, Place::end, i < right));
            records.push_back(answer(snapkv, i, Place::end, true));
            records.push_back(answer(loopserve, i, Place::end, true));
        }
        return rank(tabulate(records)[0]).size();
    };
    EXPECT_EQ(rankings(19), 1U);
    EXPECT_EQ(rankings(18), 0U);
}

TEST(EvalRanking, IsEmptyWithoutDense) {
    std::vector<EvalRecord> records = some_answers();
    records.erase(records.begin(), records.begin() + 4);
    EXPECT_THAT(rank(tabulate(records)[0]), IsEmpty());
    EXPECT_THAT(markdown_of(records), HasSubstr("- not ranked, begin: no answers of dense\n"));
}

TEST(EvalMarkdown, IsOneRowAMethodAndBudget) {
    const std::string text = markdown_of(some_answers());
    EXPECT_THAT(text, HasSubstr("# roundtalk: demo\n\n12 answers, 2 dialogues, seeds 7, 8; "
                                "`--suite roundtalk --seed 7`\n"));
    EXPECT_THAT(text, HasSubstr("(teacher-forced)\n\n### recall, by question place\n\n"
                                "| method | budget | begin (n=2) | less dense | end (n=2) | less dense | "
                                "mass | chosen mass | mass p5 | KL | top-1 | density | prompt density | lines again | "
                                "sampled rows' mass | others' | "
                                "evidence's | rounds' mass | KV KiB | read KiB |\n|--"));
    EXPECT_THAT(text, HasSubstr("|\n| dense | - | 1.000 [1.000, 1.000] | - | 0.500 [0.000, 1.000] n.r. | - | "
                                "- | - | - | - | - | - | - | - | - | - | - | - | - | - |\n"));
    EXPECT_THAT(text, HasSubstr("|\n| snapkv | 20% | 0.500 [0.000, 1.000] | -0.500 [-1.000, +0.000] | "
                                "0.000 [0.000, 0.000] n.r. | -0.500 [-1.000, +0.000] | - | - | - | - | - | - | - | - | "
                                "- | - | - | - | - | - |\n"));
    EXPECT_THAT(text, HasSubstr("|\n| loopserve | 20% | 1.000 [1.000, 1.000] | +0.000 [+0.000, +0.000] | "
                                "1.000 [1.000, 1.000] n.r. | +0.500 [+0.000, +1.000] | "
                                "0.900 | - | 0.650 | 0.0300 | 1.000 | 0.250 | - | - | - | - | - | - | 9.5 | - |\n"));
    EXPECT_THAT(text, HasSubstr("\n- ranked at 20%, begin: loopserve 1.000 > snapkv 0.500\n"
                                "- not ranked, end: dense is right in 0.500\n"));
    EXPECT_THAT(text, HasSubstr("### recall, by lag in rounds\n\n| method | budget | lag 1 (n=2) | less dense | "
                                "lag 2-3 (n=2) |"));
    EXPECT_THAT(text, Not(HasSubstr("free-running")));
    EXPECT_THAT(text, HasSubstr(" attend to everything and count as mass 1 and density 1: "));
}

TEST(EvalMarkdown, LinesUp) {
    const std::vector<EvalRecord> records = some_answers();
    std::istringstream lines(to_markdown(some_facts(), records, tabulate(records)));
    std::set<size_t> lengths;
    size_t rows = 0;
    for (std::string line; std::getline(lines, line) && !line.starts_with("### recall, by lag");) {
        if (!line.starts_with("|")) continue;
        lengths.insert(line.size());
        ++rows;
    }
    EXPECT_EQ(rows, 5U);
    EXPECT_EQ(lengths.size(), 1U);
}

TEST(EvalMarkdown, SaysWhereAnswersAreMissing) {
    std::vector<EvalRecord> records = some_answers();
    records.pop_back();                                       // loopserve's second at the end
    records.erase(records.begin() + 6, records.begin() + 8);  // snapkv's at the end
    const std::string text = markdown_of(records);
    EXPECT_THAT(text, HasSubstr("1.000 [1.000, 1.000] n=1 n.r. | +0.000 [+0.000, +0.000] | 0.900"));
    EXPECT_THAT(text, HasSubstr("| snapkv | 20% | 0.500 [0.000, 1.000] | -0.500 [-1.000, +0.000] | - | - | -"));
}

TEST(EvalMarkdown, EqualMethodsShareARank) {
    std::vector<EvalRecord> records = some_answers();
    records[5].exact = true;
    EXPECT_THAT(markdown_of(records), HasSubstr("begin: snapkv 1.000 = loopserve 1.000\n"));
}

TEST(EvalMarkdown, NamesSeedsByRuns) {
    std::vector<EvalRecord> records;
    for (const uint64_t dialogue : {40, 1, 2, 3, 9, 10, 3})
        records.push_back(answer(dense, dialogue, Place::end, true));
    EXPECT_THAT(markdown_of(records), HasSubstr("6 dialogues, seeds 1 to 3, 9, 10, 40;"));
    EXPECT_EQ(markdown_of({}), "# roundtalk: demo\n\nNo answers.\n");
}

TEST(EvalJson, HoldsAllFigures) {
    const std::vector<EvalRecord> records = some_answers();
    const auto json = to_json(some_facts(), records, tabulate(records));
    EXPECT_EQ(json.at("eval"), "roundtalk");
    EXPECT_EQ(json.at("settings").at("n_d"), 4);
    EXPECT_EQ(json.at("flags"), "--suite roundtalk --seed 7");
    EXPECT_EQ(json.at("dialogue_seeds").dump(), "[7,8]");
    EXPECT_EQ(json.at("bootstrap").dump(), R"({"resamples":2000,"seed":1,"level":0.95})");
    EXPECT_EQ(json.at("ranked_where_dense_reaches"), 0.95);

    const auto& table = json.at("tables").at(0);
    EXPECT_EQ(table.at("history"), "teacher_forced");
    EXPECT_EQ(table.at("rows").at(0).at("all").at("mass_mean"), nullptr);
    const auto& row = table.at("rows").at(2);
    EXPECT_EQ(row.at("method"), "loopserve");
    EXPECT_EQ(row.at("budget"), "20%");
    EXPECT_EQ(row.at("all").at("bytes_resident"), 1024.0 * 9.5);
    const auto& cell = row.at("cells").at(1);
    EXPECT_EQ(cell.at("column"), "end");
    EXPECT_EQ(cell.at("ranked"), false);
    EXPECT_EQ(cell.at("answers"), 2);
    EXPECT_EQ(cell.at("exact_match"), 1.0);
    EXPECT_EQ(cell.at("exact_match_interval").dump(), "[1.0,1.0]");
    EXPECT_EQ(cell.at("pairs"), 2);
    EXPECT_EQ(cell.at("less_dense"), 0.5);
    EXPECT_EQ(cell.at("less_dense_interval").dump(), "[0.0,1.0]");
    EXPECT_EQ(cell.at("density"), 0.25);
    EXPECT_EQ(cell.at("kl_to_dense"), nullptr);
    ASSERT_EQ(table.at("rankings").size(), 1U);
    EXPECT_EQ(table.at("rankings").at(0).dump(),
              R"({"budget":"20%","column":"begin","order":[{"method":"loopserve","exact_match":1.0},)"
              R"({"method":"snapkv","exact_match":0.5}]})");
}

TEST(EvalJson, HoldsEachAnswer) {
    std::vector<EvalRecord> records = some_answers();
    records[0].lag.reset();
    records[8].asked = Task::list;
    const auto json = to_json(some_facts(), records, tabulate(records));
    ASSERT_EQ(json.at("answers").size(), 12U);
    EXPECT_EQ(json.at("answers").at(0).at("lag"), nullptr);
    EXPECT_EQ(json.at("answers").at(0).at("asked"), "mix");
    EXPECT_EQ(
        json.at("answers").at(8).dump(),
        R"({"method":"loopserve","budget":"20%","history":"teacher_forced","dialogue":7,"round":3,)"
        R"("asked":"list","task":"recall","place":"begin","lag":1,"exact":true,"mass_mean":0.9,"mass_chosen":null,"mass_p5":0.5,)"
        R"("kl_to_dense":0.02,"top1_agreement":1.0,"density":0.25,"prompt_density":null,"line_overlap":null,"prompt_mass":null,)"
        R"("unsampled_mass":null,"evidence_mass":null,"round_mass":null,"bytes_resident":8192.0,"bytes_read":null})");
}

TEST(EvalJson, CellsWithoutAnswersHaveNoRate) {
    std::vector<EvalRecord> records = some_answers();
    records.erase(records.begin() + 6, records.begin() + 8);
    const auto json = to_json(some_facts(), records, tabulate(records));
    const auto& cell = json.at("tables").at(0).at("rows").at(1).at("cells").at(1);
    EXPECT_EQ(cell.at("answers"), 0);
    EXPECT_EQ(cell.at("exact_match"), nullptr);
    EXPECT_FALSE(cell.contains("exact_match_interval"));
    EXPECT_FALSE(cell.contains("less_dense"));
}

}  // namespace
}  // namespace rondo::cli::eval

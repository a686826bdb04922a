#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cli/measure/bench/bench_plot.hpp"
#include "tests/cli/svg_check.hpp"

namespace rondo::cli {
namespace {

using testing::expect_sound_svg;
using ::testing::HasSubstr;
using ::testing::Not;

/// Three repeats at each of some depths: dense takes 2 ms a step, the method 1 ms and its parts.
BenchReport report_of(const std::vector<int64_t>& depths, bool compares) {
    BenchReport report;
    report.kind = BenchReport::Kind::decode;
    report.method = compares ? "progressive" : "dense";
    report.model = "m";
    report.device = "cpu";
    report.kv = "bf16";
    report.batch = 2;
    report.repeat = 3;
    report.is_sweep = true;
    for (const int64_t depth : depths) {
        BenchPoint point{10, depth, {{0.021}, {0.02}, {0.018}}, {}, {}};
        if (compares) {
            for (TimedRun& run : point.dense) run.step.attend = 0.009;
            point.method = {{0.011, 0.001, 0.0005, 0.0003, {.attend = 0.003, .norm = 0.0002}},
                            {0.02},
                            {0.01, 0.002, 0.0005, 0.0005, {.attend = 0.004}}};
            point.more = {{"density", 0.25}};
        }
        point.finish();
        report.points.push_back(point);
    }
    return report;
}

TEST(BenchReport, TheRunInTheMiddleStandsForAll) {
    const auto point = to_json(report_of({64, 512}, true)).at("points").at(1);
    EXPECT_DOUBLE_EQ(point.at("seconds"), 0.011);
    EXPECT_DOUBLE_EQ(point.at("tokens_per_s"), 20 / 0.011);
    EXPECT_DOUBLE_EQ(point.at("tokens_per_s_min"), 20 / 0.02);
    EXPECT_DOUBLE_EQ(point.at("tokens_per_s_max"), 20 / 0.01);
    EXPECT_DOUBLE_EQ(point.at("dense_tokens_per_s"), 20 / 0.02);
    EXPECT_DOUBLE_EQ(point.at("ratio"), 0.018 / 0.01) << "of the third round";
    EXPECT_DOUBLE_EQ(point.at("split").at("score_s"), 0.001);
    EXPECT_DOUBLE_EQ(point.at("split").at("gather_s"), 0.0003);
    EXPECT_DOUBLE_EQ(point.at("split").at("attend_s"), 0.003);
    EXPECT_DOUBLE_EQ(point.at("split").at("rest_s"), 0.011 - 0.001 - 0.0005 - 0.0003 - 0.003);
    EXPECT_DOUBLE_EQ(point.at("rest").at("norm_s"), 0.0002);
    EXPECT_DOUBLE_EQ(point.at("dense_attend_s"), 0.009);
    EXPECT_DOUBLE_EQ(point.at("attention_ratio"), 3.0);
    EXPECT_DOUBLE_EQ(point.at("density"), 0.25);
}

TEST(BenchReport, TheRatioIsTheMedianOfTheRoundsOwn) {
    BenchPoint point{10, 0, {{1.0}, {3.0}}, {{1.0}, {1.0}}, {}};
    point.finish();
    EXPECT_DOUBLE_EQ(point.ratio, 2.0);
}

TEST(BenchReport, TheTableHasALineForEachLength) {
    const std::string both = to_text(report_of({64, 512, 4096}, true));
    EXPECT_EQ(std::count(both.begin(), both.end(), '\n'), 6);
    for (const char* words : {"score", "gather", "1818.2", "1000.0", "1.80", "0.620", "25.0%", "ms of each step"})
        EXPECT_THAT(both, HasSubstr(words));
    const std::string dense = to_text(report_of({64, 512, 4096}, false));
    EXPECT_EQ(std::count(dense.begin(), dense.end(), '\n'), 5);
    EXPECT_THAT(dense, Not(HasSubstr("score")));
}

TEST(BenchPlot, NamesWhatItShows) {
    const std::string svg = draw_bench(report_of({64, 256, 1024}, true));
    expect_sound_svg(svg);
    for (const char* words :
         {"progressive beside dense", "batch 2; 10 steps", "tokens per second", "tokens in the context, logarithmic",
          "milliseconds", ">score<", ">select<", ">gather<", ">attend<", ">rest<", ">dense<", ">progressive<", ">64<",
          ">1024<", ">1.80×<", "above the bars"}) {
        EXPECT_THAT(svg, HasSubstr(words));
    }
    const std::string near = draw_bench(report_of({64, 128}, true));
    EXPECT_THAT(near, Not(HasSubstr("logarithmic")));
}

TEST(BenchPlot, IsSoundWhateverWasMeasured) {
    std::vector<int64_t> many;
    for (int64_t i = 0; i < 16; ++i) many.push_back(100000 + i);
    for (const bool compares : {false, true}) {
        for (const std::vector<int64_t>& depths : {std::vector<int64_t>{0}, {1}, {4096}, {1, 1 << 24}, many})
            expect_sound_svg(draw_bench(report_of(depths, compares)));
    }
    EXPECT_THAT(draw_bench(report_of({64}, false)), Not(HasSubstr(">rest<")));
    BenchReport quick = report_of({64, 4096}, true);
    for (BenchPoint& point : quick.points) point.tokens = 100'000'000;
    expect_sound_svg(draw_bench(quick));
    EXPECT_THAT(draw_bench(quick), HasSubstr("microseconds"));
}

/// As many labels as have room: no two of a row come nearer than their digits are wide.
TEST(BenchPlot, LabelsKeepApart) {
    std::vector<int64_t> many;
    for (int64_t i = 0; i < 16; ++i) many.push_back(100000 + i * i * 400);
    const std::string svg = draw_bench(report_of(many, true));
    std::map<std::string, std::vector<double>> rows;
    for (size_t at = svg.find("<text x=\""); at != svg.npos; at = svg.find("<text x=\"", at + 1)) {
        const size_t end = svg.find("</text>", at), text = svg.find('>', at) + 1;
        if (end - text == 6 && svg[text] == '1' && svg.find('.', text) > end)
            rows[svg.substr(svg.find("y=\"", at), 8)].push_back(std::stod(svg.substr(at + 9)));
    }
    EXPECT_THAT(svg, Not(HasSubstr("above the bars"))) << "there is no room for what it says";
    ASSERT_EQ(rows.size(), 1);
    std::vector<double>& places = rows.begin()->second;
    EXPECT_GE(places.size(), 10);
    std::ranges::sort(places);
    for (size_t i = 1; i < places.size(); ++i) EXPECT_GE(places[i] - places[i - 1], 6 * 6.5);
}

}  // namespace
}  // namespace rondo::cli

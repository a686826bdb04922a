#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/multi_turn/plot.hpp"
#include "cli/multi_turn/svg.hpp"

namespace rondo::cli::multi_turn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Axis, StepsAreRound) {
    EXPECT_DOUBLE_EQ(round_step(10.0, 5), 2.0);
    EXPECT_DOUBLE_EQ(round_step(100.0, 5), 20.0);
    EXPECT_DOUBLE_EQ(round_step(7.0, 5), 2.0);
    EXPECT_DOUBLE_EQ(round_step(0.0123, 5), 0.005);
    EXPECT_DOUBLE_EQ(round_step(49000.0, 5), 10000.0);
    for (const double value : {1.0, 2.0, 5.0, 10.0, 0.001, 500.0, 2e6}) {
        EXPECT_DOUBLE_EQ(round_number(value, true), value);
        EXPECT_DOUBLE_EQ(round_number(value, false), value);
    }
    EXPECT_DOUBLE_EQ(round_number(1.01, true), 2.0);
    EXPECT_DOUBLE_EQ(round_number(1.99, false), 1.0);
    EXPECT_DOUBLE_EQ(round_number(0.07, true), 0.1);
    EXPECT_DOUBLE_EQ(round_number(73.0, false), 50.0);
    EXPECT_EQ(tick_label(2000.0, 500.0), "2000");
    EXPECT_EQ(tick_label(0.15, 0.05), "0.15");
    EXPECT_EQ(tick_label(3.0, 1.0), "3");
    EXPECT_EQ(tick_label(2.5, 0.5), "2.5");
}

/// Every element is closed, and every coordinate is a number.
void expect_sound(const std::string& svg) {
    EXPECT_THAT(svg, ::testing::StartsWith("<svg "));
    EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
    int open = 0;
    for (size_t at = svg.find('<'); at != svg.npos; at = svg.find('<', at + 1)) {
        const size_t end = svg.find('>', at);
        ASSERT_NE(end, svg.npos);
        if (svg[at + 1] == '/') {
            --open;
        } else if (svg[end - 1] != '/') {
            ++open;
        }
    }
    EXPECT_EQ(open, 0);
}

Statistics of(const std::vector<double>& ttft_s, const std::vector<double>& gaps_s) {
    Replayed run;
    run.seconds = 1.0;
    for (size_t i = 0; i < ttft_s.size(); ++i) {
        TurnRecord record;
        record.round = i;
        record.ttft_s = ttft_s[i];
        record.gaps_s = gaps_s;
        record.answer_tokens = static_cast<int64_t>(gaps_s.size()) + 1;
        run.records.push_back(record);
    }
    return gather(run, {});
}

TEST(Plot, ShowsRoundsAndGaps) {
    RunFacts facts;
    facts.workload = "vllm";
    facts.model = "some-model";
    facts.url = "http://h:1";
    facts.mode = "stateless";
    std::vector<double> gaps(200, 0.02);
    gaps.push_back(3.5);
    const std::string svg = draw_plot(facts, of({0.5, 0.1, 0.12}, gaps));
    expect_sound(svg);
    for (const char* words : {"workload vllm", "some-model at http://h:1", "stateless", "3 of 3 answers",
                              "Time to first token, by round", ">p50<", ">p90<", "p99 20.0 ms", ">5000<"}) {
        EXPECT_THAT(svg, HasSubstr(words));
    }
}

TEST(Plot, IsSoundWhateverWasMeasured) {
    expect_sound(draw_plot(RunFacts{}, Statistics{}));
    EXPECT_THAT(draw_plot(RunFacts{}, Statistics{}), HasSubstr("nothing was measured"));
    expect_sound(draw_plot(RunFacts{}, of({0.1}, {})));
    expect_sound(draw_plot(RunFacts{}, of({1e-7}, {0.0, 0.0})));
    expect_sound(draw_plot(RunFacts{}, of({1e5, 1e-5}, {1e-6, 1e4})));
    expect_sound(draw_plot(RunFacts{}, of(std::vector<double>(1000, 0.1), {0.01})));
}

TEST(Plot, NamesAreTextAndNotMarkup) {
    RunFacts facts;
    facts.workload = "x";
    facts.model = "<b>&\x01\"";
    const std::string svg = draw_plot(facts, of({0.1}, {0.1}));
    expect_sound(svg);
    EXPECT_THAT(svg, HasSubstr("&lt;b&gt;&amp; \" at"));
}

}  // namespace
}  // namespace rondo::cli::multi_turn

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/measure/multi_turn/plot.hpp"
#include "tests/cli/svg_check.hpp"

namespace rondo::cli::multi_turn {
namespace {

using testing::expect_sound_svg;
using ::testing::HasSubstr;

Statistics of(const std::vector<double>& ttft_s, const std::vector<double>& gaps_s) {
    Replayed run;
    run.seconds = 1.0;
    for (size_t i = 0; i < ttft_s.size(); ++i) {
        TurnTimes times;
        times.round = i;
        times.ttft_s = ttft_s[i];
        times.gaps_s = gaps_s;
        times.answer_tokens = static_cast<int64_t>(gaps_s.size()) + 1;
        run.turns.push_back(times);
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
    expect_sound_svg(svg);
    for (const char* words : {"workload vllm", "some-model at http://h:1", "stateless", "3 of 3 answers",
                              "Time to first token, by round", ">p50<", ">p90<", "p99 20.0 ms", ">5000<"}) {
        EXPECT_THAT(svg, HasSubstr(words));
    }
}

TEST(Plot, IsSoundWhateverWasMeasured) {
    expect_sound_svg(draw_plot(RunFacts{}, Statistics{}));
    EXPECT_THAT(draw_plot(RunFacts{}, Statistics{}), HasSubstr("nothing was measured"));
    expect_sound_svg(draw_plot(RunFacts{}, of({0.1}, {})));
    expect_sound_svg(draw_plot(RunFacts{}, of({1e-7}, {0.0, 0.0})));
    expect_sound_svg(draw_plot(RunFacts{}, of({1e5, 1e-5}, {1e-6, 1e4})));
    expect_sound_svg(draw_plot(RunFacts{}, of(std::vector<double>(1000, 0.1), {0.01})));
}

TEST(Plot, NamesAreTextAndNotMarkup) {
    RunFacts facts;
    facts.workload = "x";
    facts.model = "<b>&\x01\"";
    const std::string svg = draw_plot(facts, of({0.1}, {0.1}));
    expect_sound_svg(svg);
    EXPECT_THAT(svg, HasSubstr("&lt;b&gt;&amp; \" at"));
}

}  // namespace
}  // namespace rondo::cli::multi_turn

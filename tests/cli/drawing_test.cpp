#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/measure/panel.hpp"
#include "cli/measure/quantile.hpp"
#include "tests/cli/svg_check.hpp"

namespace rondo::cli {
namespace {

using ::testing::HasSubstr;

TEST(Quantile, LiesBetweenNeighbours) {
    const std::vector<double> values = {10, 20, 30, 40, 50};
    EXPECT_DOUBLE_EQ(quantile(values, 0.0), 10.0);
    EXPECT_DOUBLE_EQ(quantile(values, 0.05), 12.0);
    EXPECT_DOUBLE_EQ(quantile(values, 0.5), 30.0);
    EXPECT_DOUBLE_EQ(quantile(values, 0.975), 49.0);
    EXPECT_DOUBLE_EQ(quantile(values, 1.0), 50.0);
    EXPECT_DOUBLE_EQ(quantile(std::vector{7.0}, 0.99), 7.0);
    EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0.0);
}

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

/// A viewer that knows no style sheets shows the attributes; the style changes only what they say.
TEST(Svg, EveryColorHasADarkOne) {
    Svg svg = begin_page("title", "facts");
    svg.dot({1.0, 2.0}, 3.0, colors::teal);
    const std::string text = std::move(svg).finish();
    testing::expect_sound_svg(text);
    for (const Color color : {colors::ground, colors::ink, colors::quiet, colors::teal}) {
        EXPECT_THAT(text, HasSubstr("fill=\"" + std::string(color.light) + "\""));
        EXPECT_THAT(text, HasSubstr("[fill=\"" + std::string(color.light) + "\"]{fill:" + std::string(color.dark)));
    }
}

}  // namespace
}  // namespace rondo::cli

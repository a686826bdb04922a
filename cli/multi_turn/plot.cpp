#include "cli/multi_turn/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "cli/multi_turn/svg.hpp"

namespace rondo::cli::multi_turn {

namespace {

using Point = Svg::Point;
using Anchor = Svg::Anchor;

constexpr std::string_view ink = "#1f2933";
constexpr std::string_view quiet = "#5f6b7a";
constexpr std::string_view grid = "#e3e7ec";
constexpr std::string_view blue = "#2563a8";
constexpr std::string_view light_blue = "#9dbde0";
constexpr std::string_view orange = "#c2681c";

constexpr double width = 1120.0, height = 460.0;
constexpr double panel_top = 122.0, panel_height = 262.0, panel_width = 450.0;
constexpr int bins = 45;

/// A rectangle with two axes. Both begin at a number of their own and end at a round one.
struct Panel {
    double left;
    double x_low, x_high, y_high;

    double x(double value) const { return left + (value - x_low) / (x_high - x_low) * panel_width; }
    double y(double value) const { return panel_top + panel_height * (1.0 - value / y_high); }
};

double round_up(double value, int ticks) {
    if (value <= 0.0) return 1.0;
    const double step = round_step(value, ticks);
    return std::ceil(value / step - 1e-9) * step;
}

void draw_frame(Svg& svg, const Panel& panel, const std::string& title, const std::string& x_name,
                const std::string& y_name) {
    const double bottom = panel_top + panel_height;
    svg.text({panel.left, panel_top - 24.0}, title, 14.0, ink, Anchor::start);
    const double y_step = round_step(panel.y_high, 5);
    for (int i = 0; i * y_step <= panel.y_high * 1.001; ++i) {
        const double at = panel.y(i * y_step);
        svg.line({panel.left, at}, {panel.left + panel_width, at}, grid, 1.0);
        svg.text({panel.left - 8.0, at + 4.0}, tick_label(i * y_step, y_step), 12.0, quiet, Anchor::end);
    }
    svg.line({panel.left, bottom}, {panel.left + panel_width, bottom}, quiet, 1.0);
    svg.text({panel.left + panel_width / 2.0, bottom + 42.0}, x_name, 12.0, quiet, Anchor::middle);
    svg.text_upwards({panel.left - 52.0, panel_top + panel_height / 2.0}, y_name, 12.0, quiet);
}

void draw_x_ticks(Svg& svg, const Panel& panel, double first, double step) {
    const double bottom = panel_top + panel_height;
    for (double value = first; value <= panel.x_high + 1e-9 * step; value += step) {
        svg.line({panel.x(value), bottom}, {panel.x(value), bottom + 5.0}, quiet, 1.0);
        svg.text({panel.x(value), bottom + 20.0}, tick_label(value, step), 12.0, quiet, Anchor::middle);
    }
}

void draw_nothing(Svg& svg, const Panel& panel) {
    svg.text({panel.left + panel_width / 2.0, panel_top + panel_height / 2.0}, "nothing was measured", 13.0, quiet,
             Anchor::middle);
}

/// The name of a curve, at its right end, kept apart from the other's.
void draw_curve(Svg& svg, const std::vector<Point>& points, std::string_view color, double label_y,
                const std::string& name) {
    svg.path(points, color, 2.0);
    for (const Point& point : points) svg.dot(point, 3.2, color);
    svg.text({points.back().x + 9.0, label_y + 4.0}, name, 12.0, color, Anchor::start);
}

void draw_rounds(Svg& svg, const std::vector<Statistics::Round>& rounds, double left) {
    double highest = 0.0;
    for (const auto& round : rounds) highest = std::max(highest, round.ttft_ms.p90);
    const auto last = std::max(static_cast<double>(rounds.size()), 1.0);
    const Panel panel{left, 0.5, last + 0.5, round_up(highest * 1.04, 5)};
    draw_frame(svg, panel, "Time to first token, by round", "round of the conversation", "milliseconds");
    if (highest <= 0.0) return draw_nothing(svg, panel);
    draw_x_ticks(svg, panel, 1.0, std::max(1.0, std::ceil(last / 18.0)));

    std::vector<Point> p50, p90;
    for (size_t i = 0; i < rounds.size(); ++i) {
        if (rounds[i].ttft_ms.count == 0) continue;
        const double x = panel.x(static_cast<double>(i + 1));
        p50.push_back({x, panel.y(rounds[i].ttft_ms.p50)});
        p90.push_back({x, panel.y(rounds[i].ttft_ms.p90)});
    }
    std::vector<Point> band = p90;
    band.insert(band.end(), p50.rbegin(), p50.rend());
    svg.area(band, light_blue, 0.35);
    const double apart = std::max(0.0, 14.0 - (p50.back().y - p90.back().y)) / 2.0;
    draw_curve(svg, p90, light_blue, p90.back().y - apart, "p90");
    draw_curve(svg, p50, blue, p50.back().y + apart, "p50");
}

void draw_mark(Svg& svg, const Panel& panel, double value, const std::string& name, double label_y) {
    const double x = panel.x(value);
    svg.dashed_line({x, label_y + 5.0}, {x, panel_top + panel_height}, orange);
    const bool right_edge = x > panel.left + panel_width - 90.0;
    svg.text({right_edge ? x - 5.0 : x + 5.0, label_y + 4.0},
             name + " " + tick_label(value, value < 10 ? 0.01 : 0.1) + " ms", 12.0, orange,
             right_edge ? Anchor::end : Anchor::start);
}

void draw_gaps(Svg& svg, const std::vector<double>& gaps_ms, double left) {
    const double x_high = round_up(percentile(gaps_ms, 0.99) * 1.05, 6);
    std::vector<double> shares(bins, 0.0);
    for (const double gap : gaps_ms) {
        const auto bin = static_cast<size_t>(gap / x_high * bins);
        if (bin < shares.size()) shares[bin] += 100.0 / static_cast<double>(gaps_ms.size());
    }
    const double highest = *std::max_element(shares.begin(), shares.end());
    // The marks' names have the upper part for themselves.
    const Panel panel{left, 0.0, x_high, round_up(highest * 1.3, 5)};
    draw_frame(svg, panel, "Time between pieces of text (ITL)", "milliseconds", "percent of the gaps");
    if (gaps_ms.empty()) return draw_nothing(svg, panel);
    draw_x_ticks(svg, panel, 0.0, round_step(x_high, 6));

    const double bar_width = panel_width / bins;
    for (int i = 0; i < bins; ++i) {
        const double top = panel.y(shares[static_cast<size_t>(i)]);
        const double bottom = panel_top + panel_height;
        if (bottom - top >= 0.05) svg.bar({left + i * bar_width + 0.5, top}, bar_width - 1.0, bottom - top, blue);
    }
    draw_mark(svg, panel, percentile(gaps_ms, 0.5), "p50", panel_top + 4.0);
    draw_mark(svg, panel, percentile(gaps_ms, 0.9), "p90", panel_top + 20.0);
    draw_mark(svg, panel, percentile(gaps_ms, 0.99), "p99", panel_top + 36.0);
    const auto beyond = static_cast<double>(gaps_ms.end() - std::upper_bound(gaps_ms.begin(), gaps_ms.end(), x_high));
    if (beyond == 0.0) return;
    char note[128];
    std::snprintf(note, sizeof note, "%.2g%% lie beyond, the longest at %.4g ms",
                  100.0 * beyond / static_cast<double>(gaps_ms.size()), gaps_ms.back());
    svg.text({left + panel_width, panel_top - 24.0}, note, 12.0, quiet, Anchor::end);
}

std::string summary_line(const RunFacts& facts, const Statistics& statistics) {
    char figures[160];
    std::snprintf(figures, sizeof figures, "%zu of %zu answers, %.2f requests/s, %.1f output tokens/s",
                  statistics.answers, statistics.requests,
                  statistics.per_second(static_cast<double>(statistics.answers)),
                  statistics.per_second(static_cast<double>(statistics.answer_tokens)));
    return facts.model + " at " + facts.url + "; " + (facts.stateful ? "stateful" : "stateless") + "; " + figures;
}

}  // namespace

std::string draw_plot(const RunFacts& facts, const Statistics& statistics) {
    Svg svg(width, height);
    svg.text({24.0, 38.0}, "Multi-turn chat, workload " + facts.workload, 20.0, ink, Anchor::start);
    svg.text({24.0, 62.0}, summary_line(facts, statistics), 13.0, quiet, Anchor::start);
    draw_rounds(svg, statistics.rounds, 84.0);
    draw_gaps(svg, statistics.gaps_ms, 646.0);
    return std::move(svg).finish();
}

}  // namespace rondo::cli::multi_turn

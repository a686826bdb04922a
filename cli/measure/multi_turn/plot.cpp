#include "cli/measure/multi_turn/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "cli/measure/panel.hpp"
#include "cli/measure/quantile.hpp"

namespace rondo::cli::multi_turn {

namespace {

using Point = Svg::Point;
using Anchor = Svg::Anchor;

constexpr int bins = 45;
// Pieces that arrive together have no time between them; a logarithm needs one.
constexpr double shortest_ms = 0.01;

void draw_nothing(Svg& svg, const Panel& panel) {
    svg.text({panel.left + panel_width / 2.0, panel_top + panel_height / 2.0}, "nothing was measured", 13.0,
             colors::quiet, Anchor::middle);
}

/// The name of a curve, at its right end, kept apart from the other's.
void draw_curve(Svg& svg, const std::vector<Point>& points, Color color, double label_y, const std::string& name) {
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
    const double step = std::ceil(last / 18.0);
    for (double round = 1.0; round <= last; round += step) draw_x_tick(svg, panel.x(round), tick_label(round, 1.0));

    std::vector<Point> p50, p90;
    for (size_t i = 0; i < rounds.size(); ++i) {
        if (rounds[i].ttft_ms.count == 0) continue;
        const double x = panel.x(static_cast<double>(i + 1));
        p50.push_back({x, panel.y(rounds[i].ttft_ms.p50)});
        p90.push_back({x, panel.y(rounds[i].ttft_ms.p90)});
    }
    std::vector<Point> band = p90;
    band.insert(band.end(), p50.rbegin(), p50.rend());
    svg.area(band, colors::light_blue, 0.22);
    const double apart = std::max(0.0, 14.0 - (p50.back().y - p90.back().y)) / 2.0;
    draw_curve(svg, p90, colors::light_blue, p90.back().y - apart, "p90");
    draw_curve(svg, p50, colors::blue, p50.back().y + apart, "p50");
}

void draw_mark(Svg& svg, const Panel& panel, double value, const std::string& name, double label_y) {
    const double x = panel.log_x(std::max(value, panel.x_low));
    svg.dashed_line({x, label_y + 5.0}, {x, panel_bottom}, colors::orange);
    const bool is_right = x > panel.left + panel_width - 110.0;
    const std::string label = name + " " + tick_label(value, value < 10.0 ? 0.01 : 0.1) + " ms";
    svg.text({is_right ? x - 5.0 : x + 5.0, label_y + 4.0}, label, 12.0, colors::orange,
             is_right ? Anchor::end : Anchor::start);
}

/// The times between pieces reach from a step's to a long prompt's of somebody else, so their axis is logarithmic.
void draw_gaps(Svg& svg, const std::vector<double>& gaps_ms, double left) {
    const double low = round_number(std::max(quantile(gaps_ms, 0.005), shortest_ms), false);
    const double high = round_number(std::max(quantile(gaps_ms, 1.0), low * 1.001), true);
    Panel panel{left, low, high, 1.0};
    const double bin_width = panel_width / bins;
    std::vector<double> shares(bins, 0.0);
    for (const double gap : gaps_ms) {
        const double bin = (panel.log_x(std::max(gap, low)) - left) / bin_width;
        shares[std::min<size_t>(static_cast<size_t>(bin), bins - 1)] += 100.0 / static_cast<double>(gaps_ms.size());
    }
    // The marks' names have the upper part for themselves.
    panel.y_high = round_up(*std::max_element(shares.begin(), shares.end()) * 1.25, 5);
    draw_frame(svg, panel, "Time between pieces of text (ITL)", "milliseconds, logarithmic", "percent of the gaps");
    if (gaps_ms.empty()) return draw_nothing(svg, panel);
    const bool only_powers = high / low > 1e4;
    for (double tick = low; tick <= high * 1.001; tick = round_number(tick * 1.001, true)) {
        const bool is_power = std::abs(std::log10(tick) - std::round(std::log10(tick))) < 1e-6;
        if (is_power || !only_powers) draw_x_tick(svg, panel.log_x(tick), tick_label(tick, tick));
    }
    for (size_t i = 0; i < shares.size(); ++i) {
        const double top = panel.y(shares[i]);
        const double height = panel_bottom - top;
        const double x = left + static_cast<double>(i) * bin_width;
        if (height >= 0.05) svg.bar({x + 0.5, top}, bin_width - 1.0, height, colors::blue);
    }
    draw_mark(svg, panel, quantile(gaps_ms, 0.5), "p50", panel_top + 4.0);
    draw_mark(svg, panel, quantile(gaps_ms, 0.9), "p90", panel_top + 20.0);
    draw_mark(svg, panel, quantile(gaps_ms, 0.99), "p99", panel_top + 36.0);
}

std::string summary_line(const RunFacts& facts, const Statistics& statistics) {
    char figures[160];
    std::snprintf(figures, sizeof figures, "%zu of %zu answers, %.2f requests/s, %.1f output tokens/s",
                  statistics.answers, statistics.requests,
                  statistics.per_second(static_cast<double>(statistics.answers)),
                  statistics.per_second(static_cast<double>(statistics.answer_tokens)));
    return facts.model + " at " + facts.url + "; " + facts.mode + "; " + figures;
}

}  // namespace

std::string draw_plot(const RunFacts& facts, const Statistics& statistics) {
    Svg svg = begin_page("Multi-turn chat, workload " + facts.workload, summary_line(facts, statistics));
    draw_rounds(svg, statistics.rounds, left_panel);
    draw_gaps(svg, statistics.gaps_ms, right_panel);
    return std::move(svg).finish();
}

}  // namespace rondo::cli::multi_turn

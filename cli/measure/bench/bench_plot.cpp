#include "cli/measure/bench/bench_plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli/measure/panel.hpp"

namespace rondo::cli {

namespace {

using Point = Svg::Point;

constexpr Color dense_color = colors::grey, method_color = colors::blue;
constexpr double label_size = 12.0;
// About what a character of a label takes: fonts differ, so the width of a text is not known here.
constexpr double character_width = 7.4;
constexpr double log_from_ratio = 8.0;  // lengths that spread further than this stand on a logarithmic axis

/// Of the parts of a run, from the top of a bar to its bottom.
constexpr std::array<Color, std::size(run_parts)> part_colors = {colors::orange, colors::purple,     colors::rose,
                                                                 colors::teal,   colors::light_blue, colors::grey};

double width_of(std::string_view text) {
    return static_cast<double>(text.size()) * character_width;
}

/// Between the panel and its title, at its right end.
void draw_legend(Svg& svg, double left, const std::vector<std::pair<std::string, Color>>& entries) {
    constexpr double swatch = 11.0, gap = 5.0, between = 14.0;
    double at = left + panel_width + between;
    for (const auto& [name, color] : entries) at -= swatch + gap + width_of(name) + between;
    for (const auto& [name, color] : entries) {
        svg.bar({at, panel_top - 17.0}, swatch, swatch, color);
        svg.text({at + swatch + gap, panel_top - 7.0}, name, label_size, colors::quiet, Svg::Anchor::start);
        at += swatch + gap + width_of(name) + between;
    }
}

/// A tick at every place, and labels at as many as have room; the last one always has.
void draw_lengths(Svg& svg, const BenchReport& report, const std::vector<double>& places) {
    double free_to = 1e9;
    for (size_t i = places.size(); i-- > 0;) {
        const std::string label = std::to_string(report.length(report.points[i]));
        const double half = width_of(label) / 2.0;
        const bool fits = places[i] + half <= free_to;
        draw_x_tick(svg, places[i], fits ? label : "");
        if (fits) free_to = places[i] - half - character_width;
    }
}

const char* length_name(const BenchReport& report) {
    return report.kind == BenchReport::Kind::prefill ? "tokens of the prompt" : "tokens in the context";
}

void draw_speed(Svg& svg, const BenchReport& report, double left) {
    double fastest = 0.0;
    for (const BenchPoint& point : report.points) {
        fastest = std::max({fastest, report.tokens_per_s(point, middle(point.dense)),
                            report.tokens_per_s(point, middle(point.shown()))});
    }
    const auto low = static_cast<double>(report.length(report.points.front()));
    const auto high = static_cast<double>(report.length(report.points.back()));
    const bool is_log = low > 0.0 && high > log_from_ratio * low;
    const double margin = is_log ? std::pow(high / low, 0.05) : (high > low ? 0.06 * (high - low) : 1.0);
    const Panel panel{left, is_log ? low / margin : low - margin, is_log ? high * margin : high + margin,
                      round_up(fastest * 1.08, 5)};
    draw_frame(svg, panel, "Throughput", length_name(report) + std::string(is_log ? ", logarithmic" : ""),
               "tokens per second");

    std::vector<double> places;
    for (const BenchPoint& point : report.points) {
        const auto length = static_cast<double>(report.length(point));
        places.push_back(is_log ? panel.log_x(length) : panel.x(length));
    }
    draw_lengths(svg, report, places);
    const auto draw_curve = [&](const std::vector<TimedRun> BenchPoint::*runs, Color color) {
        std::vector<Point> curve;
        for (size_t i = 0; i < places.size(); ++i) {
            const BenchPoint& point = report.points[i];
            const auto y = [&](const TimedRun& run) { return panel.y(report.tokens_per_s(point, run)); };
            curve.push_back({places[i], y(middle(point.*runs))});
        }
        svg.path(curve, color, 2.0);
        for (const Point& point : curve) svg.dot(point, 3.6, color);
    };
    draw_curve(&BenchPoint::dense, dense_color);
    if (report.compares()) draw_curve(&BenchPoint::method, method_color);
    if (report.compares())
        draw_legend(svg, left, {{"dense", dense_color}, {report.method, method_color}});
    else
        draw_legend(svg, left, {{"dense", dense_color}});
}

void draw_stack(Svg& svg, const Panel& panel, const TimedRun& run, double scale, Point foot, double width) {
    for (size_t part = std::size(run_parts); part-- > 0;) {
        const double height = std::max(0.0, scale * run_parts[part].seconds(run)) / panel.y_high * panel_height;
        foot.y -= height;
        svg.bar(foot, width, height, part_colors[part]);
    }
}

/// One slot for each length: dense, and beside it the method's parts, with how many times faster it was above.
void draw_split(Svg& svg, const BenchReport& report, double left) {
    double slowest_ms = 0.0;
    const auto ms_of = [](const BenchPoint& point, const TimedRun& run) {
        return 1e3 * run.seconds / static_cast<double>(point.tokens);
    };
    for (const BenchPoint& point : report.points)
        slowest_ms = std::max({slowest_ms, ms_of(point, middle(point.dense)), ms_of(point, middle(point.shown()))});
    const bool is_small = slowest_ms < 0.1;
    const double units = is_small ? 1e6 : 1e3;
    const auto count = static_cast<double>(report.points.size());
    const Panel panel{left, 0.0, count, round_up(slowest_ms * units / 1e3 * 1.1, 5)};
    const bool is_prefill = report.kind == BenchReport::Kind::prefill;
    const std::string x_name = length_name(report);
    const double slot = panel_width / count;
    const bool has_ratios = report.compares() && slot >= 6.0 * character_width;
    draw_frame(svg, panel, is_prefill ? "Time of a token" : "Time of a step",
               has_ratios ? x_name + " (above the bars: speed over dense's)" : x_name,
               is_small ? "microseconds" : "milliseconds");

    const double width = std::min(0.36 * slot, 40.0), gap = report.compares() ? 1.0 : -width / 2.0;
    std::vector<double> places;
    for (size_t i = 0; i < report.points.size(); ++i) {
        const BenchPoint& point = report.points[i];
        const double scale = units / static_cast<double>(point.tokens);
        const double middle_x = panel.x(static_cast<double>(i) + 0.5);
        places.push_back(middle_x);
        const double dense_top = panel.y(scale * middle(point.dense).seconds);
        svg.bar({middle_x - gap - width, dense_top}, width, panel_bottom - dense_top, dense_color);
        if (!point.compares()) continue;
        draw_stack(svg, panel, middle(point.method), scale, {middle_x + gap, panel_bottom}, width);
        if (!has_ratios) continue;
        char ratio[32];
        std::snprintf(ratio, sizeof ratio, "%.2f×", point.ratio);
        const double top = std::min(dense_top, panel.y(scale * middle(point.method).seconds));
        svg.text({middle_x, top - 6.0}, ratio, label_size, colors::ink, Svg::Anchor::middle);
    }
    draw_lengths(svg, report, places);
    std::vector<std::pair<std::string, Color>> legend = {{"dense", dense_color}};
    if (report.compares())
        for (size_t part = std::size(run_parts); part-- > 0;)
            legend.emplace_back(run_parts[part].name, part_colors[part]);
    draw_legend(svg, left, legend);
}

std::string facts_of(const BenchReport& report) {
    const int64_t depth = report.points.front().depth, tokens = report.points.front().tokens;
    std::string text = report.model + " on " + report.device + "; KV " + report.kv;
    if (report.kind == BenchReport::Kind::decode)
        text += "; batch " + std::to_string(report.batch) + "; " + std::to_string(tokens) + " steps";
    else if (depth > 0)
        text += "; behind " + std::to_string(depth) + " tokens";
    return text + "; median of " + std::to_string(report.repeat);
}

}  // namespace

std::string draw_bench(const BenchReport& report) {
    const std::string what = report.kind == BenchReport::Kind::prefill ? "Prefill" : "Decode";
    const std::string against = report.compares() ? report.method + " beside dense" : "dense";
    Svg svg = begin_page(what + " over the length of the context, " + against, facts_of(report));
    draw_speed(svg, report, left_panel);
    draw_split(svg, report, right_panel);
    return std::move(svg).finish();
}

}  // namespace rondo::cli

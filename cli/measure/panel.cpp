#include "cli/measure/panel.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace rondo::cli {

namespace {
constexpr double page_width = 1120.0, page_height = 460.0;
}

double Panel::log_x(double value) const {
    return left + std::log(value / x_low) / std::log(x_high / x_low) * panel_width;
}

Svg begin_page(const std::string& title, const std::string& facts) {
    Svg svg(page_width, page_height);
    svg.text({24.0, 38.0}, title, 20.0, colors::ink, Svg::Anchor::start);
    svg.text({24.0, 62.0}, facts, 13.0, colors::quiet, Svg::Anchor::start);
    return svg;
}

void draw_frame(Svg& svg, const Panel& panel, const std::string& title, const std::string& x_name,
                const std::string& y_name) {
    svg.text({panel.left, panel_top - 24.0}, title, 14.0, colors::ink, Svg::Anchor::start);
    const double y_step = round_step(panel.y_high, 5);
    for (int i = 0; i * y_step <= panel.y_high * 1.001; ++i) {
        const double at = panel.y(i * y_step);
        svg.line({panel.left, at}, {panel.left + panel_width, at}, colors::grid, 1.0);
        svg.text({panel.left - 8.0, at + 4.0}, tick_label(i * y_step, y_step), 12.0, colors::quiet, Svg::Anchor::end);
    }
    svg.line({panel.left, panel_bottom}, {panel.left + panel_width, panel_bottom}, colors::quiet, 1.0);
    svg.text({panel.left + panel_width / 2.0, panel_bottom + 42.0}, x_name, 12.0, colors::quiet, Svg::Anchor::middle);
    svg.text_upwards({panel.left - 52.0, panel_top + panel_height / 2.0}, y_name, 12.0, colors::quiet);
}

void draw_x_tick(Svg& svg, double x, const std::string& label) {
    svg.line({x, panel_bottom}, {x, panel_bottom + 5.0}, colors::quiet, 1.0);
    if (label.empty()) return;
    svg.text({x, panel_bottom + 20.0}, label, 12.0, colors::quiet, Svg::Anchor::middle);
}

double round_step(double span, int count) {
    return round_number(span / count, true);
}

double round_number(double value, bool up) {
    constexpr double slack = 1e-9;  // so that a round number stays itself
    const double power = std::pow(10.0, std::floor(std::log10(value) + slack));
    double below = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
        if (factor * power > value * (1.0 + slack)) return up && below < value * (1.0 - slack) ? factor * power : below;
        below = factor * power;
    }
    return below;
}

double round_up(double value, int ticks) {
    if (value <= 0.0) return 1.0;
    const double step = round_step(value, ticks);
    return std::ceil(value / step - 1e-9) * step;
}

std::string tick_label(double value, double step) {
    const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

}  // namespace rondo::cli

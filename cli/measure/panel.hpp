#pragma once

#include <string>

#include "cli/measure/svg.hpp"

namespace rondo::cli {

/// Drawings are pages of one size with two panels side by side.
inline constexpr double left_panel = 84.0, right_panel = 646.0;
inline constexpr double panel_top = 122.0, panel_width = 450.0, panel_height = 262.0;
inline constexpr double panel_bottom = panel_top + panel_height;

/// A rectangle with two axes; the vertical one begins at 0.
struct Panel {
    double left;
    double x_low, x_high, y_high;

    double x(double value) const { return left + (value - x_low) / (x_high - x_low) * panel_width; }
    /// Where the horizontal axis is logarithmic.
    double log_x(double value) const;
    double y(double value) const { return panel_top + panel_height * (1.0 - value / y_high); }
};

Svg begin_page(const std::string& title, const std::string& facts);
/// A panel's title, horizontal grid and the names of its axes.
void draw_frame(Svg& svg, const Panel& panel, const std::string& title, const std::string& x_name,
                const std::string& y_name);
/// With a label, or without.
void draw_x_tick(Svg& svg, double x, const std::string& label);

/// A step of 1, 2 or 5 times a power of ten, so that about `count` of them make `span`.
double round_step(double span, int count);
/// The next such number above or below a value, or the value itself.
double round_number(double value, bool up);
/// Where an axis with about so many ticks ends, if it is to hold `value`.
double round_up(double value, int ticks);
/// A number as short as its step allows.
std::string tick_label(double value, double step);

}  // namespace rondo::cli

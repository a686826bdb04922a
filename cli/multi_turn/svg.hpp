#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::cli::multi_turn {

/// A drawing in the SVG format, on a light ground. Coordinates are pixels, y downwards.
class Svg {
public:
    struct Point {
        double x, y;
    };
    enum class Anchor { start, middle, end };

    Svg(double width, double height);

    void line(Point from, Point to, std::string_view color, double width);
    void dashed_line(Point from, Point to, std::string_view color);
    void path(const std::vector<Point>& points, std::string_view color, double width);
    void area(const std::vector<Point>& outline, std::string_view color, double opacity);
    void bar(Point corner, double width, double height, std::string_view color);
    void dot(Point center, double radius, std::string_view color);
    void text(Point at, std::string_view text, double size, std::string_view color, Anchor anchor);
    void text_upwards(Point at, std::string_view text, double size, std::string_view color);

    std::string finish() &&;

private:
    std::string out_;
};

/// A step of 1, 2 or 5 times a power of ten, so that about `count` of them make `span`.
double round_step(double span, int count);
/// The next such number above or below a value, or the value itself.
double round_number(double value, bool up);
/// A number as short as its step allows.
std::string tick_label(double value, double step);

}  // namespace rondo::cli::multi_turn

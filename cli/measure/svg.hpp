#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::cli {

/// As it is on a light ground, and on a dark one.
struct Color {
    std::string_view light, dark;
};

namespace colors {
inline constexpr Color ground = {"#ffffff", "#12171d"};
inline constexpr Color ink = {"#1f2933", "#e7ecf2"};
inline constexpr Color quiet = {"#5f6b7a", "#9aa7b5"};
inline constexpr Color grid = {"#e3e7ec", "#2a333d"};
inline constexpr Color grey = {"#98a2af", "#717d8b"};
inline constexpr Color blue = {"#2563a8", "#6aa9ef"};
inline constexpr Color light_blue = {"#6f9fd2", "#4c7db3"};
inline constexpr Color orange = {"#c2681c", "#e8944a"};
inline constexpr Color teal = {"#1f8a7d", "#45b8a8"};
inline constexpr Color rose = {"#b0436e", "#e58aae"};
inline constexpr Color purple = {"#7b4fb0", "#b08ce6"};
}  // namespace colors

/// A drawing in the SVG format, light or dark as whoever looks at it prefers. Coordinates are pixels, y downwards.
class Svg {
public:
    struct Point {
        double x, y;
    };
    enum class Anchor { start, middle, end };

    Svg(double width, double height);

    void line(Point from, Point to, Color color, double width);
    void dashed_line(Point from, Point to, Color color);
    void path(const std::vector<Point>& points, Color color, double width);
    void area(const std::vector<Point>& outline, Color color, double opacity);
    void bar(Point corner, double width, double height, Color color);
    void dot(Point center, double radius, Color color);
    void text(Point at, std::string_view text, double size, Color color, Anchor anchor);
    void text_upwards(Point at, std::string_view text, double size, Color color);

    std::string finish() &&;

private:
    std::string out_;
};

}  // namespace rondo::cli

#include "cli/measure/svg.hpp"

#include <cstdio>

namespace rondo::cli {

namespace {

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

std::string attribute(const char* name, std::string_view value) {
    return std::string(" ") + name + "=\"" + std::string(value) + "\"";
}

std::string attribute(const char* name, double value) {
    return attribute(name, number(value));
}

std::string attribute(const char* name, Color color) {
    return attribute(name, color.light);
}

/// Elements carry their light colours, so a viewer that knows no style sheets shows those.
std::string dark_style() {
    std::string rules;
    for (const Color color : {colors::ground, colors::ink, colors::quiet, colors::grid, colors::grey, colors::blue,
                              colors::light_blue, colors::orange, colors::teal, colors::purple}) {
        for (const std::string_view name : {"fill", "stroke"}) {
            rules.append("[").append(name).append("=\"").append(color.light).append("\"]{");
            rules.append(name).append(":").append(color.dark).append("}\n");
        }
    }
    return "<style>@media (prefers-color-scheme: dark) {\n" + rules + "}</style>\n";
}

/// Texts may come from a server: nothing in them is markup, and no control byte is XML.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char byte : text) {
        if (byte == '&') {
            out += "&amp;";
        } else if (byte == '<') {
            out += "&lt;";
        } else if (byte == '>') {
            out += "&gt;";
        } else if (static_cast<unsigned char>(byte) < 0x20) {
            out += ' ';
        } else {
            out += byte;
        }
    }
    return out;
}

std::string points_of(const std::vector<Svg::Point>& points) {
    std::string out;
    for (const Svg::Point& point : points) {
        if (!out.empty()) out += ' ';
        out.append(number(point.x)).append(",").append(number(point.y));
    }
    return out;
}

const char* name_of(Svg::Anchor anchor) {
    if (anchor == Svg::Anchor::start) return "start";
    return anchor == Svg::Anchor::middle ? "middle" : "end";
}

}  // namespace

Svg::Svg(double width, double height) {
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) + attribute("height", height) +
           attribute("viewBox", "0 0 " + number(width) + " " + number(height)) +
           attribute("font-family", "Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif") + ">\n" +
           dark_style() + "<rect width=\"100%\" height=\"100%\"" + attribute("fill", colors::ground) + "/>\n";
}

void Svg::line(Point from, Point to, Color color, double width) {
    out_ += "<line" + attribute("x1", from.x) + attribute("y1", from.y) + attribute("x2", to.x) +
            attribute("y2", to.y) + attribute("stroke", color) + attribute("stroke-width", width) + "/>\n";
}

void Svg::dashed_line(Point from, Point to, Color color) {
    line(from, to, color, 1.2);
    out_.insert(out_.size() - 3, " stroke-dasharray=\"4 3\"");
}

void Svg::path(const std::vector<Point>& points, Color color, double width) {
    out_ += "<polyline" + attribute("points", points_of(points)) + " fill=\"none\" stroke-linejoin=\"round\"" +
            attribute("stroke", color) + attribute("stroke-width", width) + "/>\n";
}

void Svg::area(const std::vector<Point>& outline, Color color, double opacity) {
    out_ += "<polygon" + attribute("points", points_of(outline)) + attribute("fill", color) +
            attribute("fill-opacity",
                      [&] {
                          char text[16];
                          std::snprintf(text, sizeof text, "%.2f", opacity);
                          return std::string(text);
                      }()) +
            "/>\n";
}

void Svg::bar(Point corner, double width, double height, Color color) {
    out_ += "<rect" + attribute("x", corner.x) + attribute("y", corner.y) + attribute("width", width) +
            attribute("height", height) + attribute("fill", color) + "/>\n";
}

void Svg::dot(Point center, double radius, Color color) {
    out_ += "<circle" + attribute("cx", center.x) + attribute("cy", center.y) + attribute("r", radius) +
            attribute("fill", colors::ground) + attribute("stroke", color) + attribute("stroke-width", 2.0) + "/>\n";
}

void Svg::text(Point at, std::string_view text, double size, Color color, Anchor anchor) {
    out_ += "<text" + attribute("x", at.x) + attribute("y", at.y) + attribute("font-size", size) +
            attribute("fill", color) + attribute("text-anchor", name_of(anchor)) + ">" + escaped(text) + "</text>\n";
}

void Svg::text_upwards(Point at, std::string_view text, double size, Color color) {
    out_ += "<g" + attribute("transform", "translate(" + number(at.x) + " " + number(at.y) + ") rotate(-90)") + ">\n";
    this->text({0.0, 0.0}, text, size, color, Anchor::middle);
    out_ += "</g>\n";
}

std::string Svg::finish() && {
    return std::move(out_) + "</svg>\n";
}

}  // namespace rondo::cli

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/text.hpp"

namespace rondo::jinja {

namespace {

/// The digits of a number as Python reads them: stripped, with underscores only between digits, without a plus sign.
std::optional<std::string> plain_number(std::string_view text) {
    text = strip(text, Side::both);
    if (text.starts_with('+')) {
        text.remove_prefix(1);
        if (text.starts_with('-')) return std::nullopt;
    }
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_')
            out.push_back(text[i]);
        else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1]))
            return std::nullopt;
    }
    return out;
}

std::optional<double> read_float(std::string_view text) {
    const auto plain = plain_number(text);
    if (!plain) return std::nullopt;
    std::string_view body = *plain;
    const bool negative = body.starts_with('-');
    if (negative) body.remove_prefix(1);
    const std::string word = lower(body);
    if (word == "inf" || word == "infinity") return negative ? -INFINITY : INFINITY;
    if (word == "nan") return NAN;
    if (body.empty() || !(is_digit(body[0]) || body[0] == '.')) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), value);
    if (end != body.data() + body.size() || error == std::errc::invalid_argument) return std::nullopt;
    if (error == std::errc::result_out_of_range) fail("a number does not fit a float", ErrorCode::out_of_range);
    return negative ? -value : value;
}

std::optional<int64_t> read_integer(std::string_view text) {
    const auto plain = plain_number(text);
    const size_t sign = plain && plain->starts_with('-') ? 1 : 0;
    if (!plain || plain->size() == sign ||
        !std::all_of(plain->begin() + static_cast<std::ptrdiff_t>(sign), plain->end(), is_digit))
        return std::nullopt;
    int64_t value = 0;
    if (std::from_chars(plain->data(), plain->data() + plain->size(), value).ec != std::errc{})
        fail("an integer leaves 64 bits", ErrorCode::out_of_range);
    return value;
}

Value truncate(double number) {
    if (std::isinf(number)) fail("an infinite float has no integer");
    if (std::abs(number) >= 9.2e18) fail("an integer leaves 64 bits", ErrorCode::out_of_range);
    return static_cast<int64_t>(number);
}

Value to_integer(Runtime& runtime, const Value& self, Arguments& arguments) {
    require_defined(self);
    if (auto whole = self.integer()) return *whole;
    std::optional<double> number = self.number();
    if (const std::string* text = self.text()) {
        runtime.scan(8 * text->size());
        if (auto whole = read_integer(*text)) return *whole;
        number = read_float(*text);
    }
    if (number && !std::isnan(*number)) return truncate(*number);
    return arguments.has(0) ? arguments[0] : Value(int64_t{0});
}

Value to_float(Runtime& runtime, const Value& self, Arguments& arguments) {
    require_defined(self);
    std::optional<double> number = self.number();
    if (const std::string* text = self.text()) {
        runtime.scan(8 * text->size());
        number = read_float(*text);
    }
    if (number) return *number;
    return arguments.has(0) ? arguments[0] : Value(0.0);
}

Value absolute(Runtime&, const Value& self, Arguments&) {
    require_defined(self);
    if (auto whole = self.integer()) return *whole < 0 ? negate(*whole) : Value(*whole);
    if (const double* number = self.as<double>()) return std::abs(*number);
    fail("'abs' wants a number, not " + std::string(self.type_name()));
}

Value round(Runtime&, const Value& self, Arguments& arguments) {
    require_defined(self);
    const auto number = self.number();
    if (!number) fail("'round' wants a number, not " + std::string(self.type_name()));
    const int64_t digits = arguments.has(0) ? integer_argument(arguments[0], "the precision") : 0;
    if (digits < 0 || digits > 15) fail("'round' supports a precision of 0 to 15", ErrorCode::unsupported);
    const std::string_view method = arguments.has(1) ? text_argument(arguments[1], "the method") : "common";
    if (method == "common") {
        if (auto whole = self.integer()) return *whole;
        if (!std::isfinite(*number)) return *number;
        // The C library rounds the exact binary value, ties to even, as Python does.
        char buffer[400];
        std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), *number);
        return std::strtod(buffer, nullptr);
    }
    if (method != "ceil" && method != "floor") fail("the method of 'round' must be common, ceil or floor");
    double scale = 1;
    for (int64_t i = 0; i < digits; ++i) scale *= 10;
    const double scaled = *number * scale;
    if (!(std::abs(scaled) < 0x1p53)) fail("'round' supports numbers below 2^53", ErrorCode::unsupported);
    const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
    return (whole == 0 ? 0.0 : whole) / scale;  // an integer zero has no sign
}

}  // namespace

std::span<const Builtin> number_filters() {
    static constexpr Builtin table[] = {
        {"int", "default?", to_integer},
        {"float", "default?", to_float},
        {"abs", "", absolute},
        {"round", "precision? method?", round},
    };
    return table;
}

}  // namespace rondo::jinja

#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <string>

namespace rondo::cli {

/// CLI::Range of fractions, for which "nan" is within any range.
inline CLI::Validator number_in(double low, double high) {
    const CLI::Validator is_number(
        [](const std::string& text) -> std::string {
            double value = 0.0;
            if (!CLI::detail::lexical_cast(text, value) || !std::isnan(value)) return {};
            return "Value " + text + " is not a number in range";
        },
        "");
    return CLI::Range(low, high) & is_number;
}

}  // namespace rondo::cli

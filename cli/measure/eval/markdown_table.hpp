#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/eval/bootstrap.hpp"

namespace rondo::cli::eval {

/// How wide a text of UTF-8 is shown.
size_t width_of(std::string_view text);

using TableLine = std::vector<std::string>;

/// Columns of one width, so that it reads well in a terminal too; the first line is the heading.
std::string table_text(const std::vector<TableLine>& lines);

std::string number(double value, int decimals);
std::string signed_number(double value);
/// " [0.950, 1.000]"
std::string interval_text(const Interval& interval, int decimals);
std::string signed_interval(const Interval& interval);

}  // namespace rondo::cli::eval

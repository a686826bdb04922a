#pragma once

#include <string>

#include "cli/measure/bench/bench_report.hpp"

namespace rondo::cli {

/// A drawing of a report, as SVG: tokens per second over the length of the context, and where the time goes at each.
std::string draw_bench(const BenchReport& report);

}  // namespace rondo::cli

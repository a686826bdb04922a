#pragma once

#include <string>

#include "cli/measure/multi_turn/report.hpp"
#include "cli/measure/multi_turn/statistics.hpp"

namespace rondo::cli::multi_turn {

/// A drawing of a run, as SVG: how the time to first token grows with the rounds, and how the times between pieces of
/// text are spread.
std::string draw_plot(const RunFacts& facts, const Statistics& statistics);

}  // namespace rondo::cli::multi_turn

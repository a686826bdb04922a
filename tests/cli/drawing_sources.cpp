// The parts that draw and count, which are tested one by one.
#include "cli/bench/bench_plot.cpp"
#include "cli/bench/bench_report.cpp"
#include "cli/panel.cpp"
#include "cli/quantile.cpp"
#include "cli/svg.cpp"

// The parts that draw and count, which are tested one by one.
#include "cli/measure/bench/bench_plot.cpp"
#include "cli/measure/bench/bench_report.cpp"
#include "cli/measure/panel.cpp"
#include "cli/measure/quantile.cpp"
#include "cli/measure/svg.cpp"

// The parts that draw and count, which are tested one by one.
#include "cli/panel.cpp"
#include "cli/quantile.cpp"
#include "cli/svg.cpp"

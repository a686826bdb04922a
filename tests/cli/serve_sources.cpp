// The parts of `rondo serve` that are tested one by one.
#include "cli/line_writer.cpp"

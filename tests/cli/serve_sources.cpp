// The parts of `rondo serve` that are tested one by one.
#include "cli/line_writer.cpp"
#include "cli/server_end.cpp"

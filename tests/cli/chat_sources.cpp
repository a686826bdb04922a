// The parts of `rondo chat` that are tested one by one.
#include "cli/terminal_text.cpp"

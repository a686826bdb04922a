#include "tests/counting_allocator.cpp"

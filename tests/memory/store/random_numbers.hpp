#pragma once

namespace rondo::testing {

/// How many times this thread is given random numbers before `getrandom` refuses them; -1: without end.
extern thread_local int random_numbers_left;

}  // namespace rondo::testing

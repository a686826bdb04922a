#include "tests/memory/store/random_numbers.hpp"

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace rondo::testing {

thread_local int random_numbers_left = -1;

}  // namespace rondo::testing

/// In place of the C library's, for all of this program.
extern "C" ssize_t getrandom(void* bytes, size_t size, unsigned flags) {
    using rondo::testing::random_numbers_left;
    if (random_numbers_left == 0) return -1;
    if (random_numbers_left > 0) --random_numbers_left;
    return ::syscall(SYS_getrandom, bytes, size, flags);
}

#include <gtest/gtest.h>

/// What stands in for all tests of the emulated GPU where it cannot be built, so that the summary says why.
TEST(EmulatedGpu, IsBuiltWhereTheToolkitsHeadersAre) {
    GTEST_SKIP() << RONDO_EMULATED_WITHOUT;
}

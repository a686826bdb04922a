#include "actors/watch.hpp"

#include <gtest/gtest.h>

namespace rondo {
namespace {

TEST(Watch, OneTimerWatchesAllPieces) {
    Watch watch;
    EXPECT_TRUE(watch.begin());
    for (int i = 0; i < 100; ++i) {
        watch.end();
        EXPECT_FALSE(watch.begin()) << i;
    }
    EXPECT_EQ(watch.look(1), Watch::Found::work);
    watch.end();
    EXPECT_FALSE(watch.begin()) << "it has been set again";
    EXPECT_EQ(watch.look(watch.piece() - 1), Watch::Found::work);
    EXPECT_EQ(watch.look(watch.piece()), Watch::Found::late);
}

TEST(Watch, WithoutWorkThereIsNoTimer) {
    Watch watch;
    EXPECT_TRUE(watch.begin());
    watch.end();
    EXPECT_EQ(watch.look(watch.piece()), Watch::Found::idle);
    EXPECT_TRUE(watch.begin());
}

}  // namespace
}  // namespace rondo

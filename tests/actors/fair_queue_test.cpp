#include "actors/fair_queue.hpp"

#include <gtest/gtest.h>

#include <map>

#include "actors/prefill_order.hpp"

namespace rondo {
namespace {

TEST(FairQueue, ServesAFlowInOrderOfArrival) {
    FairQueue<int> queue;
    for (int i = 1; i <= 5; ++i) queue.push(static_cast<uint64_t>(i), i, "a", 0, 100.0 - i);
    for (int i = 1; i <= 5; ++i) EXPECT_EQ(queue.pop(), i);
    EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, AFlowWithManyWaitsBehindItself) {
    FairQueue<int> queue;
    for (int i = 0; i < 10; ++i) queue.push(static_cast<uint64_t>(i), i, "greedy", 0, 10.0);
    queue.push(100, 100, "modest", 0, 10.0);
    EXPECT_EQ(queue.pop(), 0);
    EXPECT_EQ(queue.pop(), 100);
    EXPECT_EQ(queue.pop(), 1);
}

TEST(FairQueue, FlowsShareByCostNotByCount) {
    FairQueue<std::string> queue;
    uint64_t id = 0;
    for (int i = 0; i < 40; ++i) {
        queue.push(++id, "large", "l", 0, 30.0);
        queue.push(++id, "small", "s", 0, 10.0);
    }
    std::map<std::string, int> served;
    for (int i = 0; i < 40; ++i) ++served[queue.pop()];
    EXPECT_EQ(served["small"], 30);
    EXPECT_EQ(served["large"], 10);
}

TEST(FairQueue, PriorityComesFirstAndInterruptedWorkBeforeItsOwn) {
    FairQueue<int> queue;
    queue.push(1, 1, "a", 0, 1.0);
    queue.push(2, 2, "b", 5, 1.0);
    queue.push_front(3, 3, 0);
    queue.push_front(4, 4, 5);
    EXPECT_EQ(queue.pop(), 4);
    EXPECT_EQ(queue.pop(), 2);
    EXPECT_EQ(queue.pop(), 3);
    EXPECT_EQ(queue.pop(), 1);
}

TEST(FairQueue, GivesBackWhatIsTakenOut) {
    FairQueue<int> queue;
    queue.push(1, 10, "a", 0, 1.0);
    queue.push(2, 20, "a", 0, 1.0);
    EXPECT_EQ(queue.remove(1), 10);
    EXPECT_EQ(queue.remove(1), std::nullopt);
    EXPECT_EQ(queue.size(), 1U);
    EXPECT_EQ(queue.front(), 20);
}

TEST(PrefillOrder, AShortPromptPassesALongOne) {
    PrefillOrder order;
    order.add(1, 0, 8000);
    order.computed(1, 512);
    order.add(2, 0, 50);
    EXPECT_EQ(order.next(), 2U);
    EXPECT_TRUE(order.remove(2));
    EXPECT_EQ(order.next(), 1U);
}

TEST(PrefillOrder, EqualPromptsGoInOrderOfArrivalToTheirEnd) {
    PrefillOrder order;
    for (uint64_t id = 1; id <= 3; ++id) order.add(id, 0, 2000);
    for (int chunk = 0; chunk < 4; ++chunk) {
        EXPECT_EQ(order.next(), 1U);
        order.computed(1, 500);
    }
    order.remove(1);
    EXPECT_EQ(order.next(), 2U);
    EXPECT_EQ(order.tokens(), 4000);
}

TEST(PrefillOrder, ALongPromptIsNotPassedForEver) {
    PrefillOrder order;
    order.add(1, 0, 4000);
    uint64_t id = 1;
    int64_t passed = 0;
    while (order.next() != 1U || passed == 0) {
        order.add(++id, 0, 100);
        const uint64_t next = *order.next();
        if (next == 1) break;
        order.computed(next, 100);
        order.remove(next);
        passed += 100;
        ASSERT_LE(passed, 16'100);
    }
    EXPECT_EQ(order.next(), 1U);
}

TEST(PrefillOrder, PriorityComesFirst) {
    PrefillOrder order;
    order.add(1, 0, 10);
    order.add(2, 1, 5000);
    EXPECT_EQ(order.next(), 2U);
    EXPECT_EQ(PrefillOrder().next(), std::nullopt);
}

}  // namespace
}  // namespace rondo

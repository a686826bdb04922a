#include "actors/fair_queue.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/prefill_order.hpp"

namespace rondo {
namespace {

/// A queue whose items say when they come what they will cost.
template <class T>
class Priced {
public:
    void push(uint64_t id, T item, const std::string& flow, int priority, double cost) {
        queue_.push(id, {id, std::move(item), cost}, flow, priority);
    }
    void push_front(uint64_t id, T item, int priority) { queue_.push_front(id, {id, std::move(item), 0.0}, priority); }
    bool empty() const { return queue_.empty(); }
    size_t size() const { return queue_.size(); }
    const T& front() const { return queue_.front().what; }
    T pop() { return queue_.serve(queue_.front().id, queue_.front().cost).what; }
    std::optional<T> remove(uint64_t id) {
        auto found = queue_.remove(id);
        if (!found) return std::nullopt;
        return std::move(found->what);
    }

private:
    struct Item {
        uint64_t id;
        T what;
        double cost;
    };
    FairQueue<Item> queue_;
};

TEST(FairQueue, ServesAFlowInOrderOfArrival) {
    Priced<int> queue;
    for (int i = 1; i <= 5; ++i) queue.push(static_cast<uint64_t>(i), i, "a", 0, 100.0 - i);
    for (int i = 1; i <= 5; ++i) EXPECT_EQ(queue.pop(), i);
    EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, AFlowWithManyWaitsBehindItself) {
    Priced<int> queue;
    for (int i = 0; i < 10; ++i) queue.push(static_cast<uint64_t>(i), i, "greedy", 0, 10.0);
    queue.push(100, 100, "modest", 0, 10.0);
    EXPECT_EQ(queue.pop(), 0);
    EXPECT_EQ(queue.pop(), 100);
    EXPECT_EQ(queue.pop(), 1);
}

TEST(FairQueue, FlowsShareByCostNotByCount) {
    Priced<std::string> queue;
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

/// Requests of clients without a conversation, as sessions name them, and of conversations.
std::string alone(const std::string& tenant, uint64_t id) {
    return tenant + "\n\n" + std::to_string(id);
}
std::string conversation(const std::string& tenant, const std::string& name) {
    return tenant + "\n" + name;
}

TEST(FairQueue, ATenantWithManyRequestsDoesNotStarveAnother) {
    for (const int before : {0, 5, 50}) {  // requests of the many are served before the other comes
        Priced<std::string> queue;
        for (uint64_t id = 1; id <= 100; ++id) queue.push(id, "many", alone("many", id), 0, 10.0);
        for (int i = 0; i < before; ++i) queue.pop();
        queue.push(1000, "one", alone("one", 1000), 0, 10.0);
        int place = 1;
        while (queue.pop() != "one") ++place;
        EXPECT_LE(place, 2) << before;
    }
}

TEST(FairQueue, TenantsShareByCostWhateverTheirFlows) {
    Priced<std::string> queue;
    for (uint64_t id = 1; id <= 300; ++id) queue.push(id, "many", alone("many", id), 0, 10.0);
    for (uint64_t id = 1001; id <= 1100; ++id) queue.push(id, "two", conversation("two", id % 2 ? "c" : "d"), 0, 30.0);
    std::map<std::string, int> served;
    for (int i = 0; i < 80; ++i) ++served[queue.pop()];
    EXPECT_EQ(served["many"], 60);
    EXPECT_EQ(served["two"], 20);
}

TEST(FairQueue, ConversationsOfATenantTakeTurns) {
    Priced<std::string> queue;
    uint64_t id = 0;
    for (int i = 0; i < 5; ++i) queue.push(++id, "c", conversation("t", "c"), 0, 10.0);
    for (int i = 0; i < 5; ++i) queue.push(++id, "d", conversation("t", "d"), 0, 10.0);
    std::string before = "d";
    for (int i = 0; i < 10; ++i) {
        const std::string next = queue.pop();
        EXPECT_NE(next, before) << i;
        before = next;
    }
}

TEST(FairQueue, EachRequestWithoutAConversationIsAFlowOfItsOwn) {
    Priced<std::string> queue;
    for (uint64_t id = 1; id <= 10; ++id) queue.push(id, "turn", conversation("t", "c"), 0, 10.0);
    for (uint64_t id = 11; id <= 14; ++id) queue.push(id, "alone", alone("t", id), 0, 10.0);
    EXPECT_EQ(queue.pop(), "turn");  // all five have come to nothing yet, and this one came first
    for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.pop(), "alone") << i;
    EXPECT_EQ(queue.pop(), "turn");
}

/// Flows of one request each never come again. What they were served must count all the same, or else who stays would
/// wait for as long as others come.
TEST(FairQueue, AConversationGetsItsShareAmongRequestsThatKeepComing) {
    for (const double turn_cost : {100.0, 4000.0}) {
        Priced<std::string> queue;
        uint64_t id = 0;
        const auto cost_of = [&](const std::string& what) { return what == "turn" ? turn_cost : 100.0; };
        const auto come = [&](const std::string& what) {
            ++id;
            queue.push(id, what, what == "turn" ? conversation("t", "c") : alone("t", id), 0, cost_of(what));
        };
        come("turn");
        for (int i = 0; i < 9; ++i) come("alone");
        double turns = 0.0, all = 0.0;
        int between = 0;
        for (int i = 0; i < 20'000; ++i) {
            const std::string served = queue.pop();
            all += cost_of(served);
            if (served == "turn") turns += turn_cost;
            between = served == "turn" ? 0 : between + 1;
            ASSERT_LE(between, 10 * turn_cost / 100.0 + 20);
            come(served);  // the next turn, or the next client
        }
        EXPECT_GE(turns / all, 0.08) << turn_cost;  // of a tenth
        EXPECT_LE(turns / all, 0.12) << turn_cost;
    }
}

/// And who had much of late does not get ahead by going away and coming back.
TEST(FairQueue, WhatWasServedIsRememberedWhileOthersWait) {
    Priced<std::string> queue;
    queue.push(1, "large", conversation("t", "l"), 0, 1000.0);
    for (uint64_t id = 2; id <= 100; ++id) queue.push(id, "small", conversation("t", "s"), 0, 10.0);
    EXPECT_EQ(queue.pop(), "large");
    queue.push(101, "large", conversation("t", "l"), 0, 1000.0);
    for (int i = 0; i < 99; ++i) EXPECT_EQ(queue.pop(), "small") << i;
}

TEST(FairQueue, GivesEveryItemOnceWhateverIsTakenOut) {
    std::mt19937_64 random(5);
    Priced<uint64_t> queue;
    std::set<uint64_t> inside;
    uint64_t id = 0;
    for (int i = 0; i < 20'000; ++i) {
        const uint64_t what = random() % 8;
        ++id;
        if (what < 3) {
            const std::string flow = conversation("t" + std::to_string(random() % 3), std::to_string(random() % 5));
            queue.push(id, id, what == 0 ? alone("t0", id) : flow, static_cast<int>(random() % 2),
                       static_cast<double>(random() % 50));
            inside.insert(id);
        } else if (what == 3) {
            queue.push_front(id, id, static_cast<int>(random() % 2));
            inside.insert(id);
        } else if (what == 4) {
            const uint64_t wanted = 1 + random() % id;
            ASSERT_EQ(queue.remove(wanted).has_value(), inside.erase(wanted) == 1);
        } else if (!queue.empty()) {
            const uint64_t next = queue.front();
            ASSERT_EQ(queue.pop(), next);
            ASSERT_EQ(inside.erase(next), 1U);
        }
        ASSERT_EQ(queue.size(), inside.size());
    }
}

TEST(FairQueue, PriorityComesFirstAndInterruptedWorkBeforeItsOwn) {
    Priced<int> queue;
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
    Priced<int> queue;
    queue.push(1, 10, "a", 0, 1.0);
    queue.push(2, 20, "a", 0, 1.0);
    EXPECT_EQ(queue.remove(1), 10);
    EXPECT_EQ(queue.remove(1), std::nullopt);
    EXPECT_EQ(queue.size(), 1U);
    EXPECT_EQ(queue.front(), 20);
}

TEST(FairQueue, NamesTheFirstOfEachFlowAndHowFarItIsAhead) {
    FairQueue<int> queue;
    queue.push(1, 1, conversation("a", "c"), 0);
    queue.push(2, 2, conversation("a", "c"), 0);
    queue.push(3, 3, conversation("a", "d"), 0);
    queue.push(4, 4, conversation("b", "c"), 0);
    queue.push(5, 5, conversation("z", "c"), -1);
    const auto named = [&](size_t count_max) {
        std::vector<std::pair<int, double>> found;
        for (const auto& [item, ahead] : queue.candidates(count_max)) found.emplace_back(*item, ahead);
        return found;
    };
    using Found = std::vector<std::pair<int, double>>;
    EXPECT_EQ(named(10), (Found{{1, 0.0}, {4, 0.0}, {3, 0.0}})) << "a tenant's second one after others' first";
    queue.serve(1, 30.0);
    EXPECT_EQ(named(10), (Found{{4, 0.0}, {3, 30.0}, {2, 30.0}}));
    EXPECT_EQ(named(1), (Found{{4, 0.0}}));
    queue.push_front(9, 9, 0);
    EXPECT_EQ(named(10), (Found{{9, 0.0}})) << "work that was begun is not passed";
}

/// However it is chosen who goes before his place: as long as nobody does who is further ahead than a bound, none of
/// those who always have something waiting gets more than the others by more than that and what he is served at once.
TEST(FairQueue, WhoGoesBeforeHisPlaceGetsNoMoreForIt) {
    constexpr double bound = 500.0, cost_max = 300.0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        std::mt19937_64 random(seed);
        struct Item {
            uint64_t id;
            std::string tenant, flow;
            double cost;
        };
        FairQueue<Item> queue;
        uint64_t id = 0;
        const auto come = [&](const std::string& tenant, const std::string& flow) {
            ++id;
            // Those who are favoured cost the most.
            const double cost = tenant == "a" || flow == "0" ? cost_max : 1.0 + static_cast<double>(random() % 100);
            queue.push(id, {id, tenant, flow, cost}, conversation(tenant, flow), 0);
        };
        for (const std::string tenant : {"a", "b", "c"})
            for (const std::string flow : {"0", "0", "1", "1", "2", "2"}) come(tenant, flow);
        std::map<std::string, double> tenants;
        std::map<std::pair<std::string, std::string>, double> flows;
        for (int i = 0; i < 5000; ++i) {
            const auto candidates = queue.candidates(100);
            const auto favoured = std::ranges::find_if(candidates, [&](const auto& one) {
                return one.ahead <= bound && (one.item->tenant == "a" || one.item->flow == "0");
            });
            const Item item = *(favoured == candidates.end() ? candidates.front() : *favoured).item;
            queue.serve(item.id, item.cost);
            tenants[item.tenant] += item.cost;
            flows[{item.tenant, item.flow}] += item.cost;
            come(item.tenant, item.flow);
        }
        const auto spread = [](const auto& served, const auto& counts) {
            double least = 1e300, most = 0.0;
            for (const auto& [name, cost] : served)
                if (counts(name)) least = std::min(least, cost), most = std::max(most, cost);
            return most - least;
        };
        EXPECT_LE(spread(tenants, [](const auto&) { return true; }), bound + 2 * cost_max) << seed;
        for (const std::string tenant : {"a", "b", "c"})
            EXPECT_LE(spread(flows, [&](const auto& name) { return name.first == tenant; }), bound + 2 * cost_max);
    }
}

/// Nor does it cost those who come later.
TEST(FairQueue, WhoComesBeginsWhereTheLeastIs) {
    FairQueue<int> plain;
    for (uint64_t id = 1; id <= 3; ++id) plain.push(id, 0, conversation("t", "far"), 0);
    plain.push(10, 10, conversation("t", "near"), 0);
    plain.serve(1, 1000.0);
    plain.serve(2, 1000.0);  // before its place
    plain.push(11, 11, conversation("t", "new"), 0);
    const auto candidates = plain.candidates(10);
    ASSERT_EQ(candidates.size(), 3U);
    EXPECT_EQ(*candidates[1].item, 11);
    EXPECT_LE(candidates[1].ahead, 1000.0) << "what has been served, shared among two";
}

uint64_t next(const PrefillOrder& order) {
    return order.first_of([](uint64_t) { return true; })->id;
}

TEST(PrefillOrder, AShortPromptPassesALongOne) {
    PrefillOrder order;
    order.add(1, 0, 8000);
    order.computed(1, 512);
    order.add(2, 0, 50);
    EXPECT_EQ(next(order), 2U);
    EXPECT_TRUE(order.remove(2));
    EXPECT_EQ(next(order), 1U);
}

TEST(PrefillOrder, EqualPromptsGoInOrderOfArrivalToTheirEnd) {
    PrefillOrder order;
    for (uint64_t id = 1; id <= 3; ++id) order.add(id, 0, 2000);
    for (int chunk = 0; chunk < 4; ++chunk) {
        EXPECT_EQ(next(order), 1U);
        order.computed(1, 500);
    }
    order.remove(1);
    EXPECT_EQ(next(order), 2U);
    EXPECT_EQ(order.tokens(), 4000);
}

TEST(PrefillOrder, ALongPromptIsNotPassedForEver) {
    PrefillOrder order;
    order.add(1, 0, 4000);
    uint64_t id = 1;
    int64_t passed = 0;
    for (;;) {  // another short one is there whenever the next is chosen
        order.add(++id, 0, 100);
        const uint64_t first = next(order);
        if (first == 1) break;
        order.computed(first, 100);
        order.remove(first);
        passed += 100;
        ASSERT_LE(passed, 16'100);
    }
    EXPECT_GT(passed, 0);
    EXPECT_EQ(next(order), 1U);
}

TEST(PrefillOrder, PriorityComesFirst) {
    PrefillOrder order;
    order.add(1, 0, 10);
    order.add(2, 1, 5000);
    EXPECT_EQ(next(order), 2U);
    EXPECT_EQ(PrefillOrder().first_of([](uint64_t) { return true; }), nullptr);
}

}  // namespace
}  // namespace rondo

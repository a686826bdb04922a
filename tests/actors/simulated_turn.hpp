#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/turn.hpp"
#include "actors/turn_flow.hpp"
#include "tests/actors/pretended_disk.hpp"

/// Turns and conversations of a pretended pipeline (turn_world.hpp).
namespace rondo::testing {

constexpr int64_t context_tokens = 160;

/// How turns attend: what they compute differs, and one gives keys up while it answers.
struct Method {
    std::string name;
    bool evicts;
    int64_t recomputed_min;
};
const Method methods[] = {{"dense", false, 1}, {"lines", false, 1}, {"window", true, 1}, {"chosen", false, 9}};

struct SimulatedTurn {
    std::vector<int32_t> ids;
    SequenceKv kv;
    const Method* method;
    PrefixSpace space;
    bool admitted = false;
    std::shared_ptr<PretendedDisk::Reading> reading = {};  // of keys that are on their way into `kv`
    TokenRange ahead = {};                                 // before them, that it computes meanwhile

    std::span<const int32_t> reusable() const {
        return std::span(ids).first(
            static_cast<size_t>(std::max<int64_t>(static_cast<int64_t>(ids.size()) - method->recomputed_min, 0)));
    }
    /// As Turn::stop_waiting.
    void stop_waiting() {
        if (!reading) return;
        const int64_t end = reading->over() ? reading->end() : reading->way.begin;
        if (end < reading->way.end) kv.set_back(end);
        reading.reset();
    }
    /// As Turn::leave_ahead.
    void leave_ahead() {
        if (ahead.count() > 0) kv.truncate(ahead.begin);
        ahead = {};
    }
};

struct Chat {
    std::string tenant;
    const Method* method = methods;  // of its next turn
    std::vector<int32_t> history;
    TurnFlow flow;
    std::unique_ptr<SimulatedTurn> turn;
    bool asked_back = false;  // the stage that holds the turn knows that it is wanted back
    int terminals = 0;        // of the present turn
    int64_t serial = 0;
};

/// What the random walk came by, so that a test that never gets anywhere is noticed.
struct Seen {
    int64_t over = 0, preempted = 0, found = 0, evicted = 0;
    int64_t claimed = 0;     // turns let in, or asked for again, of whose prompts something had stayed for their sake
    int64_t with_gaps = 0;   // turns that had given keys up when they were kept
    int64_t changed = 0;     // conversations whose next turn is of another method
    int64_t ahead = 0;       // turns that had computed what stands before keys when these had come
    int64_t left_ahead = 0;  // turns that left before they had
    int64_t restored = 0, damaged = 0, unwanted = 0;  // readings: whole, not whole, and those nobody waited for
    int64_t exact_for_methods = 0;                    // times that a method found what is exact
};

}  // namespace rondo::testing

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cli/measure/multi_turn/seeded.hpp"
#include "cli/measure/multi_turn/workload.hpp"

namespace rondo::cli::multi_turn {

/// Which conversation takes its next turn, and when: of those that are ready, the one that has been for longest. It
/// knows no clock and no threads; who asks says what time it is, in seconds since the start.
class Schedule {
public:
    struct Step {
        enum class Kind { take, wait, finished };
        Kind kind = Kind::finished;
        size_t conversation = 0;  ///< take: the caller's, until it says `done`
        double late_s = 0.0;      ///< take: how long ago it was due, where there is a rate
        double until_s = 0.0;     ///< wait: ask again then, or after the next `done`; infinite when only that helps
    };

    Schedule(const Workload& workload, uint64_t seed);

    Step next(double now_s);
    /// The conversation has its answer, and has `more` turns or is over.
    void done(size_t conversation, double now_s, bool more);

private:
    void begin_conversations(double now_s);
    bool leaves_by(Arrivals arrivals) const { return workload_.rate > 0.0 && workload_.arrivals == arrivals; }

    Workload workload_;
    Seeded random_;
    size_t begun_ = 0, over_ = 0;
    double slot_s_ = 0.0;                   ///< poisson: when the next turn may leave
    std::multimap<double, size_t> ready_;   ///< when → which; equal times in the order they came
    std::map<size_t, double> taken_due_s_;  ///< conversations in flight, and when they were due
};

}  // namespace rondo::cli::multi_turn

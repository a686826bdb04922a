#include "cli/measure/multi_turn/schedule.hpp"

#include <algorithm>
#include <limits>

namespace rondo::cli::multi_turn {

namespace {
constexpr uint64_t schedule_stream = uint64_t{1} << 63;  // apart from those of the texts
}  // namespace

Schedule::Schedule(const Workload& workload, uint64_t seed) : workload_(workload), random_(seed, schedule_stream) {}

void Schedule::begin_conversations(double now_s) {
    while (begun_ < static_cast<size_t>(workload_.conversations) &&
           begun_ - over_ < static_cast<size_t>(workload_.active)) {
        double at_s = now_s;
        if (leaves_by(Arrivals::periodic)) {
            at_s = std::max(now_s, static_cast<double>(begun_) / workload_.rate);
        }
        ready_.emplace(at_s, begun_++);
    }
}

Schedule::Step Schedule::next(double now_s) {
    begin_conversations(now_s);
    Step step;
    if (ready_.empty()) {
        if (taken_due_s_.empty()) return step;
        step.kind = Step::Kind::wait;
        step.until_s = std::numeric_limits<double>::infinity();
        return step;
    }
    const auto [ready_s, conversation] = *ready_.begin();
    const bool poisson = leaves_by(Arrivals::poisson);
    const double due_s = poisson ? std::max(ready_s, slot_s_) : ready_s;
    if (due_s > now_s) {
        step.kind = Step::Kind::wait;
        step.until_s = due_s;
        return step;
    }
    // The next moment counts from when this turn was due: clients that are late do not make the load lighter.
    if (poisson) slot_s_ = due_s + random_.exponential(workload_.rate);
    ready_.erase(ready_.begin());
    taken_due_s_[conversation] = due_s;
    step.kind = Step::Kind::take;
    step.conversation = conversation;
    step.late_s = workload_.rate > 0.0 ? now_s - due_s : 0.0;
    return step;
}

void Schedule::done(size_t conversation, double now_s, bool more) {
    const auto taken = taken_due_s_.find(conversation);
    const double due_s = taken->second;
    taken_due_s_.erase(taken);
    if (!more) {
        ++over_;
        return;
    }
    double at_s = now_s + workload_.gap_s;
    if (leaves_by(Arrivals::periodic)) {
        at_s = std::max(at_s, due_s + static_cast<double>(workload_.active) / workload_.rate);
    }
    ready_.emplace(at_s, conversation);
}

}  // namespace rondo::cli::multi_turn

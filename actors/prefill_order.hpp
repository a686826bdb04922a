#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace rondo {

/// Whose chunk comes next on a device. Each prompt is due after four times its own length of work from when it came.
/// So a short one passes long ones, none waits for ever, and equal ones go in order of arrival.
class PrefillOrder {
public:
    struct Job {
        uint64_t id = 0;
        int priority = 0;
        int64_t tokens = 0;  ///< still to be computed
        double due = 0.0;    ///< on a clock of tokens computed here
    };

    void add(uint64_t id, int priority, int64_t tokens) {
        jobs_.push_back({id, priority, tokens, clock_ + stretch * static_cast<double>(tokens)});
    }
    /// The job as it was.
    std::optional<Job> remove(uint64_t id) {
        const auto at = std::ranges::find(jobs_, id, &Job::id);
        if (at == jobs_.end()) return std::nullopt;
        const Job job = *at;
        jobs_.erase(at);
        return job;
    }
    /// Work was done for a job.
    void computed(uint64_t id, int64_t tokens) {
        clock_ += static_cast<double>(tokens);
        for (Job& job : jobs_)
            if (job.id == id) job.tokens -= tokens;
    }
    /// A job has more to compute than was said.
    void grow(uint64_t id, int64_t tokens) {
        for (Job& job : jobs_)
            if (job.id == id) job.tokens += tokens;
    }
    /// Of those whose ids are wanted; null without any. Valid until the next change.
    template <class Wanted>
    const Job* first_of(const Wanted& wanted) const {
        const Job* first = nullptr;
        for (const Job& job : jobs_)
            if (wanted(job.id) && (first == nullptr || is_before(job, *first))) first = &job;
        return first;
    }
    int64_t tokens() const {
        int64_t sum = 0;
        for (const Job& job : jobs_) sum += job.tokens;
        return sum;
    }

private:
    static bool is_before(const Job& a, const Job& b) {
        return a.priority != b.priority ? a.priority > b.priority : a.due < b.due;
    }

    static constexpr double stretch = 4.0;
    std::vector<Job> jobs_;
    double clock_ = 0.0;
};

}  // namespace rondo

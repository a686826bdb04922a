#include "actors/prompt_lanes.hpp"

#include <algorithm>
#include <limits>

namespace rondo {

size_t PromptLanes::add(uint64_t id, int priority, int64_t tokens) {
    const size_t lane = choose_lane(tokens);
    lanes_[lane].order.add(id, priority, tokens);
    lanes_[lane].jobs[id] = {priority, false, 0, 0.0};
    return lane;
}

/// Where it would be done sooner by what was measured; a long prompt does not go where answers are made.
size_t PromptLanes::choose_lane(int64_t tokens) const {
    if (lanes_.size() == 1 || tokens > options_.at_home_tokens) return 0;
    const auto seconds = [&](const Lane& lane) {
        const auto all = static_cast<double>(lane.order.tokens() + tokens);
        return lane.tokens_per_second > 0.0 ? all / lane.tokens_per_second : all * 1e-6;
    };
    return seconds(lanes_[1]) < seconds(lanes_[0]) ? 1 : 0;
}

/// Of chunks that have begun the most urgent, the first of equals, unless a prompt that has not is more urgent. A
/// prompt that is not wanted any more is given up first: it holds a place.
std::optional<uint64_t> PromptLanes::choose(const Lane& lane) const {
    const std::optional<uint64_t> next = lane.order.next();
    if (lane.open.empty()) return next;
    const auto urgency = [&](uint64_t id) {
        const Job& job = lane.jobs.at(id);
        return job.withdrawn ? std::numeric_limits<int>::max() : job.priority;
    };
    const uint64_t begun = *std::ranges::max_element(lane.open, {}, urgency);
    const bool passes = next && lane.open.size() < options_.open_max && urgency(*next) > urgency(begun);
    return passes ? next : begun;
}

std::optional<PromptLanes::Piece> PromptLanes::begin(size_t index) {
    Lane& lane = lanes_[index];
    if (lane.busy) return std::nullopt;
    lane.busy = choose(lane);
    if (!lane.busy) return std::nullopt;
    return Piece{*lane.busy, lane.jobs.at(*lane.busy).withdrawn};
}

PromptLanes::After PromptLanes::end(size_t index, const Done& done) {
    Lane& lane = lanes_[index];
    const uint64_t id = *lane.busy;
    lane.busy.reset();
    Job& job = lane.jobs.at(id);
    job.chunk_tokens += done.tokens;
    job.chunk_seconds += done.seconds;
    const bool open = done.open && !done.failed;
    const auto place = std::ranges::find(lane.open, id);
    if (open && place == lane.open.end()) lane.open.push_back(id);
    if (!open) {
        if (place != lane.open.end()) lane.open.erase(place);
        end_chunk(lane, id, job);
    }
    if (!done.failed && !done.complete && (!job.withdrawn || open)) return After::goes_on;
    lane.order.remove(id);
    lane.jobs.erase(id);
    return After::leaves;
}

void PromptLanes::end_chunk(Lane& lane, uint64_t id, Job& job) {
    if (job.chunk_tokens > 0) {
        lane.order.computed(id, job.chunk_tokens);
        const double rate = static_cast<double>(job.chunk_tokens) / std::max(job.chunk_seconds, 1e-9);
        lane.tokens_per_second = lane.tokens_per_second == 0.0 ? rate : (lane.tokens_per_second + rate) / 2;
    }
    job.chunk_tokens = 0;
    job.chunk_seconds = 0.0;
}

PromptLanes::After PromptLanes::withdraw(uint64_t id) {
    for (Lane& lane : lanes_) {
        const auto job = lane.jobs.find(id);
        if (job == lane.jobs.end()) continue;
        job->second.withdrawn = true;
        if (lane.busy == id || std::ranges::count(lane.open, id) > 0) return After::goes_on;
        lane.order.remove(id);
        lane.jobs.erase(job);
        return After::leaves;
    }
    return After::goes_on;
}

}  // namespace rondo

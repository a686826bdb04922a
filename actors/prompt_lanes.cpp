#include "actors/prompt_lanes.hpp"

#include <algorithm>
#include <limits>

namespace rondo {

namespace {

constexpr double fast = 1e6;  // tokens a second: so a device is tried that has not been measured

}  // namespace

size_t PromptLanes::add(uint64_t id, int priority, int64_t tokens) {
    const size_t lane = choose_lane(tokens);
    lanes_[lane].order.add(id, priority, tokens);
    lanes_[lane].jobs[id].priority = priority;
    return lane;
}

double PromptLanes::Lane::seconds_of(int64_t tokens, double unmeasured) const {
    return static_cast<double>(tokens) / (tokens_per_second > 0.0 ? tokens_per_second : unmeasured);
}

/// Where it would be done soonest, the first of equals; a long prompt does not go where answers are made.
size_t PromptLanes::choose_lane(int64_t tokens) const {
    const size_t lanes = tokens > options_.beside_decode_tokens_max ? options_.for_prompts : lanes_.size();
    size_t best = 0;
    double best_seconds = lanes_[0].seconds_of(lanes_[0].order.tokens() + tokens, fast);
    for (size_t lane = 1; lane < lanes; ++lane) {
        const double seconds = lanes_[lane].seconds_of(lanes_[lane].order.tokens() + tokens, fast);
        if (seconds < best_seconds) best = lane, best_seconds = seconds;
    }
    return best;
}

/// Takes one of the first prompts of other lanes that have not begun: the most urgent, of equals that of the lane with
/// the most work. It must be done here before all of that work is done there. A device that is still at its first chunk
/// is taken to be as fast as the idle one.
void PromptLanes::take_over(Lane& idle) {
    const double unmeasured = idle.tokens_per_second > 0.0 ? idle.tokens_per_second : fast;
    Lane* from = nullptr;
    PrefillOrder::Job taken;
    double most = 0.0;
    for (Lane& lane : lanes_) {
        const auto may_go = [&](uint64_t id) { return !lane.jobs.at(id).begun && !lane.jobs.at(id).waits; };
        const PrefillOrder::Job* const next = lane.order.first_of(may_go);
        const double seconds = lane.seconds_of(lane.order.tokens(), unmeasured);
        if (next == nullptr || idle.seconds_of(next->tokens, unmeasured) >= seconds) continue;
        const bool better =
            from == nullptr || next->priority > taken.priority || (next->priority == taken.priority && seconds > most);
        if (!better) continue;
        from = &lane;
        taken = *next;
        most = seconds;
    }
    if (from == nullptr) return;
    from->order.remove(taken.id);
    idle.order.add(taken.id, taken.priority, taken.tokens);
    idle.jobs.insert(from->jobs.extract(taken.id));
}

PromptLanes::Lane& PromptLanes::lane_of(uint64_t id) {
    return *std::ranges::find_if(lanes_, [id](const Lane& lane) { return lane.jobs.contains(id); });
}

void PromptLanes::wait(uint64_t id, bool waits) {
    lane_of(id).jobs.at(id).waits = waits;
}

bool PromptLanes::drop_chunk(uint64_t id) {
    Lane& lane = lane_of(id);
    const bool open = std::ranges::count(lane.open, id) > 0;
    lane.jobs.at(id).drops = open;
    return open;
}

void PromptLanes::grow(uint64_t id, int64_t tokens) {
    lane_of(id).order.grow(id, tokens);
}

/// Of chunks that have begun the most urgent, the first of equals, unless a prompt that has not is more urgent. A
/// chunk that is of no use is given up first: it holds a place. So do those that wait, when nobody else can go on.
std::optional<PromptLanes::Piece> PromptLanes::choose(const Lane& lane) const {
    const auto is_open = [&](uint64_t id) { return std::ranges::count(lane.open, id) > 0; };
    const auto urgency = [&](uint64_t id) {
        const Job& job = lane.jobs.at(id);
        return job.withdrawn || job.drops ? std::numeric_limits<int>::max() : job.priority;
    };
    const PrefillOrder::Job* const next =
        lane.order.first_of([&](uint64_t id) { return !is_open(id) && !lane.jobs.at(id).waits; });
    std::optional<uint64_t> begun;
    for (const uint64_t id : lane.open) {
        const Job& job = lane.jobs.at(id);
        const bool goes_on = !job.waits || job.withdrawn || job.drops;
        if (goes_on && (!begun || urgency(id) > urgency(*begun))) begun = id;
    }
    const bool has_place = lane.open.size() < options_.open_max;
    if (begun && (next == nullptr || !has_place || urgency(next->id) <= urgency(*begun)))
        return Piece{*begun, lane.jobs.at(*begun).withdrawn || lane.jobs.at(*begun).drops};
    if (next == nullptr) return std::nullopt;
    return has_place ? Piece{next->id, false} : Piece{lane.open.back(), true};
}

std::optional<PromptLanes::Piece> PromptLanes::begin(size_t index) {
    Lane& lane = lanes_[index];
    if (lane.busy) return std::nullopt;
    if (lane.jobs.empty() && index < options_.for_prompts) take_over(lane);
    const std::optional<Piece> piece = choose(lane);
    if (!piece) return std::nullopt;
    lane.busy = piece->id;
    Job& job = lane.jobs.at(piece->id);
    job.begun = true;
    job.drops = false;
    return piece;
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

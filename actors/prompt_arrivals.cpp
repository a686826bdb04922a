#include "actors/prompt_arrivals.hpp"

#include <utility>

namespace rondo {

namespace {

constexpr double after_patience_s = 0.001;  // so that the time is over when the prompt is asked about again

}  // namespace

void PromptArrivals::add(uint64_t id, std::shared_ptr<const Arrival> arrival, double now, bool ahead) {
    prompts_[id] = Prompt{.arrival = std::move(arrival), .came_at = now, .ahead = ahead};
}

void PromptArrivals::remove(uint64_t id, double now) {
    const auto gone = prompts_.extract(id);
    if (!gone.empty() && gone.mapped().waits_since) waited_seconds_ += now - *gone.mapped().waits_since;
}

PromptArrivals::Look PromptArrivals::look(uint64_t id, double now) {
    const auto found = prompts_.find(id);
    if (found == prompts_.end()) return {};
    Prompt& prompt = found->second;
    note_what_came(prompt, now);
    if (prompt.on_device) return {};
    const Look look = next_of(prompt);
    const std::optional<double> since = std::exchange(prompt.waits_since, std::nullopt);
    if (look.next == Next::waits)
        prompt.waits_since = since.value_or(now);
    else if (since)
        waited_seconds_ += now - *since;
    return look;
}

/// A chunk goes on as far as the keys before it have come; what is computed ahead of them goes on at once. What has
/// failed to come is computed: it becomes a part of what is missing, and the chunk begins anew. So does one that gave
/// its place to another, but not before it can go further than it was: else two of them would take the place from each
/// other for as long as the disk takes.
PromptArrivals::Look PromptArrivals::next_of(const Prompt& prompt) {
    const Arrival& arrival = *prompt.arrival;
    const std::optional<int64_t> whole = arrival.whole();
    const bool fails = whole ? *whole < arrival.end() : prompt.hangs;
    if (fails && prompt.open) return {Next::drops_chunk, 0};
    if (!fails && prompt.ahead) return {Next::goes_on, 0};
    if (whole) return {Next::ends_waiting, arrival.end() - *whole};
    if (fails) return {Next::begins_anew, 0};
    return {prompt.gave_up || arrival.layers() <= prompt.layer ? Next::waits : Next::goes_on, 0};
}

PromptArrivals::Patience PromptArrivals::patience(uint64_t id, double now) {
    const auto found = prompts_.find(id);
    if (found == prompts_.end()) return {};
    Prompt& prompt = found->second;
    if (prompt.arrival->whole()) return {};
    const double patience_s = prompt.arrival->patience();
    if (patience_s == Arrival::for_ever) return {};
    note_what_came(prompt, now);
    const double left_s = prompt.came_at + patience_s - now;
    if (left_s > 0.0) return {false, left_s + after_patience_s};
    prompt.hangs = true;
    return {true, patience_s};
}

void PromptArrivals::note_what_came(Prompt& prompt, double now) {
    const int layers = prompt.arrival->layers();
    if (std::exchange(prompt.layers_come, layers) == layers) return;
    prompt.came_at = now;
    prompt.hangs = false;
}

std::optional<int> PromptArrivals::begin_piece(uint64_t id) {
    const auto found = prompts_.find(id);
    if (found == prompts_.end()) return std::nullopt;
    found->second.on_device = true;
    if (found->second.ahead) return std::nullopt;
    return found->second.arrival->layers() - found->second.layer;
}

void PromptArrivals::end_piece(uint64_t id, const Done& done) {
    const auto found = prompts_.find(id);
    if (found == prompts_.end()) return;
    Prompt& prompt = found->second;
    prompt.on_device = false;
    prompt.open = done.open;
    prompt.layer = done.layer;
    prompt.gave_up = prompt.gave_up || (done.dropped && !prompt.ahead);
    prompt.ahead = done.ahead;
}

}  // namespace rondo

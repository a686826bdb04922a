#include "actors/restoring.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rondo {

namespace {

constexpr size_t tenants_max = 10'000;  // of whom counts are kept
constexpr double learning = 0.25;       // of what is measured anew
constexpr double forgetting = 0.95;     // each time that reading is found too slow: so it is tried again some day

double learned(double old, double measured) {
    return old == 0.0 ? measured : old + learning * (measured - old);
}

}  // namespace

StoreSpace space_of(const Turn& turn) {
    const bool exact = turn.runtime->methods[turn.method].is_dense();
    return {turn.conversation.name.tenant, turn.space, exact ? Exactness::exact : Exactness::sparse};
}

void Restoring::computed(double seconds_per_token) {
    if (seconds_per_token > 0.0) seconds_per_token_ = learned(seconds_per_token_, seconds_per_token);
}

void Restoring::learn_load(uint64_t bytes, double seconds) {
    if (bytes > 0) seconds_per_byte_ = learned(seconds_per_byte_, seconds / static_cast<double>(bytes));
}

/// Whether all blocks from this token on are full, and one begins with it.
bool Restoring::ends_with_whole_blocks(const SequenceKv& kv, int64_t first) const {
    return std::ranges::all_of(layer_groups, [&](LayerGroup group) {
        if (!pool_.shape().has(group)) return true;
        const auto begins = kv.block_begin(group);
        const auto at = std::ranges::lower_bound(begins, first);
        return at != begins.end() && *at == first && kv.tokens() - first == (begins.end() - at - 1) * kv_block_tokens;
    });
}

/// The stored rounds that begin or go on where the turn's KV ends. Of a round of which some is known, that must be
/// whole blocks of it: so a cache leaves it that gives up its end.
std::optional<Restoring::Plan> Restoring::plan(Turn& turn) {
    Plan plan{{SequenceKv(*turn.runtime->pool), {}}, turn.kv.tokens(), turn.kv.tokens(), 0};
    for (StoredRound& round : stored_rounds(store_, pool_.shape(), space_of(turn), turn.reusable())) {
        if (round.end_token() <= plan.known) continue;
        const int64_t known = std::max<int64_t>(plan.known - round.first_token, 0);
        if (known > 0 && !ends_with_whole_blocks(turn.kv, round.first_token)) break;
        plan.end = round.end_token();
        plan.job.rounds.push_back({std::move(round), known / kv_block_tokens});
    }
    if (plan.job.rounds.empty()) return std::nullopt;
    for (const LayerGroup group : layer_groups)
        for (const RoundReader::Round& round : plan.job.rounds)
            if (const auto* const record = store_.index().find(round.stored.records[group]))
                plan.bytes += record->place.bytes;
    return plan;
}

/// Whether it is read before it would be computed, each behind what is queued already.
bool Restoring::is_worth(const Plan& plan) {
    const double computing =
        seconds_per_token_ * static_cast<double>(options_.prompt_tokens() + plan.end - plan.known);
    const double reading = seconds_per_byte_ * static_cast<double>(bytes_under_way_ + plan.bytes);
    if (computing == 0.0 || reading <= computing) return true;
    seconds_per_byte_ *= forgetting;
    return false;
}

/// Takes the blocks for what will come, in rounds as they are stored; false where there are not enough for that and for
/// what has to be computed behind it.
bool Restoring::grow(Turn& turn, const Plan& plan) {
    std::vector<int64_t> ends;
    for (const auto& [round, known_blocks] : plan.job.rounds)
        if (!round.is_part) ends.push_back(round.end_token());
    const std::vector<int64_t> before = turn.kv.planned_ends();
    std::ranges::copy_if(before, std::back_inserter(ends), [&](int64_t end) { return end > plan.end; });
    turn.kv.plan_rounds(std::move(ends));
    if (turn.kv.set_aside(turn.missing() + 1) && turn.kv.extend(plan.end - plan.known)) return true;
    turn.kv.plan_rounds(before);
    return false;
}

Restoring::Counts& Restoring::Counts::operator+=(const Counts& more) {
    asked += more.asked;
    found += more.found;
    restored += more.restored;
    not_worth += more.not_worth;
    failed += more.failed;
    seconds += more.seconds;
    return *this;
}

void Restoring::count(const Tenant& tenant, const Counts& more) {
    counts_ += more;
    if (by_tenant_.size() >= tenants_max && !by_tenant_.contains(tenant)) by_tenant_.clear();
    by_tenant_[tenant] += more;
}

Restoring::Counts Restoring::counts_of(const Tenant& tenant) const {
    const auto found = by_tenant_.find(tenant);
    return found == by_tenant_.end() ? Counts{} : found->second;
}

void Restoring::restore(Turn& turn) {
    turn.restored_tokens = 0;
    std::optional<Plan> plan = this->plan(turn);
    Counts counts;
    counts.asked = std::ssize(turn.reusable()) - turn.kv.tokens();
    if (plan) counts.found = plan->end - plan->known;
    const bool worth = plan && is_worth(*plan);
    if (plan && !worth) counts.not_worth = counts.found;
    count(turn.conversation.name.tenant, counts);
    if (worth && grow(turn, *plan)) read(turn, std::move(*plan));
}

void Restoring::read(Turn& turn, Plan plan) {
    const uint64_t number = ++last_;
    const auto arrival = std::make_shared<Arrival>(
        plan.known, plan.end, pool_.shape().layers,
        [this, post = options_.post, number] { post([this, number] { cancel(number); }); });
    UnderWay& own = under_way_[number];
    own = {arrival, {}, turn.conversation.name.tenant, {}, plan.bytes, options_.now(), false};
    for (const RoundReader::Round& round : plan.job.rounds) {
        own.ends.push_back(round.stored.end_token());
        for (const LayerGroup group : layer_groups) store_.use(round.stored.records[group]);
    }
    bytes_under_way_ += plan.bytes;
    turn.arrival = arrival;
    turn.restored_tokens = plan.end - plan.known;
    plan.job.kv = turn.kv.share();
    plan.job.arrived = [arrival](int layers) { arrival->come(layers); };
    plan.job.over = [this, number](size_t whole) { over(number, whole); };
    const RoundReader::Ticket ticket = reader_.read(std::move(plan.job));
    if (const auto found = under_way_.find(number); found != under_way_.end()) found->second.ticket = ticket;
}

void Restoring::over(uint64_t number, size_t whole) {
    const UnderWay own = std::move(under_way_.extract(number).mapped());
    const int64_t end = whole == 0 ? own.arrival->begin() : own.ends[whole - 1];
    Counts came;
    came.restored = end - own.arrival->begin();
    came.failed = own.cancelled ? 0 : own.arrival->end() - end;
    const double now = options_.now();
    came.seconds = now - own.began;
    count(own.tenant, came);
    bytes_under_way_ -= own.bytes;
    // One is read behind the other.
    const double reading = now - std::max(own.began, std::exchange(over_at_, now));
    if (whole == own.ends.size()) learn_load(own.bytes, reading);
    own.arrival->finish(end);
}

void Restoring::cancel(uint64_t number) {
    const auto found = under_way_.find(number);
    if (found == under_way_.end()) return;
    found->second.cancelled = true;
    reader_.cancel(RoundReader::Ticket(found->second.ticket));
}

std::vector<std::shared_ptr<Arrival>> Restoring::under_way() const {
    std::vector<std::shared_ptr<Arrival>> all;
    for (const auto& [number, own] : under_way_) all.push_back(own.arrival);
    return all;
}

}  // namespace rondo

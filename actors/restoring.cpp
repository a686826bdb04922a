#include "actors/restoring.hpp"

#include <algorithm>
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

uint64_t Restoring::bytes_of(const WayBack& way) const {
    uint64_t bytes = 0;
    for (const LayerGroup group : layer_groups)
        for (const WayBack::Round& round : way.rounds)
            if (const auto* const record = store_.index().find(round.stored.records[group]))
                bytes += record->place.bytes;
    return bytes;
}

/// Whether it is read before it would be computed, each behind what is queued already.
bool Restoring::is_worth(const WayBack& way, uint64_t bytes) {
    const double computing = seconds_per_token_ * static_cast<double>(options_.prompt_tokens() + way.end - way.begin);
    const double reading = seconds_per_byte_ * static_cast<double>(bytes_under_way_ + bytes);
    if (computing == 0.0 || reading <= computing) return true;
    seconds_per_byte_ *= forgetting;
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
    WayBack way =
        way_back(stored_rounds(store_, pool_.shape(), space_of(turn), turn.reusable()), turn.kv, pool_.shape());
    const uint64_t bytes = bytes_of(way);
    Counts counts;
    counts.asked = std::ssize(turn.reusable()) - turn.kv.tokens();
    counts.found = way.end - way.begin;
    const bool worth = counts.found > 0 && is_worth(way, bytes);
    if (!worth) counts.not_worth = counts.found;
    count(turn.conversation.name.tenant, counts);
    if (worth && grow_for(turn.kv, way, turn.missing() + 1)) read(turn, std::move(way), bytes);
}

void Restoring::read(Turn& turn, WayBack way, uint64_t bytes) {
    const uint64_t number = ++last_;
    const auto arrival =
        std::make_shared<Arrival>(way.begin, way.end, pool_.shape().layers,
                                  [this, post = options_.post, number] { post([this, number] { cancel(number); }); });
    UnderWay& own = under_way_[number];
    own = {arrival, {}, turn.conversation.name.tenant, {}, bytes, options_.now(), false};
    for (const WayBack::Round& round : way.rounds) {
        own.ends.push_back(round.stored.end_token());
        for (const LayerGroup group : layer_groups) store_.use(round.stored.records[group]);
    }
    bytes_under_way_ += bytes;
    turn.arrival = arrival;
    turn.restored_tokens = way.end - way.begin;
    RoundReader::Job job{turn.kv.share(), std::move(way.rounds)};
    job.arrived = [arrival](int layers) { arrival->come(layers); };
    job.over = [this, number](size_t whole) { over(number, whole); };
    const RoundReader::Ticket ticket = reader_.read(std::move(job));
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

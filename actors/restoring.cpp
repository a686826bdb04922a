#include "actors/restoring.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/restore_split.hpp"
#include "config/checked.hpp"

namespace rondo {

namespace {

constexpr size_t tenants_max = 10'000;  // of whom counts are kept
constexpr double learning = 0.25;       // of what is measured anew
// Each time that reading is found too slow, the disk's rate is taken for so much less. So reading is tried again some
// day.
constexpr double forgetting = 0.95;

std::pair<StoreName, StoreName> key_of(const StoredRound& round) {
    return {round.records[LayerGroup::lower], round.records[LayerGroup::upper]};
}

double learned(double old, double measured) {
    return old == 0.0 ? measured : old + learning * (measured - old);
}

}  // namespace

void Restoring::learn_load(uint64_t bytes, double seconds) {
    seconds_per_byte_ = learned(seconds_per_byte(), seconds / static_cast<double>(options_.bytes_to_begin + bytes));
}

/// As restores have measured it; before the first of them, as a probe has.
double Restoring::seconds_per_byte() const {
    return seconds_per_byte_ > 0.0 ? seconds_per_byte_ : options_.probed_seconds_per_byte();
}

/// Of the restore that is under way: it may take longer than all before it, and a disk that hangs ends none.
double Restoring::seconds_per_byte_so_far() const {
    for (const auto& [number, own] : under_way_) {
        if (own.disk_bytes == 0) continue;
        const double seconds = options_.now() - std::max(own.began, over_at_);
        return seconds / static_cast<double>(options_.bytes_to_begin + own.bytes_before + own.disk_bytes);
    }
    return 0.0;
}

/// As it was when these records were written.
double Restoring::saved_seconds_per_token(const WayBack& way) const {
    double seconds = 0.0;
    int64_t tokens = 0;
    for (const WayBack::Round& round : way.rounds)
        for (const LayerGroup group : layer_groups) {
            const auto* const record = store_.index().find(round.stored.records[group]);
            if (record == nullptr || record->saved_seconds == 0.0) continue;
            seconds += record->saved_seconds;
            tokens += record->tokens;
        }
    return tokens == 0 ? 0.0 : seconds / static_cast<double>(tokens);
}

/// What lies in host memory is not read.
uint64_t Restoring::disk_bytes_of(std::span<const WayBack::Round> rounds) const {
    uint64_t bytes = 0;
    for (const LayerGroup group : layer_groups)
        for (const WayBack::Round& round : rounds) {
            const StoreName& name = round.stored.records[group];
            const auto* const record = store_.index().find(name);
            if (record != nullptr && reader_.needs_disk(name)) bytes += record->place.bytes;
        }
    return bytes;
}

/// As turns have measured it; before the first of them, as when these records were written.
ComputeRate Restoring::rate_for(const WayBack& way) const {
    if (rate_.is_known()) return rate_;
    ComputeRate saved;
    saved.learn({.tokens = 1.0, .seconds = saved_seconds_per_token(way)});
    return saved;
}

/// That computing what is queued already takes.
double Restoring::seconds_before(const ComputeRate& rate) const {
    return rate.seconds_per_token() * static_cast<double>(options_.prompt_tokens());
}

/// Whether the way is read before its tokens from `first` on would be computed, each behind what is queued already. A
/// rate that nobody knows counts as nothing: the first restores measure the disk. Copying takes no time beside
/// computing.
bool Restoring::is_worth(const WayBack& way, const ComputeRate& rate, int64_t first, uint64_t disk_bytes) {
    if (disk_bytes == 0) return true;
    if (std::ranges::any_of(under_way_, [this](auto& one) { return hangs(one.second); })) return false;
    const double of_byte = seconds_per_byte();
    const uint64_t own = options_.bytes_to_begin + disk_bytes, queued = bytes_under_way_ + options_.bytes_to_write();
    const double alone = rate.seconds(first, way.end - first), computing = seconds_before(rate) + alone;
    const double reading = std::max(of_byte, seconds_per_byte_so_far()) * static_cast<double>(queued + own);
    if (computing == 0.0 || reading <= computing) return true;
    // A rate is not wrong because much is queued.
    if (of_byte * static_cast<double>(own) > alone) seconds_per_byte_ = forgetting * of_byte;
    return false;
}

/// Of the way's first rounds: they are computed while the others are read. A method that leaves keys out would compute
/// other keys than those that are stored. What the turn gives up, to be read in other rounds, would be computed again.
size_t Restoring::rounds_computed_ahead(const Turn& turn, const WayBack& way, const ComputeRate& rate) {
    const double of_byte = std::max(seconds_per_byte(), seconds_per_byte_so_far());
    const bool one_hangs = std::ranges::any_of(under_way_, [this](auto& one) { return hangs(one.second); });
    if (!turn.space.is_exact() || of_byte == 0.0 || !rate.is_known() || one_hangs) return 0;
    if (turn.kv.tokens() - way.begin >= kv_block_tokens) return 0;
    RestoreTask task;
    int64_t begin = way.begin;
    for (const WayBack::Round& round : way.rounds) {
        const int64_t tokens = round.stored.end_token() - begin;
        task.rounds.push_back({rate.seconds(begin, tokens), disk_bytes_of({&round, 1})});
        begin += tokens;
    }
    task.seconds_behind = rate.seconds(way.end, std::ssize(turn.ids) - way.end);
    task.seconds_per_byte = of_byte;
    task.computed_from = seconds_before(rate);
    task.read_from =
        of_byte * static_cast<double>(options_.bytes_to_begin + bytes_under_way_ + options_.bytes_to_write());
    return rounds_ahead(task);
}

Restoring::Counts& Restoring::Counts::operator+=(const Counts& more) {
    asked += more.asked;
    found += more.found;
    restored += more.restored;
    not_worth += more.not_worth;
    ahead += more.ahead;
    failed += more.failed;
    seconds += more.seconds;
    ahead_seconds += more.ahead_seconds;
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

void Restoring::restore(const TurnOfferPtr& offer, std::function<void()> done) {
    Turn& turn = *offer->turn();
    turn.restored_tokens = turn.given_up_tokens = 0;
    count(offer->tenant(), {.asked = offer->tokens()});
    look_up(offer, std::move(done));
}

void Restoring::look_up(const TurnOfferPtr& offer, std::function<void()> done) {
    Turn& turn = *offer->turn();
    WayBack way = way_back(stored_rounds(store_, pool_.shape(), turn.space, turn.reusable()), turn.kv, pool_.shape());
    // Admission lets no more in, and computes anew what is cut into more: a batch has room for thrice a context's.
    keep_within(way, turn.kv, ceil_div<int64_t>(turn.runtime->context_tokens, kv_block_tokens));
    if (way.rounds.empty()) return done();
    if (UnderWay* const other = that_reads(way.rounds.front().stored, turn.space)) {
        if (hangs(*other)) return done();
        if (other->waits_ahead && turn.priority > other->priority) return done();  // its turn may not be computed soon
        int64_t end = 0;
        for (const WayBack::Round& round : way.rounds)
            if (that_reads(round.stored, turn.space) == other) end = round.stored.end_token();
        if (!offer->wait(other->patience)) return done();  // from here on the turn may be its session's
        other->waiting.push_back({offer, end, std::move(done)});
        return;
    }
    Counts counts;
    counts.found = way.end - way.begin;
    const int64_t before = turn.kv.tokens();
    const ComputeRate rate = rate_for(way);
    const double patience =
        std::clamp(seconds_before(rate) + rate.seconds(before, way.end - before), patience_min_s, patience_max_s);
    const size_t ahead = rounds_computed_ahead(turn, way, rate);
    const bool worth = ahead > 0 || is_worth(way, rate, before, disk_bytes_of(way.rounds));
    if (!worth) counts.not_worth = counts.found;
    count(offer->tenant(), counts);
    if (worth && grow_for(turn.kv, way, turn.missing() + 1)) {
        turn.give_up(before - way.begin);
        read(turn, std::move(way), ahead, patience);
    }
    done();
}

/// All that is being read, and what its turns need beside that.
bool Restoring::pool_holds_all() const {
    return std::ranges::all_of(layer_groups, [&](LayerGroup group) {
        int64_t blocks = 0;
        for (const auto& [number, own] : under_way_) blocks += std::ssize(own.kv->blocks(group)) + own.beside[group];
        return blocks <= static_cast<int64_t>(pool_.blocks_total(group));
    });
}

/// A turn whose disk hangs is let in again with other blocks, before all others. Where the pool does not hold them, it
/// would keep everybody out until the disk goes on. So it waits, and so do those whose other blocks it takes.
bool Restoring::could_begin_anew(const Turn& turn, UnderWay& own) {
    own.beside = turn.kv.blocks_for(turn.missing() + 1);
    if (own.disk_bytes == 0) return false;
    const BlockCounts more = own.beside;
    for (const LayerGroup group : layer_groups) own.beside[group] += std::ssize(own.kv->blocks(group));
    if (pool_holds_all()) return true;
    own.beside = more;
    if (pool_holds_all()) return false;
    for (auto& [number, other] : under_way_) {
        const bool begins_anew = !other.cancelled && !other.is_read && !other.is_unwanted && other.arrival &&
                                 other.arrival->patience() != Arrival::for_ever;
        if (!begins_anew) continue;
        other.arrival->wait_for_ever();
        for (const LayerGroup group : layer_groups) other.beside[group] -= std::ssize(other.kv->blocks(group));
    }
    return false;
}

/// Its turn may have gone, and then nobody else looks whether something comes.
bool Restoring::hangs(UnderWay& own) const {
    own.hangs = own.hangs || (own.disk_bytes > 0 && options_.now() - own.came_at > own.patience);
    return own.hangs;
}

/// For a turn of that space: what stands before the round is the same then, too.
Restoring::UnderWay* Restoring::that_reads(const StoredRound& round, const PrefixSpace& space) {
    for (auto& [number, own] : under_way_) {
        if (own.cancelled || own.space != space) continue;
        const auto found = own.records.find(key_of(round));
        if (found != own.records.end() && found->second == round.ids.size()) return &own;
    }
    return nullptr;
}

/// What has come is nobody's to write any more. The turn has it from its beginning on, and room for the rest.
void Restoring::share(const Waiting& one, const SequenceKv& kv, int64_t whole) {
    Turn& turn = *one.offer->turn();
    const int64_t end = std::min(one.end, whole), before = turn.kv.tokens();
    if (end <= before) return;
    SequenceKv shared = kv.beginning(end, turn.kv.planned_ends());
    shared.go_on_as(turn.kv);
    shared.take_set_aside(turn.kv);
    turn.kv = std::move(shared);
    turn.kv.keep_set_aside(turn.missing() + 1 + tokens_for_cuts(turn.missing() + 1));
    turn.restored_tokens += end - before;
    Counts counts;
    counts.found = counts.restored = end - before;
    count(turn.conversation.name.tenant, counts);
}

/// All but the first `ahead` rounds, which are computed meanwhile.
void Restoring::read(Turn& turn, WayBack way, size_t ahead, double patience) {
    const uint64_t number = ++last_;
    UnderWay& own = under_way_[number];
    own.tenant = turn.conversation.name.tenant;
    own.space = turn.space;
    own.priority = turn.priority;
    own.kv = turn.kv.share();
    for (const WayBack::Round& round : way.rounds) own.records[key_of(round.stored)] = round.stored.ids.size();
    for (const LayerGroup group : layer_groups) store_.use(way.rounds.back().stored.records[group]);
    const int64_t begin = ahead > 0 ? way.rounds[ahead].stored.first_token : way.begin;
    way.rounds.erase(way.rounds.begin(), way.rounds.begin() + static_cast<std::ptrdiff_t>(ahead));
    own.rounds = way.rounds;
    const uint64_t disk_bytes = own.disk_bytes = disk_bytes_of(way.rounds);
    own.bytes_before = options_.bytes_to_write();
    own.began = own.came_at = options_.now();
    own.patience = patience;
    const bool may_hang = could_begin_anew(turn, own);
    const auto arrival = own.arrival =
        std::make_shared<Arrival>(begin, way.end, pool_.shape().layers, may_hang ? patience : Arrival::for_ever,
                                  [this, post = options_.post, number](Arrival::Why why) {
                                      post([this, number, why] { cancel(number, why == Arrival::Why::hangs); });
                                  });
    turn.ahead = {way.begin, begin};
    count(own.tenant, {.ahead = turn.ahead.count()});
    own.waits_ahead = ahead > 0;
    if (own.waits_ahead)
        arrival->expect_ahead(
            [this, post = options_.post, number] { post([this, number] { computed_ahead(number); }); });
    bytes_under_way_ += disk_bytes;
    // A turn may go with a stage that dies.
    turn.arrival = std::shared_ptr<Arrival>(arrival.get(), [arrival](Arrival*) { arrival->give_up(); });
    turn.restored_tokens += way.end - begin;
    RoundReader::Job job{turn.kv.share(), std::move(way.rounds)};
    job.arrived = [this, arrival, disk_bytes](int layers) {
        // Who is read from the disk behind it waits for it.
        if (disk_bytes > 0)
            for (auto& [number, one] : under_way_) one.came_at = options_.now();
        arrival->come(layers);
    };
    job.over = [this, number](size_t whole) { over(number, whole); };
    const RoundReader::Ticket ticket = reader_.read(std::move(job));
    if (const auto found = under_way_.find(number); found != under_way_.end()) found->second.ticket = ticket;
}

void Restoring::over(uint64_t number, size_t whole) {
    UnderWay& own = under_way_.at(number);
    own.is_read = true;
    own.whole = whole == 0 ? own.arrival->begin() : own.rounds[whole - 1].stored.end_token();
    Counts came;
    came.restored = own.whole - own.arrival->begin();
    came.failed = own.cancelled ? 0 : own.arrival->end() - own.whole;
    const double now = own.read_at = options_.now();
    came.seconds = now - own.began;
    count(own.tenant, came);
    const uint64_t disk_bytes = std::exchange(own.disk_bytes, 0);
    bytes_under_way_ -= disk_bytes;
    if (disk_bytes > 0) {  // else the disk was not asked
        // One is read behind the other. Who waits for another one's reading does not wait for what was written before.
        const double waited_until = std::exchange(over_at_, now);
        const uint64_t before = waited_until > own.began ? 0 : own.bytes_before;
        if (whole == own.rounds.size()) learn_load(before + disk_bytes, now - std::max(own.began, waited_until));
    }
    if (!own.waits_ahead || own.cancelled) return conclude(number);
    own.hangs = false;
    own.beside = {};  // it does not begin anew any more
    own.arrival->finish(own.whole);
}

/// What stands before what is read, or was read, is there.
void Restoring::computed_ahead(uint64_t number) {
    const auto found = under_way_.find(number);
    if (found == under_way_.end()) return;
    UnderWay& own = found->second;
    own.waits_ahead = false;
    if (!own.is_read) return;
    count(own.tenant, {.ahead_seconds = options_.now() - own.read_at});
    conclude(number);
}

/// It is there, or will not come. Who waits for it shares it, unless it lacks what stands before it.
void Restoring::conclude(uint64_t number) {
    UnderWay own = std::move(under_way_.extract(number).mapped());
    for (const Waiting& one : own.waiting)
        if (one.offer->take() && !own.waits_ahead) share(one, *own.kv, own.whole);
    own.kv.reset();  // its turn's alone from now on, who may write behind what has come
    own.arrival->finish(own.whole);
    look_up_again(std::move(own.waiting));
}

/// Who was taken back meanwhile is not touched.
void Restoring::look_up_again(std::vector<Waiting> waiting) {
    for (Waiting& one : waiting) one.offer->was_taken_back() ? one.done() : look_up(one.offer, std::move(one.done));
}

/// Others may still want what one does not, unless it does not come.
void Restoring::cancel(uint64_t number, bool hangs) {
    const auto found = under_way_.find(number);
    if (found == under_way_.end()) return;
    UnderWay& own = found->second;
    const bool waits =
        std::ranges::any_of(own.waiting, [](const Waiting& one) { return !one.offer->was_taken_back(); });
    if (!hangs) own.beside = {};  // its turn has left
    own.is_unwanted = !hangs;
    if (own.waits_ahead && own.is_read) return conclude(number);  // nobody tells when that is there
    if (waits && !hangs && !own.waits_ahead) return;
    own.cancelled = true;
    own.hangs = own.hangs || hangs;
    std::vector<Waiting> waiting = std::exchange(own.waiting, {});
    if (hangs) {
        count(own.tenant, {.failed = own.arrival->end() - own.arrival->begin()});
        learn_load(own.bytes_before + own.disk_bytes, options_.now() - std::max(own.began, over_at_));
    }
    reader_.cancel(RoundReader::Ticket(own.ticket));
    for (const Waiting& one : waiting) static_cast<void>(one.offer->take());
    look_up_again(std::move(waiting));
}

void Restoring::let_go_of_taken_back() {
    std::vector<uint64_t> nobodys;  // whoever reads has left, and now the last who waited
    for (auto& [number, own] : under_way_) {
        const size_t gone = std::erase_if(own.waiting, [](const Waiting& one) {
            const bool goes = one.offer->was_taken_back();
            if (goes) one.done();
            return goes;
        });
        if (gone > 0 && own.is_unwanted && own.waiting.empty()) nobodys.push_back(number);
    }
    for (const uint64_t number : nobodys) cancel(number, false);
}

void Restoring::end_waiting() {
    for (auto& [number, own] : under_way_)
        for (Waiting& one : std::exchange(own.waiting, {})) {
            static_cast<void>(one.offer->take());
            one.done();
        }
}

std::vector<std::shared_ptr<Arrival>> Restoring::under_way() const {
    std::vector<std::shared_ptr<Arrival>> all;
    for (const auto& [number, own] : under_way_) all.push_back(own.arrival);
    return all;
}

}  // namespace rondo

#include "actors/cache.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/restoring.hpp"
#include "actors/when_answered.hpp"
#include "config/checked.hpp"

namespace rondo {

namespace {

/// Where what a method computes ceases to be exact: where only answers leave keys out, behind the prompt; where rounds
/// are chosen, before the message.
int64_t exact_end(const Turn& turn) {
    const AttentionMethod& method = turn.runtime->methods[turn.method];
    const bool exact =
        method.prefill.method == PrefillAttention::Method::dense && turn.kv.exact_tokens() == turn.kv.tokens();
    if (!exact) return turn.kv.tokens();
    const bool answers_choose = method.decode.method != DecodeAttention::Method::dense;
    if (turn.message_begin == 0 && !answers_choose) return std::numeric_limits<int64_t>::max();
    return std::max(turn.message_begin > 0 ? turn.message_begin : turn.prompt_tokens, turn.kv.tokens());
}

int64_t blocks_of(const SequenceKv& kv) {
    int64_t blocks = 0;
    for (const LayerGroup group : layer_groups) blocks += std::ssize(kv.blocks(group));
    return blocks;
}

constexpr int64_t share_of_store = 4;   // of the pool it may hold this part
constexpr size_t later_max = 64;        // turns whose keys wait for the store
constexpr double store_seconds = 0.02;  // after which whoever wants the store's blocks asks again
// The store gives what it holds up within a tenth of a second. A slow disk may hold its thread up: then turns that run
// do not wait for it.
constexpr auto room_within = std::chrono::milliseconds(200);

}  // namespace

Cache::behavior_type Cache::make_behavior() {
    set_down_handler([this](const caf::down_msg& message) {
        if (store_ && store_.address() == message.source) store_down();
    });
    if (store_) monitor(store_);
    return {
        [this](take_atom, const AdmissionDecisionPtr& asked) {
            take(*asked);
            count();
            return asked;
        },
        [this](claim_atom, const PromptClaimPtr& made) { claim(*made); },
        [this](withdraw_atom, TurnId id) { prefixes_->forget_claim(id); },
        [this](keep_atom, const ComputedPtr& computed) { keep(*computed); },
        [this](share_atom, const TurnPtr& turn) {
            SequenceKv whole = turn->kv.share();  // with the rounds that it does without
            whole.show_rounds();
            prefixes_->insert_full(turn->space, turn->ids, whole, turn->conversation.number);
            count();
            return true;
        },
        [this](room_atom, const BlockCounts& blocks) {
            auto promise = make_response_promise<bool>();
            const bool room = make_room(blocks);
            count();
            if (room || !ask_store_for_room()) {
                promise.deliver(room);
            } else {
                waiting_.push_back({blocks, promise});
            }
            return promise;
        },
        [this](away_atom, const CachedPromptPtr& prompt) { return put_away(prompt); },
        [this](remove_atom, const CachedPromptPtr& prompt) {
            forget_later(prompt->conversation);
            forget(*prompt);
        },
        [this](drain_atom) -> caf::result<bool> {
            if (!store_) return true;
            go_on_putting(true);  // behind it no turn needs room
            return delegate(store_, drain_atom::value);
        },
    };
}

void Cache::on_exit() {
    expected_.clear();
    prefixes_.reset();
    waiting_.clear();
    later_.clear();
    if (store_) demonitor(store_.address());  // it outlives this one, and would keep it in memory
    store_ = nullptr;
    load_->blocks_cached = 0;
    runtime_.reset();
}

/// Nothing is put away any more. What it holds comes back with the answers to what it was asked.
void Cache::store_down() {
    store_ = nullptr;
    for (const Later& one : std::exchange(later_, {})) prefixes_->forget_claim(one.claim);
}

/// The first one, if nothing must go that others wait for. Else another may pass; and the first one waits a moment
/// before it takes the room of a conversation that may go on at once.
void Cache::take(AdmissionDecision& asked) {
    using Outcome = AdmissionDecision::Outcome;
    expected_.expire(now());
    std::vector<TurnId> order;
    for (const AdmissionDecision::Candidate& candidate : asked.candidates) order.push_back(candidate.turn->id);
    prefixes_->order_claims(order);
    asked.chosen = 0;
    asked.outcome = Outcome::let_in;
    Turn& first = *asked.candidates.front().turn;
    if (asked.may_pass && let_in(first, asked.running, true)) return;
    asked.chosen = who_goes(asked);
    if (asked.chosen > 0) {
        do {
            if (let_in(*asked.candidates[asked.chosen].turn, asked.running)) return;
        } while (expected_.give_up_next());
        asked.outcome = Outcome::no_room;
        if (asked.running > 0) return;  // until one of those that run ends
    }
    asked.chosen = 0;
    asked.outcome = Outcome::let_in;
    if (let_in(first, asked.running)) return;
    if (!expected_.empty()) {
        asked.wait_seconds = asked.may_pass ? expected_.worth_waiting(now()) : 0.0;
        if (asked.wait_seconds > 0.0) {
            asked.outcome = Outcome::later;
            return;
        }
        while (expected_.give_up_next())
            if (let_in(first, asked.running)) return;
    }
    if (asked.running == 0 && set_aside(first, SequenceKv(pool_), 0)) return;
    if (ask_store_for_room() || (asked.running == 0 && somebody_holds_blocks())) {
        asked.wait_seconds = store_seconds;
        asked.outcome = Outcome::later;
        return;
    }
    asked.outcome = Outcome::no_room;
    prefixes_->claim(first.id, first.space, first.reusable());
}

/// While no turn runs, that is the store, which still reads for one that has left.
bool Cache::somebody_holds_blocks() const {
    const auto in_use = [&](LayerGroup group) {
        return static_cast<int64_t>(pool_.blocks_total(group) - pool_.blocks_free(group));
    };
    return std::max(in_use(LayerGroup::lower), in_use(LayerGroup::upper)) > prefixes_->blocks_unused();
}

size_t Cache::who_goes(const AdmissionDecision& asked) const {
    if (!asked.may_pass) return 0;
    const auto found = std::ranges::find_if(asked.candidates, [&](const auto& one) { return goes_first(one); });
    return found == asked.candidates.end() ? 0 : static_cast<size_t>(found - asked.candidates.begin());
}

/// At least half of its prompt would be lost if others took the room, and half of what it is ahead. So nobody who
/// passes is ahead by more than two contexts.
bool Cache::goes_first(const AdmissionDecision::Candidate& candidate) const {
    const auto prompt = static_cast<double>(candidate.turn->ids.size());
    return prefixes_->could_lose(candidate.turn->id,
                                 static_cast<int64_t>(std::ceil(std::max(prompt, candidate.ahead) / 2)));
}

/// Each round of a conversation, and whatever follows a preemption, has begun a block of its own. So what is known of a
/// prompt may take many more blocks than its tokens fill, and a turn that holds it lets none of them go. A turn that
/// has the pool to itself is computed anew then, as compactly as can be: a context of any rounds fits. So is one whose
/// blocks are more than a whole context fills, because a batch has room for thrice those:
/// known, planned and answered.
bool Cache::let_in(Turn& turn, int64_t running, bool spares_claims) {
    SequenceKv known = prefixes_->match(turn.space, turn.ids, std::ssize(turn.reusable()), turn.round_ends);
    expected_.came(known);
    const int64_t full = ceil_div<int64_t>(runtime_->context_tokens, kv_block_tokens);
    const BlockCounts more = known.blocks_for(std::ssize(turn.ids) + 1 - known.tokens());
    const auto any = [&](auto too_many) { return std::ranges::any_of(layer_groups, too_many); };
    if (any([&](LayerGroup group) { return std::ssize(known.blocks(group)) > full; })) known = SequenceKv(pool_);
    if (any([&](LayerGroup group) { return more[group] > full; })) known.plan_rounds({});
    return set_aside(turn, std::move(known), running, spares_claims);
}

/// What the turn needs beside what is known of it; without room it holds nothing. What comes from the store may be cut
/// into more rounds than anybody knows here, each of which begins a block; what is left of that the answer takes.
bool Cache::set_aside(Turn& turn, SequenceKv known, int64_t running, bool spares_claims) {
    turn.kv = std::move(known);
    if (!turn.space.is_exact()) turn.kv.go_on_inexactly(exact_end(turn));
    const int64_t tokens = turn.missing() + 1;  // and the answer's first
    const int64_t more = store_ ? tokens_for_cuts(tokens) : 0;
    if ((more > 0 && set_aside(turn, tokens + more, running, spares_claims)) ||
        set_aside(turn, tokens, running, spares_claims)) {
        prefixes_->forget_claim(turn.id);
        return true;
    }
    turn.kv = SequenceKv(pool_);
    return false;
}

bool Cache::set_aside(Turn& turn, int64_t tokens, int64_t running, bool spares_claims) {
    BlockCounts blocks = turn.kv.blocks_for(tokens);
    blocks +=
        pool_.shape().blocks_of_each(running);  // each of those that run may need one before the next of them ends
    const bool spared = !spares_claims || prefixes_->could_spare_claims(blocks);
    return spared && prefixes_->make_room(blocks) && turn.kv.set_aside(tokens).is_ok();
}

/// For turns that run: they wait for nobody.
bool Cache::make_room(const BlockCounts& blocks) {
    do {
        if (prefixes_->make_room(blocks)) return true;
    } while (expected_.give_up_next());
    return false;
}

void Cache::claim(const PromptClaim& claim) {
    if (!expected_.empty()) expected_.came(prefixes_->match(claim.space, claim.ids, std::ssize(claim.ids)));
    prefixes_->claim(claim.turn, claim.space, claim.ids);
}

/// Nobody else holds its blocks then, so that they can go when there is need.
void Cache::keep(Computed& computed) {
    SequenceKv& kv = computed.kv;
    // What is left of a turn that gave keys up is no beginning of anything.
    if (kv.is_whole()) {
        const uint64_t owner = computed.conversation.number;
        prefixes_->insert(computed.space, computed.ids, kv, owner);
        const bool others_wait = prefixes_->claims() > std::ssize(later_);
        if (computed.is_answer && others_wait)
            expected_.add(prefixes_->match(computed.space, computed.ids, kv.tokens()), owner, now());
        if (store_) put_away(computed);
    }
    count();
    kv = SequenceKv(pool_);
}

/// Its blocks are the store's too until they are copied. That is bounded, so that a slow disk does not hold the pool.
/// What is too much stays in the cache until the store has less to do, as long as nobody needs its room.
void Cache::put_away(const Computed& computed) {
    if (computed.computed.tokens > 0.0) seconds_per_token_ = computed.computed.seconds_per_token();
    if (has_enough_to_do(blocks_of(computed.kv))) return put_away_later(computed);
    give_to_store({computed.runtime, computed.conversation, computed.space, computed.ids, computed.kv.share(),
                   computed.computed.seconds_per_token(), 1, computed.computed},
                  [] {});
}

bool Cache::has_enough_to_do(int64_t blocks) const {
    return putting_ > 0 && putting_ + blocks > static_cast<int64_t>(pool_.blocks_total()) / share_of_store;
}

/// What is stored already goes before it, when there is need of room.
void Cache::put_away_later(const Computed& computed) {
    std::vector<int64_t> round_ends;
    for (int64_t r = 1; r < computed.kv.rounds(); ++r) round_ends.push_back(computed.kv.round_begin(r));
    prefixes_->claim(++later_claims_, computed.space, computed.ids);
    later_.push_back(
        {later_claims_, computed.conversation, computed.space, computed.ids, std::move(round_ends), computed.computed});
    if (later_.size() <= later_max) return;
    prefixes_->forget_claim(later_.front().claim);
    later_.pop_front();
    ++figures_->unwritten;
}

void Cache::go_on_putting(bool all) {
    while (!later_.empty() && prefixes_) {
        Later& next = later_.front();
        SequenceKv known = prefixes_->match(next.space, next.ids, std::ssize(next.ids), std::move(next.round_ends));
        if (!all && has_enough_to_do(blocks_of(known))) {
            next.round_ends = known.planned_ends();
            return;
        }
        prefixes_->forget_claim(next.claim);
        const bool is_cut = known.tokens() < std::ssize(next.ids);
        if (is_cut) ++figures_->unwritten;
        next.ids.resize(static_cast<size_t>(known.tokens()));
        const bool any = known.tokens() > 0;
        PutAway what{runtime_,         std::move(next.conversation),      std::move(next.space), std::move(next.ids),
                     std::move(known), next.computed.seconds_per_token(), is_cut ? 0 : 1,        next.computed};
        later_.pop_front();
        if (any) give_to_store(std::move(what), [] {});
    }
}

/// The blocks are the store's too until it has copied them, or has given that up.
void Cache::give_to_store(PutAway what, std::function<void()> copied) {
    const int64_t blocks = blocks_of(what.kv);
    putting_ += blocks;
    const auto over = [this, blocks, copied = std::move(copied)] {
        putting_ -= blocks;
        copied();
        go_on_putting();
    };
    request(store_, caf::infinite, put_atom::value, std::make_shared<PutAway>(std::move(what)))
        .then([over](bool) { over(); }, [over](const caf::error&) { over(); });
}

/// Whoever asks wants the memory: the bound for what is written behind turns does not hold here.
caf::typed_response_promise<int64_t> Cache::put_away(const CachedPromptPtr& prompt) {
    auto promise = make_response_promise<int64_t>();
    struct Together {
        size_t left = 1;
        std::function<void()> done;
    };
    const auto together = std::make_shared<Together>();
    together->done = [this, promise, prompt]() mutable { promise.deliver(forget(*prompt)); };
    const auto one_done = [together] {
        if (--together->left == 0) together->done();
    };
    // Now, for what comes before the store has copied is not put away by this. The other turns have been counted.
    int64_t turns = forget_later(prompt->conversation);
    const Tenant& tenant = prompt->conversation.name.tenant;
    for (const PrefixSpace& space : prefixes_->spaces_of(tenant)) {
        if (!store_) break;
        SequenceKv known = prefixes_->match(space, prompt->ids, std::ssize(prompt->ids), prompt->round_ends);
        if (known.tokens() == 0) continue;
        const auto ids = std::span(prompt->ids).first(static_cast<size_t>(known.tokens()));
        ++together->left;
        give_to_store({runtime_,
                       prompt->conversation,
                       space,
                       {ids.begin(), ids.end()},
                       std::move(known),
                       seconds_per_token_,
                       std::exchange(turns, 0)},
                      one_done);
    }
    figures_->unwritten += turns;  // nothing of them is left
    one_done();
    return promise;
}

/// Returns how many turns of it waited.
int64_t Cache::forget_later(const ConversationKey& conversation) {
    const size_t waited = std::erase_if(later_, [&](const Later& one) {
        const bool its = one.conversation.number != 0 && one.conversation.number == conversation.number;
        if (its) prefixes_->forget_claim(one.claim);
        return its;
    });
    return static_cast<int64_t>(waited);
}

int64_t Cache::forget(const CachedPrompt& prompt) {
    const ConversationKey& conversation = prompt.conversation;
    expected_.forget(conversation.number);
    const int64_t tokens = prefixes_->forget(conversation.name.tenant, prompt.ids, conversation.number);
    count();
    return tokens;
}

/// False: it holds none, or is not there.
bool Cache::ask_store_for_room() {
    if (putting_ == 0 || !store_) return false;
    if (std::exchange(room_asked_, true)) return true;
    when_answered(
        request(store_, room_within, room_atom::value), [this](bool) { room_given(); },
        [this](const caf::error&) { room_given(); });
    return true;
}

void Cache::room_given() {
    room_asked_ = false;
    for (Waiting& one : std::exchange(waiting_, {})) one.promise.deliver(make_room(one.blocks));
    count();
}

}  // namespace rondo

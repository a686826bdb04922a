#include "actors/store.hpp"

#include <algorithm>

#include "config/checked.hpp"

namespace rondo {

Store::behavior_type Store::make_behavior() {
    return {
        [this](take_atom, const TurnPtr& turn, int64_t left_free) { return take(*turn, left_free); },
        [this](keep_atom, const TurnPtr& turn) { keep(*turn); },
        [this](share_atom, const TurnPtr& turn) {
            cache_->insert_full(turn->space, turn->ids, turn->kv);
            count();
            return true;
        },
        [this](room_atom, int64_t blocks) {
            const bool room = cache_->make_room(blocks);
            count();
            return room;
        },
    };
}

void Store::on_exit() {
    cache_.reset();
    load_->blocks_cached = 0;
}

/// Each round of a conversation, and whatever follows a preemption, has begun a block of its own: so what is known of a
/// prompt may take many more blocks than its tokens fill, and while it is held none of them can make way. A turn that
/// has the pool to itself is computed anew then, as compactly as can be: a context of any rounds fits. So is one whose
/// blocks are more than a whole context fills, because a batch has room for twice those.
bool Store::take(Turn& turn, int64_t left_free) {
    const int64_t known_max = static_cast<int64_t>(turn.ids.size()) - turn.recomputed_min;
    SequenceKv known = cache_->match(turn.space, turn.ids, std::max<int64_t>(known_max, 0));
    const int64_t full = ceil_div<int64_t>(home_->context_tokens, kv_block_tokens);
    if (std::ssize(known.blocks(LayerGroup::upper)) > full) known = SequenceKv(pool_);
    bool room = set_aside(turn, std::move(known), left_free);
    if (!room && left_free == 0) room = set_aside(turn, SequenceKv(pool_), left_free);
    count();
    return room;
}

/// What the turn needs beside what is known of it; without room it holds nothing.
bool Store::set_aside(Turn& turn, SequenceKv known, int64_t left_free) {
    turn.kv = std::move(known);
    const int64_t tokens = turn.missing() + 1;  // and the answer's first
    if (cache_->make_room(turn.kv.blocks_for(tokens) + left_free) && turn.kv.set_aside(tokens)) return true;
    turn.kv = SequenceKv(pool_);
    return false;
}

/// The turn lets go of its blocks, so that they can go when there is need.
void Store::keep(Turn& turn) {
    // What is left of a turn that gave keys up is no beginning of anything.
    if (turn.kv.first_held() == 0) cache_->insert(turn.space, turn.ids, turn.kv);
    count();
    turn.kv = SequenceKv(pool_);
}

}  // namespace rondo

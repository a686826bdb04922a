#include "actors/store.hpp"

#include <algorithm>

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

bool Store::take(Turn& turn, int64_t left_free) {
    const int64_t known_max = static_cast<int64_t>(turn.ids.size()) - turn.recomputed_min;
    turn.kv = cache_->match(turn.space, turn.ids, std::max<int64_t>(known_max, 0));
    const int64_t tokens = turn.missing() + 1;  // and the answer's first
    const bool room = cache_->make_room(turn.kv.blocks_for(tokens) + left_free);
    count();
    if (room && turn.kv.set_aside(tokens)) return true;
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

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "actors/turn.hpp"

namespace rondo {

/// What a turn has computed, on its way to the cache. It is handed over: the turn, which may go on elsewhere at once,
/// holds none of it any more.
struct Computed {
    RuntimePtr runtime;  ///< whose blocks they are
    ConversationKey conversation;
    PrefixSpace space;
    std::vector<int32_t> ids;  ///< those that have keys
    SequenceKv kv;
    bool is_answer = false;   ///< the turn is over: its user may go on at once
    ComputedTokens computed;  ///< of its prompts' chunks
};

using ComputedPtr = std::shared_ptr<Computed>;

/// Null: it has no keys. Blocks that it has set aside go back.
inline ComputedPtr computed_by(Turn& turn) {
    turn.leave_ahead();
    turn.kv.show_rounds();
    SequenceKv kv = std::exchange(turn.kv, SequenceKv(*turn.runtime->pool));
    if (kv.tokens() == 0) return nullptr;
    std::vector<int32_t> ids(turn.ids.begin(), turn.ids.begin() + kv.tokens());
    return std::make_shared<Computed>(Computed{turn.runtime, turn.conversation, turn.space, std::move(ids),
                                               std::move(kv), turn.last.over, turn.computed});
}

}  // namespace rondo

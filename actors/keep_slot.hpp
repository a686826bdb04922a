#pragma once

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "actors/kept_conversations.hpp"

namespace rondo {

/// The newest state of one conversation on its way to the store. However often the conversation changes meanwhile, one
/// message about the slot waits in the store's mailbox. Safe from any thread.
class KeepSlot {
public:
    /// By the session. True: the slot was empty, so the store must be sent a message.
    bool put(ConversationToKeep next) {
        const std::lock_guard lock(mutex_);
        // Rounds went before and after: records are kept only as far as they lie before both cuts.
        if (next_ && next_->tokens_left)
            next.tokens_left =
                std::min(*next_->tokens_left, next.tokens_left.value_or(std::numeric_limits<int64_t>::max()));
        return !std::exchange(next_, std::move(next)).has_value();
    }
    /// By the store.
    std::optional<ConversationToKeep> take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(next_, std::nullopt);
    }

private:
    std::mutex mutex_;
    std::optional<ConversationToKeep> next_;
};

}  // namespace rondo

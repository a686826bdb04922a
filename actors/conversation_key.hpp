#pragma once

#include <cstdint>

#include "actors/conversation_info.hpp"

namespace rondo {

/// A conversation's name, and which of that name it is: later ones have larger numbers.
struct ConversationKey {
    ConversationName name;
    uint64_t number = 0;
};

}  // namespace rondo

#pragma once

#include <cstdint>

#include "actors/conversation_info.hpp"

namespace rondo {

/// A conversation's name, and which of that name it is: later ones have larger numbers.
struct ConversationKey {
    ConversationName name;
    uint64_t number = 0;
    uint64_t cuts = 0;  ///< how often rounds of it have been taken back or dropped
};

}  // namespace rondo

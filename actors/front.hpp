#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/conversation_info.hpp"
#include "actors/turn_events.hpp"
#include "config/result.hpp"

/// What a host's actors say to an engine and hear from it (docs/embedding.md). Nothing of it leaves the process.
namespace rondo {

using ask_atom = caf::atom_constant<caf::atom("ask")>;
using cancel_atom = caf::atom_constant<caf::atom("cancel")>;
using create_atom = caf::atom_constant<caf::atom("create")>;
using drop_atom = caf::atom_constant<caf::atom("drop")>;
using fork_atom = caf::atom_constant<caf::atom("fork")>;
using away_atom = caf::atom_constant<caf::atom("away")>;
using list_atom = caf::atom_constant<caf::atom("list")>;
using remove_atom = caf::atom_constant<caf::atom("remove")>;
using rewind_atom = caf::atom_constant<caf::atom("rewind")>;
using title_atom = caf::atom_constant<caf::atom("title")>;

struct Ask;  // ask.hpp
using AskPtr = std::shared_ptr<const Ask>;

/// A turn's first event: it was let in.
struct TurnBegun {
    TurnId turn = 0;     ///< to cancel it with
    caf::actor session;  ///< that serves it: a listener has to monitor it to notice its death, and nothing else
};

/// Any of CAF's errors as ours: those of `front` with all that they said. `who` has failed or did not answer.
Error from_caf(const caf::error& error, const char* who);

}  // namespace rondo

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::AskPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ConversationInfoPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ConversationName)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ConversationPagePtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::PageOf)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::Preamble)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::TurnBegun)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::TurnDelta)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::TurnEnd)

namespace rondo {

/// Who hears a turn's events: that it has begun, some deltas, then one end. A turn that is refused only ends.
using listener_actor = caf::typed_actor<caf::reacts_to<TurnBegun>, caf::reacts_to<TurnDelta>, caf::reacts_to<TurnEnd>>;

/// What a host may ask for: turns, and what is remembered of conversations (docs/embedding.md).
using front_actor = caf::typed_actor<
    /// A turn. Whatever becomes of it is told to the listener; the answer is the turn's id, or an error where nobody
    /// listens.
    caf::replies_to<ask_atom, AskPtr>::with<TurnId>, caf::reacts_to<cancel_atom, TurnId>,
    caf::replies_to<create_atom, ConversationName, Preamble>::with<ConversationInfoPtr>,
    caf::replies_to<list_atom, PageOf>::with<ConversationPagePtr>,
    caf::replies_to<list_atom, ConversationName>::with<ConversationInfoPtr>,
    caf::replies_to<rewind_atom, ConversationName, int64_t>::with<ConversationInfoPtr>,
    caf::replies_to<drop_atom, ConversationName, RoundList>::with<ConversationInfoPtr>,
    caf::replies_to<title_atom, ConversationName, std::string>::with<ConversationInfoPtr>,
    caf::replies_to<fork_atom, ConversationName, ConversationName>::with<ConversationInfoPtr>,
    caf::replies_to<remove_atom, ConversationName>::with<bool>,
    /// A conversation's KV goes to the disk, and its memory is free. The answer: tokens that were in memory.
    caf::replies_to<away_atom, ConversationName>::with<int64_t>>;

}  // namespace rondo

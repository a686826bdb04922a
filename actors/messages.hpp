#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "actors/computed.hpp"
#include "actors/conversation.hpp"
#include "actors/front.hpp"
#include "actors/keep_slot.hpp"
#include "actors/kept_conversations.hpp"
#include "actors/turn.hpp"
#include "actors/turn_offer.hpp"
#include "memory/prefix_space.hpp"

/// What actors say to each other: plain structs, and shared pointers where something is handed over.
namespace rondo {

using ConversationPtr = std::shared_ptr<const Conversation>;

ConversationFigures figures_of(const Conversation& conversation);

/// How a stage hands a turn back.
struct StageReply {
    enum class Outcome : uint8_t { done, over, preempted, refused };

    Outcome outcome = Outcome::done;
    TurnPtr turn;
    Error error;  ///< of a refused one
};

/// What a turn that waits will ask the cache for.
struct PromptClaim {
    TurnId turn = 0;
    PrefixSpace space;
    std::vector<int32_t> ids;
};

/// Who may be let in, and who is.
struct AdmissionDecision {
    enum class Outcome : uint8_t { let_in, no_room, later };
    struct Candidate {
        TurnPtr turn;
        double ahead = 0.0;  ///< tokens by which it would be served before its place
    };

    std::vector<Candidate> candidates;  ///< in fair order: it is the first one's turn
    bool may_pass = false;              ///< another one may go before it
    int64_t running = 0;                ///< turns that grow: each is left a free block of each group
    Outcome outcome = Outcome::no_room;
    size_t chosen = 0;          ///< of the candidates
    double wait_seconds = 0.0;  ///< later: whoever is expected comes within this time or not at all
};

/// One decode step of several turns. Each takes its next token.
struct Step {
    struct Refused {
        TurnPtr turn;
        Error error;
    };

    uint64_t number = 0;  ///< of its stage's, from 1 on
    std::vector<TurnPtr> turns;
    std::vector<Refused> refused;  ///< turns that the device has taken out: the step goes on without them
    Status status;
    double seconds = 0.0;
};

/// A piece of a turn's prefill. With `drop`, what is open of it is given up.
struct Chunk {
    TurnPtr turn;
    double budget_seconds = 0.1;  ///< decode steps wait behind it for about as long; at least a layer is run
    bool drop = false;
    int layers_max = std::numeric_limits<int>::max();  ///< of this piece: more have no keys yet
    Status status;
    double seconds = 0.0;
    bool done = false;  ///< the prompt is complete, and the first token taken
    bool open = false;  ///< stopped between layers: it goes on with the next piece, whatever comes between
    int layer = 0;      ///< of an open one, that comes next
};

/// A turn's choice of keys, on its way from decode to the selector and back, and between its pieces to the device.
/// Touched only by the one who has it; whoever sends it on keeps nothing of it.
struct ChoiceJob {
    RuntimePtr runtime;  ///< whose blocks it holds
    TurnId turn = 0;
    uint64_t due_step = 0;  ///< the first step that waits for it, if the turn is in each
    std::unique_ptr<Choice> choice;
    Status status;  ///< of a piece that was refused: nothing has changed
    double seconds = 0.0;
};

/// A conversation's prompt as it stands, for the cache.
struct CachedPrompt {
    ConversationKey conversation;
    std::vector<int32_t> ids;
    std::vector<int64_t> round_ends;
};

/// What a turn has computed, on its way to the disk. It holds the blocks, to which nobody writes.
struct PutAway {
    RuntimePtr runtime;  ///< whose blocks they are
    ConversationKey conversation;
    PrefixSpace space;
    std::vector<int32_t> ids;
    SequenceKv kv;
    double seconds_per_token = 0.0;  ///< that computing it took; 0: nobody knows
    int64_t turns = 1;               ///< that count as unwritten, should it be given up
    ComputedTokens computed = {};    ///< of it, the last time
};

/// What a tenant has in the store, and has had of it since the start.
struct StoreUse {
    uint64_t bytes = 0;
    int64_t records = 0, conversations = 0;
    int64_t tokens_asked = 0, tokens_restored = 0;
    double restore_seconds = 0.0;
    uint64_t bytes_max = 0;   ///< that he may have
    uint64_t host_bytes = 0;  ///< of his that lie in host memory as well
    bool encrypted = false;
};

/// What an answer has grown by.
struct DeltaOf {
    TurnId turn = 0;
    TurnDelta delta;
};

using AdmissionDecisionPtr = std::shared_ptr<AdmissionDecision>;
using PromptClaimPtr = std::shared_ptr<PromptClaim>;
using StepPtr = std::shared_ptr<Step>;
using ChunkPtr = std::shared_ptr<Chunk>;
using ChoiceJobPtr = std::shared_ptr<ChoiceJob>;
using ConversationBytesPtr = std::shared_ptr<const std::vector<std::byte>>;
using CachedPromptPtr = std::shared_ptr<const CachedPrompt>;
using KeepSlotPtr = std::shared_ptr<KeepSlot>;
using PutAwayPtr = std::shared_ptr<PutAway>;
using StatusPtr = std::shared_ptr<const Status>;

struct NewTurnOf;  // make_turn.hpp
struct Stages;     // stages.hpp
using NewTurnPtr = std::shared_ptr<NewTurnOf>;
using StagesPtr = std::shared_ptr<const Stages>;

/// Who is told how an answer grows.
using delta_sink_actor = caf::typed_actor<caf::reacts_to<DeltaOf>>;

/// Our errors as CAF carries them.
caf::error to_caf(const Error& error);
/// Of a stage that ends because the piece of work it gave to a device is not done in time.
Error late_device();
/// Of whatever is asked for when the router is gone.
Error ended_engine();
/// For a log.
std::string text_of(const caf::error& error, const caf::actor_system& system);

}  // namespace rondo

// These never leave the process.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::AdmissionDecisionPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::BlockCounts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ChoiceJobPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ChunkPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ComputedPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ConversationBytesPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ConversationFigures)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ConversationKey)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::ConversationPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::DeltaOf)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::KeepSlotPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::NewTurnPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::PromptClaimPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::CachedPromptPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::PutAwayPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::StageReply)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::StagesPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::TurnOfferPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::StatusPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::StepPtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::StoreUse)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(rondo::TurnPtr)

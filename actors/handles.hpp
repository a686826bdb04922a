#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <string>

#include "actors/front.hpp"
#include "actors/messages.hpp"

/// Who answers what. Bulk bytes are never in a message: turns and steps travel as shared pointers within the process.
namespace rondo {

using admit_atom = caf::atom_constant<caf::atom("admit")>;
using age_atom = caf::atom_constant<caf::atom("age")>;
using claim_atom = caf::atom_constant<caf::atom("claim")>;
using chunk_atom = caf::atom_constant<caf::atom("chunk")>;
using closed_atom = caf::atom_constant<caf::atom("closed")>;
using copy_atom = caf::atom_constant<caf::atom("copy")>;
using decode_atom = caf::atom_constant<caf::atom("decode")>;
using done_atom = caf::atom_constant<caf::atom("done")>;
using expire_atom = caf::atom_constant<caf::atom("expire")>;
using keep_atom = caf::atom_constant<caf::atom("keep")>;
using over_atom = caf::atom_constant<caf::atom("over")>;
using pause_atom = caf::atom_constant<caf::atom("pause")>;
using drain_atom = caf::atom_constant<caf::atom("drain")>;
using give_up_atom = caf::atom_constant<caf::atom("giveup")>;
using put_atom = caf::atom_constant<caf::atom("put")>;
using restore_atom = caf::atom_constant<caf::atom("restore")>;
using prefill_atom = caf::atom_constant<caf::atom("prefill")>;
using pump_atom = caf::atom_constant<caf::atom("pump")>;
using room_atom = caf::atom_constant<caf::atom("room")>;
using select_atom = caf::atom_constant<caf::atom("select")>;
using share_atom = caf::atom_constant<caf::atom("share")>;
using step_atom = caf::atom_constant<caf::atom("step")>;
using take_atom = caf::atom_constant<caf::atom("take")>;
using text_atom = caf::atom_constant<caf::atom("text")>;
using watch_atom = caf::atom_constant<caf::atom("watch")>;
using withdraw_atom = caf::atom_constant<caf::atom("withdraw")>;
using arrived_atom = caf::atom_constant<caf::atom("arrived")>;

/// Does work on a device, and answers when that is done. Each of the device's streams is issued to by one thread at a
/// time: compute by this actor, load and store by the store.
using device_runner_actor = caf::typed_actor<
    /// A decode step. Failed, no sequence has grown. Done, choices of keys that are due behind it have begun.
    caf::replies_to<step_atom, StepPtr>::with<StepPtr>,
    /// More of a prompt, as far as its budget of time goes; or the open chunk given up. Behind a complete prompt the
    /// first choice of keys has begun, if it is due.
    caf::replies_to<chunk_atom, ChunkPtr>::with<ChunkPtr>,
    /// Some of a choice of keys, no longer than decode steps can well wait for it.
    caf::replies_to<select_atom, ChoiceJobPtr>::with<ChoiceJobPtr>,
    /// From the device, when what was issued last is complete.
    caf::reacts_to<done_atom, StatusPtr>>;

/// KV that may be used again.
using cache_actor = caf::typed_actor<
    /// Chooses who is let in, gives that turn the blocks of its prompt's longest known beginning, and sets the others
    /// aside.
    caf::replies_to<take_atom, AdmissionDecisionPtr>::with<AdmissionDecisionPtr>,
    /// A turn waits: what it will need goes after what nobody waits for. Until it is let in or withdrawn.
    caf::reacts_to<claim_atom, PromptClaimPtr>, caf::reacts_to<withdraw_atom, TurnId>,
    /// What a turn has computed may be used again.
    caf::reacts_to<keep_atom, ComputedPtr>,
    /// The same for a turn that goes on, but for a last block that it will still write to.
    caf::replies_to<share_atom, TurnPtr>::with<bool>,
    /// What is known of a conversation's prompt goes to the store and out of the pool; how many tokens those were. Or
    /// out of the pool alone, since the conversation is gone.
    caf::replies_to<away_atom, CachedPromptPtr>::with<int64_t>, caf::reacts_to<remove_atom, CachedPromptPtr>,
    /// Frees this many blocks, if it can.
    caf::replies_to<room_atom, BlockCounts>::with<bool>,
    /// Answers when what it has given to the store is on the disk, or given up.
    caf::replies_to<drain_atom>::with<bool>>;

/// Puts away what turns have computed, and brings it back. Conversations' KV outlives stages, and the process, here.
using store_actor = caf::typed_actor<
    /// Brings back what is stored of the turn's prompt behind what it has, as far as that is sooner than computing it.
    /// It is given back at once; its arrival tells what has come. No turn if the session has taken it back.
    caf::replies_to<restore_atom, TurnOfferPtr>::with<StageReply>,
    /// Sessions have taken turns back: who waits for what is read for another turn is answered.
    caf::reacts_to<withdraw_atom>,
    /// Puts it on the disk. Answers when its blocks may go.
    caf::replies_to<put_atom, PutAwayPtr>::with<bool>,
    /// A conversation as it now stands, to be kept; it as it was kept; it and its KV gone. Some seconds later nothing
    /// of it is in any file (true), or in ten minutes.
    caf::reacts_to<keep_atom, KeepSlotPtr>, caf::replies_to<copy_atom, ConversationName>::with<ConversationBytesPtr>,
    caf::replies_to<remove_atom, ConversationKey, bool>::with<bool>, caf::reacts_to<expire_atom>,
    /// What was not used for too long goes; from then on again and again.
    caf::reacts_to<age_atom>,
    /// What a tenant has here.
    caf::replies_to<list_atom, std::string>::with<StoreUse>,
    /// Answers when nothing that it was given holds blocks any more: soon, at the cost of what is not copied then.
    caf::replies_to<room_atom>::with<bool>, caf::reacts_to<give_up_atom>,
    /// Answers when everything it was given is on the disk, or given up.
    caf::replies_to<drain_atom>::with<bool>,
    /// From its disk and its device: there are tasks.
    caf::reacts_to<pump_atom>>;

/// Lets turns in, in fair order, when there is memory for them, and brings back what is known of their prompts.
using admission_actor =
    caf::typed_actor<caf::replies_to<admit_atom, TurnPtr>::with<StageReply>, caf::reacts_to<withdraw_atom, TurnId>,
                     /// A turn has let go of its memory.
                     caf::reacts_to<closed_atom, TurnId>, caf::reacts_to<pump_atom>>;

/// Computes what is missing of prompts, and each answer's first token.
using prefill_actor =
    caf::typed_actor<caf::replies_to<prefill_atom, TurnPtr>::with<StageReply>, caf::reacts_to<withdraw_atom, TurnId>,
                     /// More has come of what a turn's prompt waits for.
                     caf::reacts_to<arrived_atom, TurnId>,
                     /// To itself: whether more still comes.
                     caf::reacts_to<give_up_atom, TurnId>,
                     /// To itself: whether the piece that it gave to this of its devices is done.
                     caf::reacts_to<watch_atom, uint64_t, uint64_t>>;

/// Chooses what a turn's decode steps attend to, between those steps.
using selector_actor = caf::typed_actor<
    /// Makes a turn's choice and gives it back: complete, or as far as it came where it cannot be made.
    caf::replies_to<select_atom, ChoiceJobPtr>::with<ChoiceJobPtr>,
    /// The turn's choice is not wanted any more. It comes back soon.
    caf::reacts_to<withdraw_atom, TurnId>>;

/// Continues answers, many at a time. Every further token goes to `deltas` as it comes.
using decode_actor = caf::typed_actor<caf::replies_to<decode_atom, TurnPtr, delta_sink_actor>::with<StageReply>,
                                      caf::reacts_to<withdraw_atom, TurnId>,
                                      /// To itself: whether this step is done.
                                      caf::reacts_to<watch_atom, uint64_t>>;

/// One conversation. Turns are served in order; each one's listener hears its events.
using session_actor = delta_sink_actor::extend<
    /// Turns of a conversation wait for each other.
    caf::reacts_to<ask_atom, AskPtr>, caf::reacts_to<cancel_atom, TurnId>, caf::reacts_to<expire_atom, TurnId>,
    caf::replies_to<list_atom>::with<ConversationInfoPtr>,
    caf::replies_to<rewind_atom, int64_t>::with<ConversationInfoPtr>,
    caf::replies_to<drop_atom, RoundList>::with<ConversationInfoPtr>,
    caf::replies_to<title_atom, std::string>::with<ConversationInfoPtr>,
    /// Ends, once the turn under way is cancelled and handed back.
    caf::reacts_to<remove_atom>,
    /// Its KV goes to the disk.
    caf::replies_to<away_atom>::with<int64_t>,
    /// A turn's text is rendered and tokenized, or cannot be.
    caf::reacts_to<text_atom, NewTurnPtr>,
    /// What it remembers, for a fork.
    caf::replies_to<copy_atom>::with<ConversationPtr>,
    /// From the router, as the supervisor has it.
    caf::reacts_to<StagesPtr>, caf::reacts_to<pause_atom>>;

/// Where turns come in: finds or makes the session of each, and refuses what is too much.
using router_actor =
    front_actor::extend<  /// From a session: the turn is over, and this is what its conversation has come to.
        caf::reacts_to<over_atom, TurnId, ConversationFigures>,
        /// To itself, when the next deadline may have come.
        caf::reacts_to<expire_atom>,
        /// To itself, when a conversation may be too old.
        caf::reacts_to<age_atom>,
        /// From the supervisor: the stages that serve from now on; null: there will be none any more.
        caf::reacts_to<StagesPtr>,
        /// The stages are gone, and others will be told of: turns wait until then.
        caf::reacts_to<pause_atom>,
        /// Answers when what turns have computed is on the disk, or given up.
        caf::replies_to<drain_atom>::with<bool>>;

/// Keeps the stages running.
using supervisor_actor = caf::typed_actor<caf::reacts_to<router_actor>,
                                          /// To itself, when the stages of this start ought to have ended.
                                          caf::reacts_to<expire_atom, uint64_t>>;

}  // namespace rondo

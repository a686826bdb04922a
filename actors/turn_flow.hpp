#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rondo {

/// The life of a turn as its session sees it, without actors: which stage holds it, and what is asked of whom next. Its
/// user hears exactly one terminal event, whatever fails, is cancelled or runs out of time.
///
///     idle → admitting → restoring → prefilling → decoding → idle
///                ↑____________preempted___|___________|        cancelled, expired, failed: → draining → idle
///
/// A stage always answers (or its death is noticed), so draining ends. A turn's KV is kept when its stage handed it
/// back, and dropped when the stage is gone and nobody can say what it had written.
class TurnFlow {
public:
    enum class State : uint8_t { idle, admitting, restoring, prefilling, decoding, draining };
    enum class Event : uint8_t {
        start,
        admitted,   ///< blocks are found or set aside
        restored,   ///< what is stored of its prompt has come back, or is not worth it
        prefilled,  ///< the first token is chosen
        over,       ///< the answer is complete
        preempted,  ///< decode gave the turn back for want of memory, or prefill because its keys do not come
        refused,    ///< the stage hands the turn back unharmed with an error, or as it was told to
        lost,       ///< the stage died or never answered
        cancel,     ///< by the user
        expired,    ///< its deadline passed
    };
    enum class Action : uint8_t {
        admit,
        restore,
        prefill,
        decode,
        end_done,       ///< the terminal event: stop or length
        end_cancelled,  ///< the terminal event
        end_failed,     ///< the terminal event: the stage's error
        end_expired,    ///< the terminal event
        withdraw,       ///< tell the stage that holds the turn to hand it back
        keep_kv,        ///< what has been computed may be used again
        drop_kv,
    };
    /// What to do, in order.
    using Actions = std::vector<Action>;

    Actions on(Event event);
    State state() const { return state_; }
    bool idle() const { return state_ == State::idle; }

private:
    Actions end_early(Action terminal);

    State state_ = State::idle;
};

std::string_view name_of(TurnFlow::State state);
std::string_view name_of(TurnFlow::Event event);

}  // namespace rondo

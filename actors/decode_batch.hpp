#pragma once

#include <list>
#include <optional>
#include <vector>

#include "actors/messages.hpp"

namespace rondo {

/// The turns of one device's continuous batch. It says which of them the next step has, who waits for a choice of keys,
/// who gives way when memory runs out, and when a turn has left. Plain rules: its actor sends the messages.
///
/// A choice of a turn's keys goes out as a job, for others to make. While a step is under way its turns are the
/// runner's: a choice that comes back meanwhile waits here for the step's end.
class DecodeBatch {
public:
    /// A step has no more rows than `rows_max`; further turns wait.
    explicit DecodeBatch(size_t rows_max = 32) : rows_max_(rows_max) {}

    /// The turn's prompt is complete. Its runner has begun the first choice of its keys, if one is due.
    void join(const TurnPtr& turn);

    /// The turn is to leave before the next step; false: it is not here.
    bool withdraw(TurnId id);
    /// Those who are, and have not begun to leave.
    std::vector<TurnId> withdrawn() const;

    /// Before a step: whether any turn can take part, once those that wait for their choice are counted.
    bool can_step();
    /// Sets a place aside for each token of the next step. Returns the blocks of which turns found none.
    BlockCounts set_places_aside();
    /// Somebody leaves before the next step, or as soon as its choice is back, and gives memory back then.
    bool is_leaving() const;
    /// Who gives way for want of memory; none where somebody leaves anyway. The lowest priority, and of those who have
    /// it the last to come: so the first always gets to its end. One that is alone comes back to rounds in no more
    /// blocks than they fill (see Cache::take).
    std::optional<TurnId> to_preempt() const;
    /// The turns of the next step, in order of joining. Returns its number: 1, 2, …
    uint64_t begin_step(std::vector<TurnPtr>& turns);

    /// The choice of the turn's keys, if its runner has just begun one; null otherwise.
    ChoiceJobPtr begin_choice(TurnId id);
    /// It is back: complete, or as far as it came. If its turn was to leave, that leaves.
    std::optional<StageReply> end_choice(const ChoiceJobPtr& job);
    /// Gives turns the choices that are back. No step is under way.
    void take_back_choices();
    /// The turn as it leaves; none: it leaves when its choice is back, which somebody has to ask for.
    std::optional<StageReply> leave(TurnId id, StageReply::Outcome outcome, Error error = {});

    void clear() { rows_.clear(); }

private:
    struct Leaving {
        StageReply::Outcome outcome;
        Error error;
    };
    struct Row {
        TurnPtr turn;
        bool withdrawn = false;
        bool choosing = false;           // a choice of its keys is out, or `made`
        ChoiceJobPtr made;               // is back, and the turn does not know yet
        bool waits = false;              // for it, and that has been counted
        std::optional<Leaving> leaving;  // as soon as it is back

        bool steps() const { return !leaving && !(choosing && turn->step_attention->due()); }
    };
    using Rows = std::list<Row>;

    Rows::iterator find(TurnId id);
    StageReply erase(Rows::iterator row, StageReply::Outcome outcome, Error error);

    const size_t rows_max_;
    Rows rows_;           // in order of joining
    uint64_t steps_ = 0;  // that have begun
};

}  // namespace rondo

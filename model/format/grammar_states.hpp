#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/format/byte_grammar.hpp"

namespace rondo {

/// Where a text stands in a grammar, as numbers that are made when they are first met. One state is all places at which
/// the grammar may be behind the same bytes. Not shared between threads; borrows the grammar.
class GrammarStates {
public:
    using State = int32_t;
    static constexpr State dead = -1;  ///< no text of the grammar begins so

    explicit GrammarStates(const ByteGrammar& grammar) : grammar_(&grammar) { forget(); }

    State begin(ByteGrammar::Node node);
    State next(State state, uint8_t byte) {
        const State known = row(state)[grammar_->class_of(byte)];
        return known != unknown ? known : make_next(state, byte);
    }
    /// The text may end here.
    bool may_end(State state) const { return state != dead && states_[static_cast<size_t>(state)].may_end; }
    /// Nothing may follow.
    bool is_last(State state) const { return state == dead || states_[static_cast<size_t>(state)].places.empty(); }
    int32_t count() const { return static_cast<int32_t>(states_.size()); }
    /// So much work was done to make states since `forget`: places looked at.
    size_t work() const { return work_; }
    /// Forgets every state but this one, and gives its new number.
    State keep_only(State state);

private:
    static constexpr State unknown = -2;
    using Level = int32_t;
    static constexpr Level outermost = 0;

    /// A node that reads a byte, and where the rules that it stands in go on when they end.
    struct Place {
        ByteGrammar::Node node;
        Level level;
        auto operator<=>(const Place&) const = default;
    };
    struct Known {
        std::vector<Place> places;
        bool may_end = false;
        auto operator<=>(const Known&) const = default;
    };
    struct LevelOf {
        ByteGrammar::Node back;
        Level outer;
        int32_t depth;
    };

    State* row(State state) { return &rows_[static_cast<size_t>(state) * grammar_->classes()]; }
    State make_next(State state, uint8_t byte);
    /// Adds the places that are reached from there without a byte.
    void reach(Place from, Known& into);
    /// Nothing when rules are called too deeply.
    Level inside(Level outer, ByteGrammar::Node back);
    State number_of(Known known);
    void forget();

    const ByteGrammar* grammar_;
    std::vector<Known> states_;
    std::vector<State> rows_;  // by state, then by class of byte
    std::map<Known, State> numbers_;
    std::vector<LevelOf> levels_;
    std::unordered_map<uint64_t, Level> level_numbers_;
    std::vector<Place> to_reach_;
    std::unordered_set<uint64_t> reached_;
    size_t work_ = 0;
};

}  // namespace rondo

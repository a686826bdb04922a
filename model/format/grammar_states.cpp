#include "model/format/grammar_states.hpp"

#include <algorithm>
#include <utility>

#include "config/limits.hpp"

namespace rondo {

namespace {

uint64_t joined(int32_t high, int32_t low) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32) | static_cast<uint32_t>(low);
}

}  // namespace

void GrammarStates::forget() {
    states_.clear();
    rows_.clear();
    numbers_.clear();
    levels_.assign(1, {ByteGrammar::end, outermost, 0});
    level_numbers_.clear();
    work_ = 0;
}

GrammarStates::State GrammarStates::begin(ByteGrammar::Node node) {
    Known known;
    reached_.clear();
    reach({node, outermost}, known);
    return number_of(std::move(known));
}

GrammarStates::State GrammarStates::make_next(State state, uint8_t byte) {
    Known known;
    reached_.clear();
    for (size_t i = 0; i < states_[static_cast<size_t>(state)].places.size(); ++i) {
        const Place place = states_[static_cast<size_t>(state)].places[i];
        const ByteGrammar::Link& link = grammar_->link(place.node);
        ++work_;
        if (link.low <= byte && byte <= link.high) reach({link.next, place.level}, known);
    }
    const State next = number_of(std::move(known));
    row(state)[grammar_->class_of(byte)] = next;
    return next;
}

void GrammarStates::reach(Place from, Known& into) {
    using Kind = ByteGrammar::Link::Kind;
    to_reach_.push_back(from);
    while (!to_reach_.empty()) {
        const Place place = to_reach_.back();
        to_reach_.pop_back();
        if (!reached_.insert(joined(place.node, place.level)).second) continue;
        ++work_;
        const ByteGrammar::Link& link = grammar_->link(place.node);
        switch (link.kind) {
            case Kind::never:
                break;
            case Kind::bytes:
                // What is left out makes the set of texts smaller, never wrong.
                if (into.places.size() < limits::format_places_max) into.places.push_back(place);
                break;
            case Kind::either:
                to_reach_.push_back({link.next, place.level});
                to_reach_.push_back({link.other, place.level});
                break;
            case Kind::call: {
                const Level level = inside(place.level, link.next);
                if (level >= 0) to_reach_.push_back({grammar_->begin_of(link.other), level});
                break;
            }
            case Kind::end:
                if (place.level == outermost) {
                    into.may_end = true;
                } else {
                    const LevelOf& level = levels_[static_cast<size_t>(place.level)];
                    to_reach_.push_back({level.back, level.outer});
                }
                break;
        }
    }
}

GrammarStates::Level GrammarStates::inside(Level outer, ByteGrammar::Node back) {
    if (back == ByteGrammar::end) return outer;  // a rule that ends with the one it stands in
    const auto [found, is_new] = level_numbers_.try_emplace(joined(back, outer), static_cast<Level>(levels_.size()));
    if (!is_new) return found->second;
    const int32_t depth = levels_[static_cast<size_t>(outer)].depth + 1;
    if (depth > limits::format_depth_max) {
        found->second = dead;
    } else {
        levels_.push_back({back, outer, depth});
    }
    return found->second;
}

GrammarStates::State GrammarStates::number_of(Known known) {
    if (known.places.empty() && !known.may_end) return dead;
    std::ranges::sort(known.places);
    const auto [found, is_new] = numbers_.try_emplace(std::move(known), static_cast<State>(states_.size()));
    if (is_new) {
        states_.push_back(found->first);
        rows_.insert(rows_.end(), grammar_->classes(), unknown);
    }
    return found->second;
}

GrammarStates::State GrammarStates::keep_only(State state) {
    if (state == dead) return dead;
    // Levels are numbered anew, so those of this state are made again from the outside in.
    const Known old = states_[static_cast<size_t>(state)];
    const std::vector<LevelOf> levels = std::move(levels_);
    forget();
    std::vector<Level> number(levels.size(), dead);
    number[outermost] = outermost;
    Known known{{}, old.may_end};
    std::vector<Level> chain;
    for (const Place& place : old.places) {
        for (Level level = place.level; number[static_cast<size_t>(level)] == dead;
             level = levels[static_cast<size_t>(level)].outer)
            chain.push_back(level);
        for (; !chain.empty(); chain.pop_back()) {
            const LevelOf& level = levels[static_cast<size_t>(chain.back())];
            number[static_cast<size_t>(chain.back())] = inside(number[static_cast<size_t>(level.outer)], level.back);
        }
        known.places.push_back({place.node, number[static_cast<size_t>(place.level)]});
    }
    return number_of(std::move(known));
}

}  // namespace rondo

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "memory/sequence_kv.hpp"

namespace rondo {

/// Conversations that may go on at once. A turn that is over while others wait keeps its blocks for a moment, so that a
/// client who answers at once finds them. Who needs the room meanwhile waits for that moment, but only while
/// waiting pays: where clients take longer, they are hardly waited for any more. Not shared between threads.
class Expected {
public:
    static constexpr double seconds_max = 0.02;

    /// `conversation`: its number, 0 where the engine keeps none.
    void add(SequenceKv kv, uint64_t conversation, double now) {
        if (kv.tokens() > 0) held_.push_back({std::move(kv), conversation, now + seconds_max, false});
    }
    /// The conversation is gone, or its keys shall be: its blocks are nobody's.
    void forget(uint64_t conversation) {
        if (conversation == 0) return;
        std::erase_if(held_, [&](const Held& held) { return held.conversation == conversation; });
    }
    /// A turn begins with these blocks: whoever was expected to go on from there has come.
    void came(const SequenceKv& known) {
        std::erase_if(held_, [&](const Held& held) {
            const bool same = std::ranges::all_of(layer_groups, [&](LayerGroup group) {
                const auto mine = held.kv.blocks(group), blocks = known.blocks(group);
                return mine.empty() || (mine.size() <= blocks.size() && mine.back() == blocks[mine.size() - 1]);
            });
            if (same && held.waited_for) learn(1.0);
            return same;
        });
    }
    /// Those whose moment is over are expected no more.
    void expire(double now) {
        for (; !held_.empty() && held_.front().until <= now; held_.pop_front())
            if (held_.front().waited_for) learn(0.0);
    }
    /// Somebody needs the room: how long he should wait for it, in seconds; 0: not at all.
    double worth_waiting(double now) {
        if (held_.empty()) return 0.0;
        const bool waits = std::ranges::any_of(held_, &Held::waited_for);
        if (!waits && comes_ < comes_min && ++asked_ % asked_rarely != 0) return 0.0;
        for (Held& held : held_) held.waited_for = true;
        return held_.front().until - now;
    }
    /// Lets go of the one whose moment is over first; false: there was none.
    bool give_up_next() {
        if (held_.empty()) return false;
        held_.pop_front();
        return true;
    }
    void clear() { held_.clear(); }
    bool empty() const { return held_.empty(); }

private:
    struct Held {
        SequenceKv kv;
        uint64_t conversation;
        double until;
        bool waited_for;
    };
    static constexpr double comes_min = 0.25, learning = 0.125;
    static constexpr uint64_t asked_rarely = 16;

    void learn(double came) { comes_ += learning * (came - comes_); }

    std::deque<Held> held_;  // in order of their time
    double comes_ = 1.0;     // the share of those waited for who came, of late
    uint64_t asked_ = 0;
};

}  // namespace rondo

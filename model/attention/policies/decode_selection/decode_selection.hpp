#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "config/settings.hpp"

namespace rondo {

/// When a method chooses anew.
struct ChoiceTriggers {
    bool after_prefill = false;  ///< once, before the first decode step
    int every = 0;               ///< decode steps between two choices; 0: never again
    int first = 0;               ///< decode steps before the first choice, which attend to everything
    bool once = false;           ///< never again once a choice serves

    /// A choice that serves is followed by others.
    bool go_on() const { return every > 0 && !once; }
};

/// What a layer's keys were worth to the queries that were looked at.
struct KeyScores {
    int kv_heads = 0;
    int64_t keys = 0;                ///< candidates, in the order of their positions
    std::span<const float> weights;  ///< [kv_heads, keys]: attention, summed over queries, mean over a group's heads
};

/// Which keys the decode steps attend to, by layer and KV head. Plain logic; no state that changes a choice.
class DecodeSelection {
public:
    virtual ~DecodeSelection() = default;
    virtual ChoiceTriggers triggers() const = 0;
    /// Queries whose attention scores the keys: so many of the last; 0: `select` asks for no scores.
    virtual int queries() const = 0;
    /// Keys that are not chosen are given up for good, and their memory with them.
    virtual bool evicts() const { return false; }
    /// Once a choice serves, scores go on being summed step by step. A key that falls out of the tail takes the place
    /// of the chosen key that has been worth least, if it has been worth more itself.
    virtual bool accumulates() const { return false; }
    /// The chosen keys, the same number for each KV head, stand right before the tail, whatever was said between.
    virtual bool shifts() const { return false; }
    /// The keys from which on all are attended to, besides the chosen ones: of `keys`, when `seen` were chosen from.
    virtual int64_t tail_begin(int64_t seen, int64_t keys) const {
        static_cast<void>(keys);
        return seen;
    }
    /// Whether choosing is worth it: false means attend to all of them.
    virtual bool wanted(int64_t keys) const = 0;
    /// Overwrites `chosen[h]` with the candidates kept for KV head h, ascending. `chosen` has kv_heads entries.
    virtual void select(const KeyScores& scores, uint64_t seed, std::span<std::vector<int32_t>> chosen) const = 0;
};

/// By the name that settings call it; nullptr for dense, and for quest, which chooses pages before each step
/// (quest.hpp). The settings have been checked.
std::unique_ptr<DecodeSelection> make_decode_selection(const DecodeAttention& settings);

}  // namespace rondo

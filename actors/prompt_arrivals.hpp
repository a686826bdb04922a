#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "actors/arrival.hpp"

namespace rondo {

/// Prompts whose first keys are still on their way: whether a prompt can go on, what becomes of it when keys fail to
/// come, and for how long nothing may come. Plain rules: Prefill tells the time and what the device has done, and does
/// what is said here. Not shared between threads; an Arrival is, and the prompt is looked at after each of its changes.
class PromptArrivals {
public:
    /// The prompt, of which no chunk has begun, waits for keys from now on. Seconds are of one clock. `ahead`: it first
    /// computes what stands before them, and waits for nothing meanwhile.
    void add(uint64_t id, std::shared_ptr<const Arrival> arrival, double now, bool ahead = false);
    /// It waits for no keys any more, or is gone.
    void remove(uint64_t id, double now);

    enum class Next : uint8_t {
        nothing,       ///< it waits for no keys, or the device has a piece of it: look again when that is done
        goes_on,       ///< the keys of the layer that comes next are there
        waits,         ///< for these keys
        drops_chunk,   ///< keys before its open chunk fail to come: give the chunk up, and look again then
        ends_waiting,  ///< nothing more comes: what has failed to come is computed. Remove it
        begins_anew,   ///< nothing has come for too long: it leaves, to be let in again. Remove it
    };
    struct Look {
        Next next = Next::nothing;
        int64_t failed_tokens = 0;  ///< where waiting ends: whose keys have not come
    };
    /// What must happen now: to be asked when the prompt has come, when more keys have, and after each piece.
    Look look(uint64_t id, double now);

    struct Patience {
        bool is_over = false;     ///< look at the prompt now: it leaves, unless the device has something of it
        double again_in_s = 0.0;  ///< when to ask again about a prompt that has not left; 0: not any more
    };
    /// Whether something still comes.
    Patience patience(uint64_t id, double now);

    /// The device is given a piece of its chunk. Returns how many layers that may have; none: as many as there are.
    std::optional<int> begin_piece(uint64_t id);
    /// What the device has done.
    struct Done {
        int layer = 0;         ///< of the chunk, that comes next
        bool open = false;     ///< the chunk stopped between layers
        bool dropped = false;  ///< the piece gave the chunk up
        bool ahead = false;    ///< of what stands before the keys that come, there is more to compute
    };
    void end_piece(uint64_t id, const Done& done);

    /// For which prompts waited for keys that they could have gone on with, all together.
    double waited_seconds() const { return waited_seconds_; }

private:
    struct Prompt {
        std::shared_ptr<const Arrival> arrival;
        double came_at = 0.0;    // more keys, or the prompt
        int layers_come = 0;     // when it was last looked at
        bool hangs = false;      // nothing has come for too long
        bool on_device = false;  // a piece of it
        bool open = false;       // its chunk
        int layer = 0;           // of the chunk, that comes next
        bool gave_up = false;    // a chunk: it begins again when everything has come
        bool ahead = false;      // it computes what stands before these keys
        std::optional<double> waits_since = {};
    };

    static void note_what_came(Prompt& prompt, double now);
    static Look next_of(const Prompt& prompt);

    std::map<uint64_t, Prompt> prompts_;
    double waited_seconds_ = 0.0;
};

}  // namespace rondo

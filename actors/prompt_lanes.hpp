#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "actors/prefill_order.hpp"

namespace rondo {

/// Which prompt goes to which device, and whose chunk a device computes next. All chunks of a prompt are computed on
/// one device. It changes between prompts where a chunk ends. But a prompt that is more urgent than those that have
/// begun parks their chunks between two layers; they go on behind it. A device without work takes over a prompt
/// that waits for another device. Plain rules: whoever has the devices tells it what they have done.
class PromptLanes {
public:
    struct Options {
        size_t lanes = 1;        ///< devices
        size_t for_prompts = 1;  ///< of them, the first ones; a further one decodes
        /// Tokens up to which a prompt may go to a device that decodes, when that is sooner.
        int64_t beside_decode_tokens_max = 512;
        size_t open_max = 1;  ///< chunks that a device can hold open
    };
    explicit PromptLanes(const Options& options) : options_(options), lanes_(options.lanes) {}

    /// A prompt with so much to compute has come. Returns its lane.
    size_t add(uint64_t id, int priority, int64_t tokens);
    /// Whether it waits for keys of layers that come next. Meanwhile others are computed, and its open chunk is given
    /// up, to be computed again, when they need the place.
    void wait(uint64_t id, bool waits);
    /// What is computed of its chunk is of no use: if one is open it is given up next. False: none is.
    bool drop_chunk(uint64_t id);
    /// It has more to compute than was said.
    void grow(uint64_t id, int64_t tokens);
    /// More of a chunk, or the open one given up.
    struct Piece {
        uint64_t id = 0;
        bool drop = false;
    };
    /// What the lane's device does next; it is under way from now on. None while another piece is, or without work.
    std::optional<Piece> begin(size_t lane);
    /// What has become of the piece under way.
    struct Done {
        int64_t tokens = 0;  ///< computed
        double seconds = 0.0;
        bool open = false;      ///< the chunk stopped between layers
        bool complete = false;  ///< so is the prompt
        bool failed = false;
    };
    enum class After : uint8_t {
        goes_on,
        leaves,  ///< it is complete, has failed or was withdrawn: it is known here no more
    };
    After end(size_t lane, const Done& done);
    /// The prompt is not wanted any more. `leaves`: nobody works on it, and it is gone. Else, if it is known, it leaves
    /// when its chunk has been given up.
    After withdraw(uint64_t id);

    size_t lanes() const { return lanes_.size(); }
    /// Still to be computed in a lane.
    int64_t tokens(size_t lane) const { return lanes_[lane].order.tokens(); }

private:
    struct Job {
        int priority = 0;
        bool withdrawn = false;
        bool begun = false;  // its first piece was given to the device
        bool waits = false;
        bool drops = false;        // its open chunk
        int64_t chunk_tokens = 0;  // of the chunk under way
        double chunk_seconds = 0.0;
    };
    struct Lane {
        PrefillOrder order;
        std::map<uint64_t, Job> jobs;
        std::vector<uint64_t> open;      // whose chunks stopped between layers, in order of beginning
        std::optional<uint64_t> busy;    // whose piece is under way
        double tokens_per_second = 0.0;  // measured

        /// While nothing is measured, at the speed that is given.
        double seconds_of(int64_t tokens, double unmeasured) const;
    };

    size_t choose_lane(int64_t tokens) const;
    void take_over(Lane& idle);
    std::optional<Piece> choose(const Lane& lane) const;
    /// Of a prompt that is known.
    Lane& lane_of(uint64_t id);
    static void end_chunk(Lane& lane, uint64_t id, Job& job);

    const Options options_;
    std::vector<Lane> lanes_;
};

}  // namespace rondo

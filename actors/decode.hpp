#pragma once

#include <unordered_map>

#include "actors/decode_batch.hpp"
#include "actors/handles.hpp"
#include "actors/watch.hpp"

namespace rondo {

/// The continuous batch of one device: turns join and leave between steps, and each step gives all of them a token.
/// When memory runs out it asks the cache for room, and then hands back the turn that came last. A turn that attends to
/// chosen keys has them chosen by the selector beside its steps. It misses steps only while a choice is due and not
/// ready; the others go on.
class Decode : public decode_actor::base {
public:
    struct Options {
        size_t rows_max = 32;                             ///< of a step; further turns wait
        caf::timespan timeout = std::chrono::minutes(2);  ///< of a step, and of the cache
    };
    Decode(caf::actor_config& config, device_runner_actor runner, selector_actor selector, cache_actor cache,
           const Options& options)
        : decode_actor::base(config),
          options_(options),
          runner_(std::move(runner)),
          selector_(std::move(selector)),
          cache_(std::move(cache)),
          batch_(options.rows_max) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "decode"; }
    void on_exit() override;

private:
    /// Who asked for a turn's answer.
    struct Asker {
        caf::typed_response_promise<StageReply> promise;
        delta_sink_actor deltas;
    };

    void step();
    void look_later();
    bool make_room();
    void stepped(const StepPtr& step);
    void choose(TurnId id);
    void leave(TurnId id, StageReply::Outcome outcome, Error error = {});
    void leave_withdrawn();
    void hand_back(StageReply reply);

    Options options_;
    device_runner_actor runner_;
    selector_actor selector_;
    cache_actor cache_;
    DecodeBatch batch_;
    std::unordered_map<TurnId, Asker> askers_;  // by the batch's turns
    bool busy_ = false;                         // a step or a request for room is under way
    Watch watch_;                               // over steps
};

}  // namespace rondo

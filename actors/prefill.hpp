#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "actors/handles.hpp"
#include "actors/load.hpp"
#include "actors/prompt_arrivals.hpp"
#include "actors/prompt_lanes.hpp"
#include "actors/timespan.hpp"
#include "actors/watch.hpp"

namespace rondo {

/// Feeds devices with pieces of prompts' chunks, one outstanding each, as PromptLanes says. What a prompt does whose
/// keys are on their way, PromptArrivals says.
class Prefill : public prefill_actor::base {
public:
    struct Options {
        size_t for_prompts = 1;      ///< of the runners
        double chunk_seconds = 0.1;  ///< pipeline.decode.step_ms_max
        /// New tokens up to which a prompt may be computed on a device that decodes, when that is sooner.
        int64_t beside_decode_tokens_max = 512;
        size_t open_max = 1;                              ///< chunks that a device can hold open
        caf::timespan timeout = std::chrono::minutes(2);  ///< of a chunk
        std::shared_ptr<Load> load = std::make_shared<Load>();
    };
    /// The first runners compute prompts, so many as the options say. A further one decodes, and computes short
    /// prompts.
    Prefill(caf::actor_config& config, const std::vector<device_runner_actor>& runners, cache_actor cache,
            const Options& options);
    behavior_type make_behavior() override;
    const char* name() const override { return "prefill"; }
    void on_exit() override;

private:
    struct Job {
        TurnPtr turn;
        caf::typed_response_promise<StageReply> promise;
    };
    struct Runner {
        device_runner_actor actor;
        Watch watch;
    };

    void take(const TurnPtr& turn, const caf::typed_response_promise<StageReply>& promise);
    void look_at_arrival(TurnId id);
    void watch_arrival(TurnId id);
    void stop_waiting(TurnId id);
    void begin_anew(TurnId id);
    void pump(size_t lane);
    void pump_all();
    void tell_load();
    void send(size_t lane, const ChunkPtr& chunk);
    void look_later(size_t lane);
    void answered(size_t lane, const ChunkPtr& chunk, int64_t computed);
    void share(TurnId id);
    void finish(TurnId id, StageReply::Outcome outcome, Error error = {});
    void withdraw(TurnId id);
    double now() { return seconds_of(clock().now()); }

    Options options_;
    cache_actor cache_;
    std::vector<Runner> runners_;  // one a lane
    PromptLanes lanes_;
    PromptArrivals arrivals_;     // of turns in jobs_, as long as they wait for keys
    double waited_told_ = 0.0;    // of their waiting, in seconds
    std::map<TurnId, Job> jobs_;  // of the lanes, and those that are complete until the cache knows
};

}  // namespace rondo

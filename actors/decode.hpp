#pragma once

#include <list>
#include <optional>
#include <vector>

#include "actors/handles.hpp"
#include "actors/watch.hpp"
#include "memory/kv_pool.hpp"

namespace rondo {

/// The continuous batch of one device: turns join and leave between steps, and each step gives all of them a token.
/// When memory runs out it asks the cache for room, and then hands back the turn that came last. A turn that attends to
/// chosen keys has them chosen by the selector beside its steps; it misses steps only while a choice is due and not
/// ready, and the others go on.
class Decode : public decode_actor::base {
public:
    struct Options {
        size_t rows_max = 32;  ///< of a step; further turns wait
        int64_t context_tokens = 0;
        caf::timespan timeout = std::chrono::minutes(2);  ///< of a step, and of the cache
    };
    Decode(caf::actor_config& config, device_runner_actor runner, selector_actor selector, cache_actor cache,
           const Options& options)
        : decode_actor::base(config),
          options_(options),
          runner_(std::move(runner)),
          selector_(std::move(selector)),
          cache_(std::move(cache)) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "decode"; }
    void on_exit() override;

private:
    struct Leaving {
        StageReply::Outcome outcome;
        Error error;
    };
    struct Row {
        TurnPtr turn;
        caf::typed_response_promise<StageReply> promise;
        delta_sink_actor deltas;
        bool withdrawn = false;
        bool selecting = false;          // a choice of the turn's keys is with the selector, or is `made`
        ChoiceJobPtr made;               // back from there while a step has the turn
        bool waits = false;              // for it, and that has been counted
        std::optional<Leaving> leaving;  // as soon as it is back

        bool steps() const { return !leaving && !(selecting && turn->step_attention->due()); }
    };
    using RowAt = std::list<Row>::iterator;

    void step();
    void count_waiting();
    void look_later();
    bool make_room();
    void preempt();
    void stepped(const StepPtr& step);
    void choose(RowAt row);
    void chosen(RowAt row, const ChoiceJobPtr& job);
    void hand_back_made();
    void leave(RowAt row, StageReply::Outcome outcome, Error error = {});
    void leave_withdrawn();

    Options options_;
    device_runner_actor runner_;
    selector_actor selector_;
    cache_actor cache_;
    std::list<Row> rows_;          // in order of joining
    std::vector<RowAt> stepping_;  // those of the step under way
    bool busy_ = false;            // a step or a request for room is under way
    uint64_t steps_ = 0;           // that have begun
    Watch watch_;                  // over steps
};

}  // namespace rondo

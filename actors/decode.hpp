#pragma once

#include <optional>
#include <vector>

#include "actors/handles.hpp"
#include "memory/kv_pool.hpp"

namespace rondo {

/// The continuous batch of one device: turns join and leave between steps, and each step gives all of them a token.
/// When memory runs out it asks the store for room, and then hands back the turn that came last.
class Decode : public decode_actor::base {
public:
    struct Options {
        size_t rows_max = 32;  ///< of a step; further turns wait
        int64_t context_tokens = 0;
        caf::timespan timeout = std::chrono::minutes(2);  ///< of a step, and of the store
    };
    Decode(caf::actor_config& config, device_runner_actor runner, store_actor store, const Options& options)
        : decode_actor::base(config), options_(options), runner_(std::move(runner)), store_(std::move(store)) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "decode"; }
    void on_exit() override;

private:
    struct Row {
        TurnPtr turn;
        caf::typed_response_promise<StageReply> promise;
        delta_sink_actor deltas;
        double started = 0.0;
        bool withdrawn = false;
    };

    void step();
    bool make_room();
    void preempt();
    void stepped(const StepPtr& step);
    void leave(size_t row, StageReply::Outcome outcome, Error error = {});
    double now() { return std::chrono::duration<double>(clock().now().time_since_epoch()).count(); }

    Options options_;
    device_runner_actor runner_;
    store_actor store_;
    std::vector<Row> rows_;  // in order of joining
    bool busy_ = false;      // a step or a request for room is under way
};

}  // namespace rondo

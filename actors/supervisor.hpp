#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "actors/stages.hpp"

namespace rondo {

/// Starts the stages of a pipeline, and starts all of them anew when one dies: what they knew of each other is void
/// then. After too many deaths it gives up and says so.
class Supervisor : public supervisor_actor::base {
public:
    struct Pipeline {
        Stages stages;
        std::vector<caf::strong_actor_ptr> actors;  // all there are
    };
    struct Options {
        std::function<Result<Pipeline>(caf::local_actor&)> start;
        std::function<void(Error)> gave_up;
        size_t restarts_max = 5;  ///< within `window`
        caf::timespan window = std::chrono::minutes(1);
    };
    Supervisor(caf::actor_config& config, Options options)
        : supervisor_actor::base(config), options_(std::move(options)) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "supervisor"; }
    void on_exit() override;

private:
    void start();
    void stop();
    void give_up(Error why);
    void down(const caf::down_msg& message);

    Options options_;
    router_actor router_;
    Pipeline pipeline_;
    std::deque<caf::actor_clock::time_point> restarts_;
};

}  // namespace rondo

#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/stages.hpp"

namespace rondo {

/// Starts the stages of a pipeline, and starts all of them anew when one dies: what they knew of each other is void
/// then. New ones start when the old ones are gone, the last pieces of their work included: a stream has one caller.
/// After too many deaths, or when a stage does not end, it gives up and says so.
class Supervisor : public supervisor_actor::base {
public:
    struct Pipeline {
        Stages stages;
        std::vector<caf::strong_actor_ptr> actors;  // all there are
    };
    struct Options {
        std::function<Result<Pipeline>(caf::local_actor&)> start;
        std::function<void(Error)> gave_up;
        std::function<void(const std::string&)> log = {};  ///< a line of each death, without its end; may be none
        size_t restarts_max = 5;                           ///< within `window`
        caf::timespan window = std::chrono::minutes(1);
        caf::timespan gone_within = std::chrono::minutes(2);  ///< as long as stages give a piece of work
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
    void too_late(uint64_t starts);
    std::string obituary(const std::string& name, const caf::error& reason) const;

    Options options_;
    router_actor router_;
    Pipeline pipeline_;
    std::map<caf::actor_addr, std::string> leaving_;  // stages that were told to end, by name
    uint64_t starts_ = 0;
    std::deque<caf::actor_clock::time_point> restarts_;
};

}  // namespace rondo

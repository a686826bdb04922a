#pragma once

#include <deque>

#include "actors/handles.hpp"

namespace rondo {

/// Makes turns' choices of keys beside their decode steps: the device scores the keys in pieces that fit between steps,
/// the choice itself is made here. In order of asking.
class Selector : public selector_actor::base {
public:
    struct Options {
        caf::timespan timeout = std::chrono::minutes(2);  ///< of a piece, and of the cache
    };
    Selector(caf::actor_config& config, device_runner_actor runner, cache_actor cache, const Options& options)
        : selector_actor::base(config), options_(options), runner_(std::move(runner)), cache_(std::move(cache)) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "selector"; }
    void on_exit() override;

private:
    struct Asked {
        TurnId turn = 0;
        ChoiceJobPtr job;  // null while the device has it
        caf::typed_response_promise<ChoiceJobPtr> promise;
        bool withdrawn = false;
        bool asked_for_room = false;
    };

    void pump();
    void ask_for_room(const BlockCounts& blocks);
    void piece_done(const ChoiceJobPtr& job);
    void answer(std::deque<Asked>::iterator at);

    Options options_;
    device_runner_actor runner_;
    cache_actor cache_;
    std::deque<Asked> asked_;  // the first is under way; at most one a turn
    bool busy_ = false;        // a piece or a request for room is under way
};

}  // namespace rondo

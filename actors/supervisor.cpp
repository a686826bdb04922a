#include "actors/supervisor.hpp"

#include <algorithm>

namespace rondo {

Supervisor::behavior_type Supervisor::make_behavior() {
    set_down_handler([this](const caf::down_msg& message) { down(message); });
    return {
        [this](const router_actor& router) {
            router_ = router;
            start();
        },
    };
}

void Supervisor::on_exit() {
    stop();
    router_ = nullptr;
}

void Supervisor::start() {
    Result<Pipeline> started = options_.start(*this);
    if (!started) return give_up(started.error());
    pipeline_ = std::move(*started);
    for (const caf::strong_actor_ptr& actor : pipeline_.actors) monitor(caf::actor_cast<caf::actor>(actor));
    send(router_, StagesPtr(std::make_shared<const Stages>(pipeline_.stages)));
}

void Supervisor::give_up(Error why) {
    send(router_, StagesPtr());
    options_.gave_up(std::move(why));
}

void Supervisor::stop() {
    for (const caf::strong_actor_ptr& actor : pipeline_.actors) {
        demonitor(caf::actor_cast<caf::actor_addr>(actor));
        send_exit(caf::actor_cast<caf::actor>(actor), caf::exit_reason::kill);
    }
    pipeline_ = {};
}

void Supervisor::down(const caf::down_msg& message) {
    const bool ours = std::ranges::any_of(pipeline_.actors, [&](const caf::strong_actor_ptr& actor) {
        return caf::actor_cast<caf::actor_addr>(actor) == message.source;
    });
    if (!ours) return;
    stop();
    const auto now = clock().now();
    while (!restarts_.empty() && now - restarts_.front() > options_.window) restarts_.pop_front();
    if (restarts_.size() >= options_.restarts_max) {
        return give_up(make_error(
            ErrorCode::internal,
            "the pipeline's stages died " + std::to_string(restarts_.size() + 1) + " times within a minute"));
    }
    restarts_.push_back(now);
    start();
}

}  // namespace rondo

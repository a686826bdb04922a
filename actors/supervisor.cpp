#include "actors/supervisor.hpp"

#include <algorithm>

namespace rondo {

namespace {

std::string name_of(const caf::strong_actor_ptr& actor) {
    const auto* const local = dynamic_cast<caf::local_actor*>(caf::actor_cast<caf::abstract_actor*>(actor));
    return local == nullptr ? "actor" : local->name();
}

}  // namespace

Supervisor::behavior_type Supervisor::make_behavior() {
    set_down_handler([this](const caf::down_msg& message) { down(message); });
    return {
        [this](const router_actor& router) {
            router_ = router;
            start();
        },
        [this](expire_atom, uint64_t starts) { too_late(starts); },
    };
}

void Supervisor::on_exit() {
    stop();
    leaving_.clear();
    router_ = nullptr;
}

void Supervisor::start() {
    ++starts_;
    Result<Pipeline> started = options_.start(*this);
    if (!started) return give_up(started.error());
    pipeline_ = std::move(*started);
    for (const caf::strong_actor_ptr& actor : pipeline_.actors) monitor(caf::actor_cast<caf::actor>(actor));
    send(router_, StagesPtr(std::make_shared<const Stages>(pipeline_.stages)));
}

void Supervisor::give_up(Error why) {
    leaving_.clear();
    send(router_, StagesPtr());
    options_.gave_up(std::move(why));
}

/// A stage ends after its current message; its down message then says so.
void Supervisor::stop() {
    for (const caf::strong_actor_ptr& actor : pipeline_.actors) {
        leaving_.emplace(caf::actor_cast<caf::actor_addr>(actor), name_of(actor));
        send_exit(caf::actor_cast<caf::actor>(actor), caf::exit_reason::kill);
    }
    pipeline_ = {};
}

void Supervisor::down(const caf::down_msg& message) {
    if (leaving_.erase(message.source) > 0) {
        if (leaving_.empty()) start();
        return;
    }
    const auto dead = std::ranges::find_if(pipeline_.actors, [&](const caf::strong_actor_ptr& actor) {
        return caf::actor_cast<caf::actor_addr>(actor) == message.source;
    });
    if (dead == pipeline_.actors.end()) return;
    if (options_.log) options_.log(obituary(name_of(*dead), message.reason));
    stop();
    leaving_.erase(message.source);
    const auto now = clock().now();
    while (!restarts_.empty() && now - restarts_.front() > options_.window) restarts_.pop_front();
    if (restarts_.size() >= options_.restarts_max) {
        return give_up(make_error(
            ErrorCode::internal,
            "the pipeline's stages died " + std::to_string(restarts_.size() + 1) + " times within a minute"));
    }
    restarts_.push_back(now);
    if (leaving_.empty()) return start();
    send(router_, pause_atom::value);
    delayed_send(this, options_.gone_within, expire_atom::value, starts_);
}

/// Of the stages that were to be gone before the next start.
void Supervisor::too_late(uint64_t starts) {
    if (starts != starts_ || leaving_.empty()) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.gone_within).count();
    give_up(make_error(ErrorCode::internal, "the pipeline's " + leaving_.begin()->second + " did not end within " +
                                                std::to_string(seconds) +
                                                " s, so its device may hang; the process must be started anew"));
}

std::string Supervisor::obituary(const std::string& name, const caf::error& reason) const {
    return "the pipeline's " + name + " died (" + text_of(reason, home_system()) + "), and all its stages end with it";
}

}  // namespace rondo

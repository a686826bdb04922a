#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actors/fair_queue.hpp"
#include "actors/handles.hpp"
#include "actors/timespan.hpp"

namespace rondo {

/// Turns wait here until there is room for them: a place among those that run, and blocks for their prompt.
class Admission : public admission_actor::base {
public:
    struct Options {
        size_t running_max = 32;  ///< turns that are computed at a time
        int64_t tokens_max = 0;   ///< the pool's: a prompt beyond can never be let in
        caf::timespan timeout = std::chrono::seconds(30);
        int passes_max = 2;            ///< turns that may go before the one whose turn it is, until it goes
        size_t candidates_max = 1024;  ///< that are looked at
    };
    Admission(caf::actor_config& config, cache_actor cache, const Options& options)
        : admission_actor::base(config), cache_(std::move(cache)), options_(options) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "admission"; }
    void on_exit() override;

private:
    struct Waiting {
        TurnPtr turn;
        caf::typed_response_promise<StageReply> promise;
    };

    void pump();
    void pump_within(caf::timespan time);
    void claim(const Turn& turn);
    void answered(AdmissionDecision& admission, double asked);
    void let_in(AdmissionDecision& admission);
    void take_back(TurnId id);
    size_t running();
    double now() { return seconds_of(clock().now()); }

    cache_actor cache_;
    Options options_;
    FairQueue<Waiting> waiting_;
    std::vector<std::pair<TurnId, std::weak_ptr<Turn>>> running_;  // weak: a place is free again however its turn ended
    bool asking_ = false;            // the cache is looking for room, and has the candidates
    std::vector<TurnId> withdrawn_;  // meanwhile
    int passes_ = 0;                 // since one was let in whose turn it was
    std::optional<caf::actor_clock::time_point> pumps_at_;
};

}  // namespace rondo

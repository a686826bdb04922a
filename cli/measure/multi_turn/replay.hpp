#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/measure/multi_turn/endpoint.hpp"
#include "cli/measure/multi_turn/workload.hpp"
#include "config/result.hpp"

namespace rondo::cli::multi_turn {

struct ReplayOptions {
    Workload workload;
    uint64_t seed = 0;
    double tokens_per_word = 1.0;
    bool fixed_history = false;  ///< drawn words stand where the answers would: every server is asked the same
    bool stateful = false;       ///< the server keeps the conversations; only what is new is sent
    std::string conversation;    ///< stateful: what their ids begin with; another for each run
};

struct Replayed {
    std::vector<TurnTimes> turns;  ///< in the order in which they ended
    int64_t turns_skipped = 0;     ///< of conversations in which something went wrong before
    int64_t turns_late = 0;        ///< that no client was free for when they were due
    double seconds = 0.0;          ///< from the first request to the last answer
    bool stopped = false;          ///< by the caller, before all was over
    Status tidied;                 ///< stateful: whether the server deleted the conversations
};

/// Sends all turns of a workload, from as many threads as it has clients. However that ends, it then deletes the
/// conversations that it made on the server. `on_progress` is called by this thread, every 100 ms at least, with the
/// share of the turns that are over; false breaks off requests under way and sends no more.
Result<Replayed> replay(const Endpoint& endpoint, const ReplayOptions& options,
                        const std::function<bool(double)>& on_progress);

}  // namespace rondo::cli::multi_turn

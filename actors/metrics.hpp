#pragma once

#include <memory>
#include <string>

#include "actors/store_figures.hpp"
#include "actors/turn_events.hpp"

namespace rondo {

/// What is measured, under vLLM's names with our prefix so that dashboards port. Any thread may count.
class Metrics {
public:
    explicit Metrics(const std::string& model);
    ~Metrics();

    /// What a device of the pipeline is: its threads, and which of the processor's products it uses.
    void device(const std::string& name, const std::string& what);

    /// Of a turn that was never let in, no token of its prompt counts: none was looked up.
    void turn_over(const TurnEnd& end, double seconds);
    /// How a turn attended: known for certain when no stage holds it any more, which may be after its end.
    void attended(const TurnAttention& how);
    /// A preempted turn is back, and so many of its keys are not there any more. Its usage does not tell of them: that
    /// is of the prompt, once.
    void computed_again(int64_t tokens);
    void between_tokens(double seconds);

    /// What can only be looked up, filled in when somebody asks.
    struct Now {
        double running = 0.0;  ///< turns under way
        double waiting = 0.0;
        double kv_usage = 0.0;  ///< share of blocks that are not free
        double blocks_in_turns = 0.0;
        double conversations = 0.0;
        double conversation_bytes = 0.0;
        double connections = 0.0;
        double left_by_age = 0.0, left_for_room = 0.0, refused = 0.0;  ///< since the start
        double waited_for_keys = 0.0;                                  ///< seconds, likewise

        /// Who has the pool's blocks, those of all layer groups together; the cache keeps `cached` of them.
        void tell_blocks(size_t all, size_t free, int64_t cached);
    };
    /// In Prometheus' text format.
    std::string text(const Now& now);
    /// From now on what a store does is told, too.
    void store(std::shared_ptr<const StoreFigures> figures);

private:
    struct All;
    struct OfStore;
    std::unique_ptr<All> all_;
    std::unique_ptr<OfStore> store_;  // none: there is no store
};

}  // namespace rondo

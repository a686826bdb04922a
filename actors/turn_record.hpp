#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/ask.hpp"
#include "actors/turn.hpp"
#include "actors/turn_events.hpp"
#include "model/text/thoughts.hpp"
#include "model/tools/called_tools.hpp"

namespace rondo {

/// Who holds a turn that is under way.
enum class TurnStage : uint8_t { admission, restore, prefill, decode };

/// What is known of one turn under way: its usage and timings, how it attended, what its user was told, and which of
/// that were thoughts or calls of tools. Plain data; times are seconds of its session's clock.
class TurnRecord {
public:
    TurnRecord(const Ask& ask, const Turn& turn, double arrived, double now);

    /// A stage has the turn from now on, or has handed it back.
    void enter(TurnStage stage, double now);
    void come_back(const Turn& turn, double now);
    /// It has KV, which was found on the device.
    void let_in(const Turn& turn);
    /// What is stored of its prompt is on its way back. Returns how many tokens are computed for the second time, if it
    /// had some before.
    int64_t restored(const Turn& turn);
    /// More of its answer, as its user is to be told: thoughts and calls apart, if he asked for that. Returns the
    /// seconds since what was told before, if that and this have tokens.
    std::optional<double> tell(TurnDelta& delta, bool last, double now);
    /// Its end, and what is remembered of it. `held`: a stage still has the turn.
    TurnEnd end(TurnOutcome outcome, Error error, bool held, double now);

    /// What it was told, it may not have told on yet.
    bool holds_back() const { return thoughts_.has_value() || calls_.has_value(); }
    TurnStage stage() const { return stage_; }
    double arrived() const { return arrived_; }
    std::span<const int32_t> told_ids() const { return told_ids_; }
    const std::string& answer() const { return answer_; }    ///< as far as it was told, thoughts and calls included
    const TurnFigures& figures() const { return figures_; }  ///< of its end
    TurnAttention take_attention() { return std::exchange(attention_, {}); }

private:
    /// What a turn had when it was first let in counts, unless it was put back before it answered anything.
    bool answer_has_begun() const { return usage_.completion_tokens > 0; }
    void count_restored(const Turn& turn);
    void begin_thoughts(const Turn& turn);
    void tell_apart(TurnDelta& delta, bool last);
    void tell_calls(TurnDelta& delta, bool last);

    const Model& model_;
    const bool special_text_;
    const double arrived_;
    TurnStage stage_ = TurnStage::admission;
    double entered_, last_piece_ = 0.0;
    double looked_up_ = 0.0;  // of Turn::lookup_seconds what is in the timings
    std::string answer_;
    std::vector<int32_t> told_ids_;
    std::optional<Thoughts> thoughts_;
    std::shared_ptr<const ToolUse> tools_;
    std::optional<CalledTools> calls_;
    int64_t let_in_tokens_ = 0;
    TurnUsage usage_;
    TurnTimings timings_;
    TurnAttention attention_;
    TurnFigures figures_;
};

}  // namespace rondo

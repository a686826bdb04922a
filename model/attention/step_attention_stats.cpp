#include "model/attention/step_attention_stats.hpp"

namespace rondo {

StepAttentionStats& StepAttentionStats::operator+=(const StepAttentionStats& other) {
    selections += other.selections;
    given_up += other.given_up;
    keys_scored += other.keys_scored;
    bounds_read += other.bounds_read;
    keys_chosen += other.keys_chosen;
    blocks_held += other.blocks_held;
    attended += other.attended;
    causal += other.causal;
    mass += other.mass;
    masses += other.masses;
    score_seconds += other.score_seconds;
    select_seconds += other.select_seconds;
    gather_seconds += other.gather_seconds;
    return *this;
}

}  // namespace rondo

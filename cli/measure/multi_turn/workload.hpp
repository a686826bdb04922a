#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo::cli::multi_turn {

/// Each client is a thread.
inline constexpr int64_t clients_max = 256;

/// Both ends included, each number in between as likely as another.
struct Range {
    int64_t low = 1, high = 1;
};

/// Text that stands before the first question of one conversation alone. Its length is lognormal, with a median of
/// 0.85 of the mean and a tail cut at the maximum; where both are one number, it is that number.
struct OwnPrefix {
    int64_t mean_tokens = 0, tokens_max = 0;
};

/// When turns leave, where a rate is given.
enum class Arrivals {
    poisson,   ///< those of all conversations together at random moments
    periodic,  ///< those of one conversation active/rate seconds apart, the conversations shifted evenly
};

/// The shape of a benchmark: what conversations look like and when their turns are sent. Lengths are of texts, without
/// what a chat template adds.
struct Workload {
    std::string name;
    int64_t conversations = 1;
    Range turns;
    int64_t shared_prefix_tokens = 0;  ///< a system prompt that all conversations begin with
    OwnPrefix own_prefix;
    Range user_tokens, answer_tokens;
    int64_t active = 1;   ///< conversations begun and not yet over, at most
    int64_t clients = 1;  ///< requests in flight, at most
    Arrivals arrivals = Arrivals::poisson;
    double rate = 0.0;   ///< turns a second; 0: each as soon as a client is free
    double gap_s = 0.0;  ///< from an answer to the conversation's next turn, at least
};

/// The shapes that users of other engines know from their benchmarks.
const std::vector<Workload>& known_workloads();
Result<Workload> find_workload(std::string_view name);

/// Multiplies all token counts; none that was there vanishes.
void scale(Workload& workload, double factor);
/// What is too large, or contradicts itself.
Status validate(const Workload& workload);

struct TurnPlan {
    int64_t user_tokens = 0, answer_tokens = 0;
};
struct ConversationPlan {
    int64_t own_prefix_tokens = 0;
    std::vector<TurnPlan> turns;
};
/// All lengths of a run. A conversation's do not change with the number of conversations.
std::vector<ConversationPlan> plan(const Workload& workload, uint64_t seed);
int64_t count_turns(const std::vector<ConversationPlan>& plans);

}  // namespace rondo::cli::multi_turn

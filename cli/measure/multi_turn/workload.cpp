#include "cli/measure/multi_turn/workload.hpp"

#include <algorithm>
#include <cmath>

#include "cli/measure/multi_turn/seeded.hpp"

namespace rondo::cli::multi_turn {

namespace {

constexpr int64_t requests_max = 1'000'000;
constexpr int64_t tokens_max = 1 << 20;
constexpr double rate_max = 1e6;
constexpr double gap_s_max = 1e6;
constexpr double median_of_mean = 0.85;

int64_t times(int64_t tokens, double factor) {
    return tokens == 0 ? 0 : std::max<int64_t>(1, std::llround(static_cast<double>(tokens) * factor));
}

Range times(const Range& range, double factor) {
    return {times(range.low, factor), times(range.high, factor)};
}

Status check(const std::string& what, const Range& range, int64_t low, int64_t high) {
    if (range.low >= low && range.low <= range.high && range.high <= high) return Status::ok();
    return make_error(ErrorCode::out_of_range, what + " of " + std::to_string(range.low) + ":" +
                                                   std::to_string(range.high) + " must be a range within " +
                                                   std::to_string(low) + ":" + std::to_string(high));
}

Status check(const std::string& what, double value, double high) {
    if (value >= 0.0 && value <= high) return Status::ok();  // not a number is neither
    return make_error(ErrorCode::out_of_range,
                      what + " must be a number from 0 to " + std::to_string(static_cast<int64_t>(high)));
}

int64_t own_prefix_length(const OwnPrefix& prefix, Seeded& random) {
    const double normal = random.normal();
    if (prefix.mean_tokens == prefix.tokens_max) return prefix.mean_tokens;
    const double median = median_of_mean * static_cast<double>(prefix.mean_tokens);
    const double spread = std::sqrt(-2.0 * std::log(median_of_mean));
    const double tokens = std::min(median * std::exp(spread * normal), static_cast<double>(prefix.tokens_max));
    return std::max<int64_t>(1, std::llround(tokens));
}

std::vector<Workload> make_workloads() {
    Workload vllm;
    vllm.name = "vllm";
    vllm.conversations = 24;
    vllm.turns = {12, 18};
    vllm.shared_prefix_tokens = 500;
    vllm.own_prefix = {1000, 5000};
    vllm.user_tokens = {120, 160};
    vllm.answer_tokens = {80, 120};
    vllm.active = 6;
    vllm.clients = 2;

    Workload sglang;
    sglang.name = "sglang";
    sglang.conversations = 64;
    sglang.turns = {5, 5};
    sglang.user_tokens = {512, 512};
    sglang.answer_tokens = {64, 64};
    sglang.active = sglang.clients = 64;
    sglang.rate = 4.0;

    Workload lmcache;
    lmcache.name = "lmcache";
    lmcache.conversations = 10;
    lmcache.turns = {5, 5};
    lmcache.shared_prefix_tokens = 1000;
    lmcache.own_prefix = {2000, 2000};
    lmcache.user_tokens = {20, 30};
    lmcache.answer_tokens = {100, 100};
    lmcache.active = lmcache.clients = 10;
    lmcache.arrivals = Arrivals::periodic;

    Workload idle;
    idle.name = "idle";
    idle.conversations = 10;
    idle.turns = {5, 5};
    idle.own_prefix = {2000, 2000};
    idle.user_tokens = {100, 100};
    idle.answer_tokens = {100, 100};
    idle.active = idle.clients = 10;
    idle.arrivals = Arrivals::periodic;
    idle.rate = 1.0;
    idle.gap_s = 2.0;
    // All documents are asked about once before the first is again.
    Workload documents;
    documents.name = "documents";
    documents.conversations = documents.active = 50;
    documents.turns = {2, 2};
    documents.own_prefix = {10'000, 10'000};
    documents.user_tokens = {20, 30};
    documents.answer_tokens = {100, 100};
    documents.clients = 4;
    return {vllm, sglang, lmcache, idle, documents};
}

}  // namespace

const std::vector<Workload>& known_workloads() {
    static const std::vector<Workload> workloads = make_workloads();
    return workloads;
}

Result<Workload> find_workload(std::string_view name) {
    std::string names;
    for (const Workload& workload : known_workloads()) {
        if (workload.name == name) return workload;
        names += (names.empty() ? "" : ", ") + workload.name;
    }
    return make_error(ErrorCode::not_found, "workload \"" + std::string(name) + "\" is not known, must be " + names);
}

void scale(Workload& workload, double factor) {
    workload.shared_prefix_tokens = times(workload.shared_prefix_tokens, factor);
    workload.own_prefix.mean_tokens = times(workload.own_prefix.mean_tokens, factor);
    workload.own_prefix.tokens_max = times(workload.own_prefix.tokens_max, factor);
    workload.user_tokens = times(workload.user_tokens, factor);
    workload.answer_tokens = times(workload.answer_tokens, factor);
}

Status validate(const Workload& workload) {
    RONDO_TRY(check("turns", workload.turns, 1, requests_max));
    RONDO_TRY(check("conversations", {1, workload.conversations}, 1, requests_max / workload.turns.high));
    RONDO_TRY(check("user tokens", workload.user_tokens, 1, tokens_max));
    RONDO_TRY(check("answer tokens", workload.answer_tokens, 1, tokens_max));
    RONDO_TRY(check("shared prefix", {0, workload.shared_prefix_tokens}, 0, tokens_max));
    RONDO_TRY(check("own prefix", {workload.own_prefix.mean_tokens, workload.own_prefix.tokens_max}, 0, tokens_max));
    RONDO_TRY(check("active conversations", {1, workload.active}, 1, requests_max));
    RONDO_TRY(check("clients", {1, workload.clients}, 1, clients_max));
    RONDO_TRY(check("rate", workload.rate, rate_max));
    return check("gap", workload.gap_s, gap_s_max);
}

std::vector<ConversationPlan> plan(const Workload& workload, uint64_t seed) {
    std::vector<ConversationPlan> plans(static_cast<size_t>(workload.conversations));
    for (size_t i = 0; i < plans.size(); ++i) {
        Seeded random(seed, 2 * i + 1);
        plans[i].own_prefix_tokens = own_prefix_length(workload.own_prefix, random);
        plans[i].turns.resize(static_cast<size_t>(random.between(workload.turns.low, workload.turns.high)));
        for (TurnPlan& turn : plans[i].turns) {
            turn.user_tokens = random.between(workload.user_tokens.low, workload.user_tokens.high);
            turn.answer_tokens = random.between(workload.answer_tokens.low, workload.answer_tokens.high);
        }
    }
    return plans;
}

int64_t count_turns(const std::vector<ConversationPlan>& plans) {
    int64_t turns = 0;
    for (const ConversationPlan& one : plans) turns += static_cast<int64_t>(one.turns.size());
    return turns;
}

}  // namespace rondo::cli::multi_turn

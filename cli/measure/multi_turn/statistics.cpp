#include "cli/measure/multi_turn/statistics.hpp"

#include <algorithm>
#include <numeric>

#include "cli/measure/quantile.hpp"

namespace rondo::cli::multi_turn {

namespace {

constexpr double ms = 1e3;

bool is_good(const TurnTimes& times, const Goals& goals) {
    if (goals.ttft_ms_max > 0.0 && times.ttft_s * ms > goals.ttft_ms_max) return false;
    return goals.tpot_ms_max <= 0.0 || times.tpot_s().value_or(0.0) * ms <= goals.tpot_ms_max;
}

void add(std::optional<int64_t>& sum, const std::optional<int64_t>& tokens) {
    if (tokens) sum = sum.value_or(0) + *tokens;
}

}  // namespace

Summary summarize(std::vector<double> values) {
    Summary summary;
    if (values.empty()) return summary;
    std::sort(values.begin(), values.end());
    summary.count = values.size();
    summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    summary.p50 = quantile(values, 0.5);
    summary.p90 = quantile(values, 0.9);
    summary.p99 = quantile(values, 0.99);
    return summary;
}

Statistics gather(const Replayed& replayed, const Goals& goals) {
    Statistics out;
    out.requests = replayed.turns.size();
    out.seconds = replayed.seconds;
    out.turns_skipped = replayed.turns_skipped;
    out.turns_late = replayed.turns_late;
    std::vector<double> ttft, tpot, e2e;
    std::vector<std::vector<double>> ttft_by_round;
    std::vector<int64_t> prompt_tokens_by_round;
    for (const TurnTimes& times : replayed.turns) {
        if (!times.error.empty()) {
            ++out.errors[times.error];
            if (out.first_error.empty()) out.first_error = times.message;
            continue;
        }
        ++out.answers;
        out.good_answers += is_good(times, goals) ? 1 : 0;
        ttft.push_back(times.ttft_s * ms);
        e2e.push_back(times.e2e_s * ms);
        if (const auto per_token = times.tpot_s()) tpot.push_back(*per_token * ms);
        for (const double gap : times.gaps_s) out.gaps_ms.push_back(gap * ms);
        if (times.round >= ttft_by_round.size()) {
            ttft_by_round.resize(times.round + 1);
            prompt_tokens_by_round.resize(times.round + 1);
        }
        ttft_by_round[times.round].push_back(times.ttft_s * ms);
        prompt_tokens_by_round[times.round] += times.prompt_tokens;
        out.prompt_tokens += times.prompt_tokens;
        out.answer_tokens += times.answer_tokens;
        add(out.cached_tokens, times.cached_tokens);
        add(out.restored_tokens, times.restored_tokens);
        add(out.recomputed_tokens, times.recomputed_tokens);
    }
    std::sort(out.gaps_ms.begin(), out.gaps_ms.end());
    out.ttft_ms = summarize(std::move(ttft));
    out.tpot_ms = summarize(std::move(tpot));
    out.itl_ms = summarize(out.gaps_ms);
    out.e2e_ms = summarize(std::move(e2e));
    for (size_t i = 0; i < ttft_by_round.size(); ++i) {
        const auto count = static_cast<double>(std::max<size_t>(ttft_by_round[i].size(), 1));
        out.rounds.push_back(
            {summarize(std::move(ttft_by_round[i])), static_cast<double>(prompt_tokens_by_round[i]) / count});
    }
    return out;
}

}  // namespace rondo::cli::multi_turn

#include "cli/measure/multi_turn/statistics.hpp"

#include <algorithm>
#include <numeric>

#include "cli/measure/quantile.hpp"

namespace rondo::cli::multi_turn {

namespace {

constexpr double ms = 1e3;

bool is_good(const TurnRecord& record, const Goals& goals) {
    if (goals.ttft_ms_max > 0.0 && record.ttft_s * ms > goals.ttft_ms_max) return false;
    return goals.tpot_ms_max <= 0.0 || record.tpot_s().value_or(0.0) * ms <= goals.tpot_ms_max;
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
    out.requests = replayed.records.size();
    out.seconds = replayed.seconds;
    out.turns_skipped = replayed.turns_skipped;
    out.turns_late = replayed.turns_late;
    std::vector<double> ttft, tpot, e2e;
    std::vector<std::vector<double>> ttft_by_round;
    std::vector<int64_t> prompt_tokens_by_round;
    for (const TurnRecord& record : replayed.records) {
        if (!record.error.empty()) {
            ++out.errors[record.error];
            if (out.first_error.empty()) out.first_error = record.message;
            continue;
        }
        ++out.answers;
        out.good_answers += is_good(record, goals) ? 1 : 0;
        ttft.push_back(record.ttft_s * ms);
        e2e.push_back(record.e2e_s * ms);
        if (const auto per_token = record.tpot_s()) tpot.push_back(*per_token * ms);
        for (const double gap : record.gaps_s) out.gaps_ms.push_back(gap * ms);
        if (record.round >= ttft_by_round.size()) {
            ttft_by_round.resize(record.round + 1);
            prompt_tokens_by_round.resize(record.round + 1);
        }
        ttft_by_round[record.round].push_back(record.ttft_s * ms);
        prompt_tokens_by_round[record.round] += record.prompt_tokens;
        out.prompt_tokens += record.prompt_tokens;
        out.answer_tokens += record.answer_tokens;
        add(out.cached_tokens, record.cached_tokens);
        add(out.restored_tokens, record.restored_tokens);
        add(out.recomputed_tokens, record.recomputed_tokens);
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

#include "cli/measure/multi_turn/report.hpp"

#include <cstdarg>
#include <cstdio>

namespace rondo::cli::multi_turn {

using nlohmann::ordered_json;

namespace {

[[gnu::format(printf, 2, 3)]] void add_line(std::string& text, const char* format, ...) {
    char line[512];
    va_list values;
    va_start(values, format);
    std::vsnprintf(line, sizeof line, format, values);
    va_end(values);
    text += line;
    text += '\n';
}

ordered_json to_json(const Summary& summary) {
    if (summary.count == 0) return nullptr;
    return {{"mean", summary.mean}, {"p50", summary.p50}, {"p90", summary.p90}, {"p99", summary.p99}};
}

ordered_json to_json(const std::optional<int64_t>& tokens) {
    return tokens ? ordered_json(*tokens) : ordered_json(nullptr);
}

bool has_goals(const Goals& goals) {
    return goals.ttft_ms_max > 0.0 || goals.tpot_ms_max > 0.0;
}

void add_summary(std::string& text, const std::string& what, const Summary& summary) {
    if (summary.count == 0) {
        add_line(text, "%-24s %10s %10s %10s %10s", what.c_str(), "-", "-", "-", "-");
    } else {
        add_line(text, "%-24s %10.1f %10.1f %10.1f %10.1f", what.c_str(), summary.mean, summary.p50, summary.p90,
                 summary.p99);
    }
}

std::string token_counts(const Statistics& statistics) {
    std::string text = std::to_string(statistics.prompt_tokens) + " prompt";
    std::string parts;
    const auto add = [&](const std::optional<int64_t>& tokens, const char* what) {
        if (tokens) parts += (parts.empty() ? "" : ", ") + std::to_string(*tokens) + what;
    };
    add(statistics.cached_tokens, " cached");
    add(statistics.restored_tokens, " restored");
    add(statistics.recomputed_tokens, " recomputed");
    if (!parts.empty()) text += " (" + parts + ")";
    return text + ", " + std::to_string(statistics.answer_tokens) + " answered";
}

std::string error_counts(const Statistics& statistics) {
    if (statistics.errors.empty()) return "none";
    std::string text;
    for (const auto& [kind, count] : statistics.errors) {
        text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + kind;
    }
    return text + "; " + std::to_string(statistics.turns_skipped) + " turns skipped after them";
}

std::string goals_text(const Goals& goals) {
    char text[128] = "";
    int length = 0;
    if (goals.ttft_ms_max > 0.0) length = std::snprintf(text, sizeof text, " TTFT <= %g ms", goals.ttft_ms_max);
    if (goals.tpot_ms_max > 0.0) {
        std::snprintf(text + length, sizeof text - static_cast<size_t>(length), "%s TPOT <= %g ms",
                      length > 0 ? " and" : "", goals.tpot_ms_max);
    }
    return text;
}

}  // namespace

ordered_json to_json(const RunFacts& facts, const Statistics& statistics) {
    ordered_json out = {{"bench", "multi_turn"},
                        {"workload", facts.workload},
                        {"url", facts.url},
                        {"model", facts.model},
                        {"mode", facts.mode},
                        {"seed", facts.seed},
                        {"flags", facts.flags},
                        {"tokens_per_word", facts.tokens_per_word},
                        {"seconds", statistics.seconds},
                        {"requests", statistics.requests},
                        {"answers", statistics.answers},
                        {"ttft_ms", to_json(statistics.ttft_ms)},
                        {"tpot_ms", to_json(statistics.tpot_ms)},
                        {"itl_ms", to_json(statistics.itl_ms)},
                        {"e2e_ms", to_json(statistics.e2e_ms)}};
    const auto tokens = static_cast<double>(statistics.answer_tokens);
    out["requests_per_s"] = statistics.per_second(static_cast<double>(statistics.answers));
    out["output_tokens_per_s"] = statistics.per_second(tokens);
    out["total_tokens_per_s"] = statistics.per_second(tokens + static_cast<double>(statistics.prompt_tokens));
    if (has_goals(facts.goals)) {
        out["goodput"] = {{"slo_ttft_ms", facts.goals.ttft_ms_max},
                          {"slo_tpot_ms", facts.goals.tpot_ms_max},
                          {"answers", statistics.good_answers},
                          {"requests_per_s", statistics.per_second(static_cast<double>(statistics.good_answers))}};
    }
    out["prompt_tokens"] = statistics.prompt_tokens;
    out["answer_tokens"] = statistics.answer_tokens;
    out["cached_tokens"] = to_json(statistics.cached_tokens);
    out["restored_tokens"] = to_json(statistics.restored_tokens);
    out["recomputed_tokens"] = to_json(statistics.recomputed_tokens);
    out["rounds"] = ordered_json::array();
    for (size_t i = 0; i < statistics.rounds.size(); ++i) {
        const Statistics::Round& round = statistics.rounds[i];
        out["rounds"].push_back({{"round", i + 1},
                                 {"answers", round.ttft_ms.count},
                                 {"prompt_tokens_mean", round.prompt_tokens_mean},
                                 {"ttft_ms", to_json(round.ttft_ms)}});
    }
    out["errors"] = statistics.errors;
    out["turns_skipped"] = statistics.turns_skipped;
    out["turns_late"] = statistics.turns_late;
    return out;
}

std::string to_table(const RunFacts& facts, const Statistics& statistics) {
    std::string text = facts.workload + ", " + facts.mode + ", " + facts.model + " at " + facts.url + "\n\n";
    add_line(text, "%-24s %10s %10s %10s %10s", "ms", "mean", "p50", "p90", "p99");
    add_summary(text, "time to first token", statistics.ttft_ms);
    add_summary(text, "time per further token", statistics.tpot_ms);
    add_summary(text, "between pieces (ITL)", statistics.itl_ms);
    add_summary(text, "whole answer (E2E)", statistics.e2e_ms);
    text += "\n";
    add_line(text, "%-24s %10s %10s %10s %10s %14s %8s", "ms to first token", "mean", "p50", "p90", "p99",
             "prompt tokens", "answers");
    for (size_t i = 0; i < statistics.rounds.size(); ++i) {
        add_summary(text, "round " + std::to_string(i + 1), statistics.rounds[i].ttft_ms);
        text.pop_back();
        add_line(text, " %14.0f %8zu", statistics.rounds[i].prompt_tokens_mean, statistics.rounds[i].ttft_ms.count);
    }
    const auto tokens = static_cast<double>(statistics.answer_tokens);
    text += "\n";
    add_line(text, "throughput  %.2f requests/s, %.1f output tokens/s, %.1f total tokens/s over %.1f s",
             statistics.per_second(static_cast<double>(statistics.answers)), statistics.per_second(tokens),
             statistics.per_second(tokens + static_cast<double>(statistics.prompt_tokens)), statistics.seconds);
    if (has_goals(facts.goals)) {
        add_line(text, "goodput     %.2f requests/s, %zu of %zu with%s",
                 statistics.per_second(static_cast<double>(statistics.good_answers)), statistics.good_answers,
                 statistics.requests, goals_text(facts.goals).c_str());
    }
    text += "tokens      " + token_counts(statistics) + "\n";
    text += "errors      " + error_counts(statistics) + "\n";
    if (statistics.turns_late > 0) {
        add_line(text, "late        %lld turns left after they were due; --clients must be higher",
                 static_cast<long long>(statistics.turns_late));
    }
    text += "flags       " + facts.flags + "\n";
    return text;
}

}  // namespace rondo::cli::multi_turn

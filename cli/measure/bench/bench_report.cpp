#include "cli/measure/bench/bench_report.hpp"

#include <algorithm>
#include <cstdio>

#include "cli/measure/quantile.hpp"

namespace rondo::cli {

using nlohmann::ordered_json;

namespace {

template <class... Values>
std::string format(const char* how, Values... values) {
    char text[512];
    std::snprintf(text, sizeof text, how, values...);
    return text;
}

/// What a point says beside its speed.
ordered_json details(const BenchReport& report, const BenchPoint& point) {
    ordered_json out = ordered_json::object();
    const TimedRun& run = middle(point.shown());
    for (const RunPart& part : run_parts) out["split"][std::string(part.name) + "_s"] = part.seconds(run);
    for (const RunPart& part : rest_parts) out["rest"][std::string(part.name) + "_s"] = part.seconds(run);
    if (point.compares()) {
        out["dense_tokens_per_s"] = report.tokens_per_s(point, middle(point.dense));
        out["ratio"] = point.ratio;
        out["split"]["score_and_select_share"] = (run.score_s + run.select_s) / run.seconds;
        const double attend_s = middle(point.dense).step.attend;
        out["dense_attend_s"] = attend_s;
        if (run.step.attend > 0.0) out["attention_ratio"] = attend_s / run.step.attend;
    }
    if (!point.more.is_null()) out.update(point.more);
    return out;
}

ordered_json to_json(const BenchReport& report, const BenchPoint& point) {
    const std::vector<TimedRun>& runs = point.shown();
    ordered_json out = {{"tokens_per_s", report.tokens_per_s(point, middle(runs))},
                        {"tokens_per_s_min", report.tokens_per_s(point, runs.back())},
                        {"tokens_per_s_max", report.tokens_per_s(point, runs.front())},
                        {"seconds", middle(runs).seconds},
                        {"tokens", point.tokens},
                        {"depth", point.depth}};
    out.update(details(report, point));
    return out;
}

std::string line_of(const BenchReport& report, const BenchPoint& point) {
    const std::vector<TimedRun>& runs = point.shown();
    std::string text =
        format("%s: %.1f tokens/s (median of %d; %.1f to %.1f), %s, depth %lld, batch %d, %s\n", report.name(),
               report.tokens_per_s(point, middle(runs)), report.repeat, report.tokens_per_s(point, runs.back()),
               report.tokens_per_s(point, runs.front()), report.model.c_str(), static_cast<long long>(point.depth),
               report.batch, report.device.c_str());
    ordered_json more = details(report, point);
    more.erase("rest");                          // for programs
    if (!point.compares()) more.erase("split");  // likewise the parts of dense: one line stays one
    for (const auto& [name, value] : more.items()) text += "  " + name + ": " + value.dump() + "\n";
    return text;
}

/// A share in percent; "-" where nothing was looked at, which alone makes it 0.
std::string percent(const ordered_json& more, const char* name) {
    return more.value(name, 0.0) > 0.0 ? format("%8.1f%%", 100.0 * more[name].get<double>()) : format("%9s", "-");
}

std::string table_of(const BenchReport& report) {
    const bool is_prefill = report.kind == BenchReport::Kind::prefill;
    std::string text = format("%s, %s, batch %d, %s, %s, median of %d\n%8s %12s %12s %12s", report.name(),
                              report.model.c_str(), report.batch, report.kv.c_str(), report.device.c_str(),
                              report.repeat, is_prefill ? "tokens" : "depth", "tokens/s", "slowest", "fastest");
    if (report.compares()) {
        text += format(" %12s %7s", "dense", "ratio");
        for (const RunPart& part : run_parts) text += format(" %9s", part.name);
        text += format("  %8s %8s", "density", "mass");
    }
    text += "\n";
    for (const BenchPoint& point : report.points) {
        const std::vector<TimedRun>& runs = point.shown();
        const TimedRun& run = middle(runs);
        text += format("%8lld %12.1f %12.1f %12.1f", static_cast<long long>(report.length(point)),
                       report.tokens_per_s(point, run), report.tokens_per_s(point, runs.back()),
                       report.tokens_per_s(point, runs.front()));
        if (point.compares()) {
            const double scale = 1e3 / static_cast<double>(point.tokens);
            text += format(" %12.1f %7.2f", report.tokens_per_s(point, middle(point.dense)), point.ratio);
            for (const RunPart& part : run_parts) text += format(" %9.3f", scale * part.seconds(run));
            text += " " + percent(point.more, "density") + percent(point.more, "mass");
        }
        text += "\n";
    }
    if (report.compares())
        text +=
            format("score to rest: ms of %s, by %s\n", is_prefill ? "each token" : "each step", report.method.c_str());
    return text;
}

}  // namespace

void BenchPoint::finish() {
    std::vector<double> ratios;
    for (size_t i = 0; i < method.size(); ++i) ratios.push_back(dense[i].seconds / method[i].seconds);
    std::ranges::sort(ratios);
    ratio = quantile(ratios, 0.5);
    for (std::vector<TimedRun>* const runs : {&dense, &method}) std::ranges::sort(*runs, {}, &TimedRun::seconds);
}

ordered_json to_json(const BenchReport& report) {
    ordered_json out = {{"bench", report.name()},  {"repeat", report.repeat},
                        {"batch", report.batch},   {"kv", report.kv},
                        {"method", report.method}, {"device", report.device},
                        {"model", report.model},   {"weight_bytes", report.weight_bytes}};
    if (!report.is_sweep) {
        out.update(to_json(report, report.points.front()));
        return out;
    }
    for (const BenchPoint& point : report.points) out["points"].push_back(to_json(report, point));
    return out;
}

std::string to_text(const BenchReport& report) {
    return report.is_sweep ? table_of(report) : line_of(report, report.points.front());
}

}  // namespace rondo::cli

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/step_seconds.hpp"

namespace rondo::cli {

/// What one run took, and which parts of it were spent on the method itself.
struct TimedRun {
    double seconds = 0.0;
    double score_s = 0.0;   ///< which keys matter
    double select_s = 0.0;  ///< choosing among them
    double gather_s = 0.0;  ///< copying what was chosen, for answers
    StepSeconds step{};     ///< of the transformer

    double rest_s() const { return seconds - score_s - select_s - gather_s - step.attend - step.product; }
};

/// A part of a run's time. The table has them in the order of a step.
struct RunPart {
    const char* name;
    double (*seconds)(const TimedRun&);
};
inline constexpr RunPart run_parts[] = {{"score", [](const TimedRun& run) { return run.score_s; }},
                                        {"select", [](const TimedRun& run) { return run.select_s; }},
                                        {"gather", [](const TimedRun& run) { return run.gather_s; }},
                                        {"attend", [](const TimedRun& run) { return run.step.attend; }},
                                        {"product", [](const TimedRun& run) { return run.step.product; }},
                                        {"rest", [](const TimedRun& run) { return run.rest_s(); }}};
/// What `--json` tells of the rest.
inline constexpr RunPart rest_parts[] = {{"norm", [](const TimedRun& run) { return run.step.norm; }},
                                         {"rope", [](const TimedRun& run) { return run.step.rope; }},
                                         {"append", [](const TimedRun& run) { return run.step.append; }},
                                         {"activate", [](const TimedRun& run) { return run.step.activate; }}};

/// The run in the middle of sorted ones stands for all, so that its parts add up to its time. Of an even number it is
/// the slower of the two.
inline const TimedRun& middle(const std::vector<TimedRun>& runs) {
    return runs[runs.size() / 2];
}

/// The runs at one length of context: by rounds, and after `finish` from the fastest to the slowest.
struct BenchPoint {
    int64_t tokens = 0, depth = 0;
    std::vector<TimedRun> dense;
    std::vector<TimedRun> method;  ///< none where dense was measured alone
    nlohmann::ordered_json more;
    double ratio = 0.0;  ///< dense's time over the method's: the median of the rounds' own

    void finish();

    bool compares() const { return !method.empty(); }
    const std::vector<TimedRun>& shown() const { return compares() ? method : dense; }
};

struct BenchReport {
    enum class Kind { prefill, decode };

    Kind kind = Kind::prefill;
    std::string method, model, device, kv;
    int batch = 1, repeat = 1;
    size_t weight_bytes = 0;
    bool is_sweep = false;  ///< over several lengths, in one report of `points`
    std::vector<BenchPoint> points;

    const char* name() const { return kind == Kind::prefill ? "prefill" : "decode"; }
    /// What differs from point to point.
    int64_t length(const BenchPoint& point) const { return kind == Kind::prefill ? point.tokens : point.depth; }
    double tokens_per_s(const BenchPoint& point, const TimedRun& run) const {
        return static_cast<double>(point.tokens * batch) / run.seconds;
    }
    bool compares() const { return points.front().compares(); }
};

nlohmann::ordered_json to_json(const BenchReport& report);
std::string to_text(const BenchReport& report);

}  // namespace rondo::cli

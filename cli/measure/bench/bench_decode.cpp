#include <algorithm>
#include <functional>

#include "cli/measure/bench/sequences.hpp"
#include "cli/measure/quantile.hpp"
#include "cli/progress.hpp"

namespace rondo::cli {

namespace {

/// How evenly one run's steps came. Runs are not put together: the machine may be faster in one than in the next.
struct StepTimes {
    double p50_ms = 0.0, p99_ms = 0.0;

    static StepTimes of(std::vector<double> seconds) {
        std::ranges::sort(seconds);
        return {1e3 * quantile(seconds, 0.5), 1e3 * quantile(seconds, 0.99)};
    }
    double ratio() const { return p99_ms / p50_ms; }
};

/// One way of attending at one depth: what its counted runs took, warm-up steps left out.
struct Contestant {
    bool dense = true;
    std::vector<TimedRun> runs;
    std::vector<StepTimes> steps;                                              // of each run
    int64_t attended = 0, causal = 0, scored = 0, bounds = 0, selections = 0;  // in all runs
};

/// One answer of each sequence: `warm_up` steps, then the counted ones.
Status run_once(Sequences& sequences, int64_t depth, int64_t tokens, int64_t warm_up, Contestant& contestant,
                bool count) {
    RONDO_TRY(sequences.begin(depth, contestant.dense));
    const auto id = [](int64_t i) { return static_cast<int32_t>(i % 97 + 1); };
    for (int64_t i = 0; i < warm_up; ++i) RONDO_TRY(sequences.step(id(i)));
    const StepAttentionStats before = sequences.stats();
    const StepSeconds step = sequences.seconds();
    const double start = seconds_now();
    double last = start;
    std::vector<double> steps;
    for (int64_t i = 0; i < tokens; ++i) {
        RONDO_TRY(sequences.step(id(warm_up + i)));
        const double now = seconds_now();
        steps.push_back(now - last);
        last = now;
    }
    const StepAttentionStats after = sequences.stats();
    RONDO_TRY(check_finite(sequences.logits()));
    if (!count) return Status::ok();
    contestant.runs.push_back({last - start, after.score_seconds - before.score_seconds,
                               after.select_seconds - before.select_seconds,
                               after.gather_seconds - before.gather_seconds, sequences.seconds() - step});
    contestant.steps.push_back(StepTimes::of(std::move(steps)));
    contestant.attended += after.attended - before.attended;
    contestant.causal += after.causal - before.causal;
    contestant.scored += after.keys_scored - before.keys_scored;
    contestant.bounds += after.bounds_read - before.bounds_read;
    contestant.selections += after.selections - before.selections;
    return Status::ok();
}

/// Medians over the runs; the ratio's is the median of the runs' own ratios.
nlohmann::ordered_json step_times(const std::vector<StepTimes>& runs) {
    const auto median = [&](auto&& figure) {
        std::vector<double> figures;
        for (const StepTimes& run : runs) figures.push_back(std::invoke(figure, run));
        std::ranges::sort(figures);
        return quantile(figures, 0.5);
    };
    return {{"p50", median(&StepTimes::p50_ms)},
            {"p99", median(&StepTimes::p99_ms)},
            {"p99_over_p50", median(&StepTimes::ratio)}};
}

double share(double part, int64_t whole) {
    return part / static_cast<double>(std::max<int64_t>(whole, 1));
}

/// All runs at one depth; the sequences are that long already.
Result<BenchPoint> measure(Sequences& sequences, const BenchOptions& options, int64_t depth, int64_t warm_up,
                           Progress& progress) {
    Contestant dense, sparse;
    sparse.dense = false;
    const StepAttentionStats before = sequences.stats();
    for (int repeat = 0; repeat <= options.repeat; ++repeat) {  // the first is a warm-up
        RONDO_TRY(run_once(sequences, depth, options.tokens, warm_up, dense, repeat > 0));
        if (sequences.chooses()) RONDO_TRY(run_once(sequences, depth, options.tokens, warm_up, sparse, repeat > 0));
        progress.show((repeat + 1.0) / (options.repeat + 1.0));
    }
    BenchPoint point{options.tokens, depth, std::move(dense.runs), std::move(sparse.runs), {}};
    point.finish();
    if (!sequences.chooses()) {
        point.more = {{"step_ms", step_times(dense.steps)}};
        return point;
    }
    const StepAttentionStats after = sequences.stats();
    const double token_bytes = sequences.token_bytes();
    // What is read: keys and values that are attended to, keys alone that are scored, and the bounds of pages.
    const auto tokens = static_cast<double>(sparse.attended) + static_cast<double>(sparse.scored) / 2.0;
    const auto mib_per_step = [&](double bytes) { return share(bytes / (1 << 20), options.repeat * options.tokens); };
    const double kv_mib = mib_per_step(tokens * token_bytes + static_cast<double>(sparse.bounds));
    const double dense_kv_mib = mib_per_step(static_cast<double>(sparse.causal) * token_bytes);
    point.more = {{"step_ms", step_times(sparse.steps)},
                  {"dense_step_ms", step_times(dense.steps)},
                  {"selections", share(static_cast<double>(sparse.selections), options.repeat)},
                  {"density", share(static_cast<double>(sparse.attended), sparse.causal)},
                  {"kv_mib_per_step", kv_mib},
                  {"dense_kv_mib_per_step", dense_kv_mib},
                  {"blocks_of_copies", after.blocks_held}};
    // Of every selection there was: in the counted steps of a short run there may be none.
    if (const int64_t masses = after.masses - before.masses; masses > 0)
        point.more["mass"] = share(after.mass - before.mass, masses);
    return point;
}

/// Refuses cold_tokens: here the first selections are spread over a period, so that no step carries them all.
Status check_overrides(const BenchOptions& options) {
    for (const std::string& text : options.model.overrides)
        if (text.starts_with("pipeline.decode.attention.cold_tokens="))
            return make_error(
                ErrorCode::invalid_argument,
                "--set pipeline.decode.attention.cold_tokens: has no effect in bench decode, where answers "
                "have begun; it must be left out");
    return Status::ok();
}

}  // namespace

Status bench_decode(const BenchOptions& options) {
    RONDO_TRY(options.model.check_method(MethodSlot::decode, "bench decode"));
    RONDO_TRY(check_overrides(options));
    RONDO_ASSIGN(const auto depths, bench_lengths(options, "--depths", options.depth));
    RONDO_ASSIGN(const auto runner, Runner::open_model(options.model));
    const DecodeAttention& attention = runner->settings.pipeline.decode.attention;
    // The first selection of every sequence serves before anything is counted.
    const int64_t warm_up = attention.method == DecodeAttention::Method::dense
                                ? 0
                                : int64_t{attention.reselect_every} + attention.lag_steps + 1;
    const int64_t steps = options.tokens + warm_up;
    RONDO_TRY(check_context(depths.back(), steps, runner->model));
    RONDO_ASSIGN(const auto sequences, Sequences::create(*runner, options, depths.back() + steps));
    const std::vector<int32_t> history = some_ids(depths.back(), runner->model.spec.vocabulary);
    BenchReport report = begin_report(BenchReport::Kind::decode, options, *runner);
    for (size_t i = 0, filled = 0; i < depths.size(); ++i) {
        const auto depth = static_cast<size_t>(depths[i]);
        {
            // Goes on from the context that the depth before left.
            Progress progress(progress_title("filling the context to", depths, i));
            RONDO_TRY(sequences->begin(static_cast<int64_t>(filled), true));
            RONDO_TRY(sequences->prefill(std::span(history).subspan(filled, depth - filled),
                                         [&](double share) { progress.show(share); }));
            filled = depth;
        }
        Progress progress(progress_title("decode at depth", depths, i));
        RONDO_ASSIGN(BenchPoint point, measure(*sequences, options, depths[i], warm_up, progress));
        report.points.push_back(std::move(point));
    }
    return finish_report(report, options);
}

}  // namespace rondo::cli

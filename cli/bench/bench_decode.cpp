#include <algorithm>

#include "cli/bench/sequences.hpp"
#include "cli/progress.hpp"

namespace rondo::cli {

namespace {

struct Runs {
    std::vector<double> seconds;  // of each run
    std::vector<double> steps;    // of each step of all runs
    int64_t attended = 0;         // entries, of all runs
    int64_t causal = 0;
};

/// One answer of each sequence: `warm_up` steps, then the counted ones.
Status run_once(Sequences& sequences, const BenchOptions& options, bool dense, int64_t warm_up, Runs* counted) {
    RONDO_TRY(sequences.begin(options.depth, dense));
    const auto id = [](int64_t i) { return static_cast<int32_t>(i % 97 + 1); };
    for (int64_t i = 0; i < warm_up; ++i) RONDO_TRY(sequences.step(id(i)));
    const SelectionStats before = sequences.stats();
    const double start = seconds_now();
    double last = start;
    for (int64_t i = 0; i < options.tokens; ++i) {
        RONDO_TRY(sequences.step(id(warm_up + i)));
        const double now = seconds_now();
        if (counted != nullptr) counted->steps.push_back(now - last);
        last = now;
    }
    if (counted != nullptr) {
        const SelectionStats after = sequences.stats();
        counted->seconds.push_back(last - start);
        counted->attended += after.attended - before.attended;
        counted->causal += after.causal - before.causal;
    }
    return check_finite(sequences.logits());
}

nlohmann::ordered_json step_times(Runs& runs) {
    std::sort(runs.steps.begin(), runs.steps.end());
    return {{"p50", 1e3 * quantile(runs.steps, 0.5)}, {"p99", 1e3 * quantile(runs.steps, 0.99)}};
}

nlohmann::ordered_json compared(const BenchOptions& options, Runs& dense, Runs& sparse, const SelectionStats& before,
                                const SelectionStats& after) {
    std::sort(dense.seconds.begin(), dense.seconds.end());
    std::sort(sparse.seconds.begin(), sparse.seconds.end());
    const double dense_median = quantile(dense.seconds, 0.5), sparse_median = quantile(sparse.seconds, 0.5);
    const double runs = options.repeat + 1;  // a warm-up run too
    const double score = (after.score_seconds - before.score_seconds) / runs,
                 select = (after.select_seconds - before.select_seconds) / runs,
                 gather = (after.gather_seconds - before.gather_seconds) / runs;
    return {
        {"dense_tokens_per_s", static_cast<double>(options.tokens * options.batch) / dense_median},
        {"ratio", dense_median / sparse_median},
        {"step_ms", step_times(sparse)},
        {"dense_step_ms", step_times(dense)},
        {"split", {{"score_s", score}, {"select_s", select}, {"gather_s", gather}}},
        {"selections", static_cast<double>(after.selections - before.selections) / runs},
        {"density", static_cast<double>(sparse.attended) / static_cast<double>(std::max<int64_t>(sparse.causal, 1))},
        {"mass", (after.mass - before.mass) / static_cast<double>(std::max<int64_t>(after.masses - before.masses, 1))},
        {"blocks_of_copies", after.blocks_held}};
}

}  // namespace

Status bench_decode(const BenchOptions& options) {
    RONDO_ASSIGN(const auto runner, Runner::open_model(options.model));
    const DecodeAttention& attention = runner->settings.pipeline.decode.attention;
    const bool compares = attention.method != DecodeAttention::Method::dense;
    // The first selection of every sequence serves before anything is counted.
    const int64_t warm_up = compares ? int64_t{attention.reselect_every} + attention.lag_steps + 1 : 0;
    BenchOptions all = options;
    all.tokens += warm_up;
    RONDO_TRY(check_context(all, runner->model));
    RONDO_ASSIGN(const auto sequences, Sequences::create(*runner, options, all.tokens));
    RONDO_TRY(sequences->prefill(some_ids(options.depth, runner->model.spec.vocabulary)));
    Runs dense, sparse;
    const SelectionStats before = sequences->stats();
    Progress progress("decode");
    for (int i = 0; i <= options.repeat; ++i) {
        RONDO_TRY(run_once(*sequences, options, true, warm_up, i > 0 ? &dense : nullptr));
        if (compares) RONDO_TRY(run_once(*sequences, options, false, warm_up, i > 0 ? &sparse : nullptr));
        progress.show(static_cast<double>(i) / options.repeat);
    }
    progress.finish();
    const auto tokens = static_cast<double>(options.tokens * options.batch);
    if (!compares) {
        report_bench(options, "decode", tokens, dense.seconds, *runner, {{"step_ms", step_times(dense)}});
        return Status::ok();
    }
    const nlohmann::ordered_json more = compared(options, dense, sparse, before, sequences->stats());
    report_bench(options, "decode", tokens, sparse.seconds, *runner, more);
    return Status::ok();
}

}  // namespace rondo::cli

#include <algorithm>

#include "cli/bench/bench.hpp"
#include "cli/progress.hpp"

namespace rondo::cli {

namespace {

/// A generator that attends as settings say, or to everything.
Result<std::unique_ptr<Generator>> open_generator(const Runner& runner, const BenchOptions& options, bool dense) {
    Generator::Options how;
    how.chunk_tokens = runner.settings.pipeline.prefill.chunk_tokens;
    how.kv_type = kv_dtype(runner.settings.memory.kv_dtype);
    how.context_tokens_max = options.depth + options.tokens + 1;
    if (!dense) how.prefill = runner.settings.pipeline.prefill.attention;
    return Generator::create(runner.model, *runner.device, how);
}

struct Contestant {
    std::unique_ptr<Generator> generator;
    std::vector<double> seconds;
};

Status prefill_once(Contestant& contestant, const BenchOptions& options, std::span<const int32_t> prompt, bool count) {
    contestant.generator->truncate(options.depth);
    const double start = seconds_now();
    RONDO_TRY(contestant.generator->prefill(prompt));
    if (count) contestant.seconds.push_back(seconds_now() - start);
    return check_finite(contestant.generator->logits());
}

/// Where the method's time went in one run, and what its lines hold; measured apart, since counting costs time too.
Result<nlohmann::ordered_json> describe(Contestant& sparse, const BenchOptions& options,
                                        std::span<const int32_t> prompt, int threads) {
    SparsePrefill& method = *sparse.generator->sparse_prefill();
    method.clear_stats();
    const double start = seconds_now();
    RONDO_TRY(prefill_once(sparse, options, prompt, false));
    const double total = seconds_now() - start;
    const SparsePrefillStats timed = method.stats();
    method.clear_stats();
    method.measure(1);
    RONDO_TRY(prefill_once(sparse, options, prompt, false));
    method.measure(0);
    const SparsePrefillStats& counted = method.stats();
    const double select = timed.select_seconds / threads;
    nlohmann::ordered_json split = {{"score_s", std::max(0.0, timed.score_seconds - select)},
                                    {"select_s", select},
                                    {"attend_s", timed.attend_seconds},
                                    {"rest_s", total - timed.score_seconds - timed.attend_seconds},
                                    {"score_and_select_share", timed.score_seconds / total}};
    nlohmann::ordered_json out = {{"split", split}};
    if (counted.causal > 0) {
        out["density"] = static_cast<double>(counted.covered) / static_cast<double>(counted.causal);
        out["mass"] = counted.mass / static_cast<double>(counted.masses);
    }
    return out;
}

}  // namespace

Status bench_prefill(const BenchOptions& options) {
    RONDO_ASSIGN(const auto runner, Runner::open_model(options.model));
    RONDO_TRY(check_context(options, runner->model));
    const auto history = some_ids(options.depth, runner->model.spec.vocabulary);
    const auto prompt = some_ids(options.tokens, runner->model.spec.vocabulary);
    Contestant dense, sparse;
    RONDO_ASSIGN(dense.generator, open_generator(*runner, options, true));
    RONDO_TRY(dense.generator->prefill(history));
    const bool compares = runner->settings.pipeline.prefill.attention.method != PrefillAttention::Method::dense;
    if (compares) {
        RONDO_ASSIGN(sparse.generator, open_generator(*runner, options, false));
        RONDO_TRY(sparse.generator->prefill(history));
    }
    Progress progress("prefill");
    for (int i = 0; i <= options.repeat; ++i) {  // the first is a warm-up
        RONDO_TRY(prefill_once(dense, options, prompt, i > 0));
        if (compares) RONDO_TRY(prefill_once(sparse, options, prompt, i > 0));
        progress.show(static_cast<double>(i) / options.repeat);
    }
    progress.finish();
    const auto tokens = static_cast<double>(options.tokens);
    if (!compares) {
        report_bench(options, "prefill", tokens, dense.seconds, *runner, {});
        return Status::ok();
    }
    std::sort(dense.seconds.begin(), dense.seconds.end());
    std::sort(sparse.seconds.begin(), sparse.seconds.end());
    const double dense_median = quantile(dense.seconds, 0.5), sparse_median = quantile(sparse.seconds, 0.5);
    RONDO_ASSIGN(nlohmann::ordered_json more, describe(sparse, options, prompt, runner->device->host_threads()));
    more["dense_tokens_per_s"] = tokens / dense_median;
    more["ratio"] = dense_median / sparse_median;
    // What is not attention costs both the same, so dense attention took what is left of its time.
    const double rest = more["split"]["rest_s"], attend = more["split"]["attend_s"];
    more["attention_ratio"] = (dense_median - rest) / attend;
    report_bench(options, "prefill", tokens, sparse.seconds, *runner, more);
    return Status::ok();
}

}  // namespace rondo::cli

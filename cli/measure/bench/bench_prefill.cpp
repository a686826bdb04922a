#include <algorithm>

#include "cli/measure/bench/bench.hpp"
#include "cli/progress.hpp"

namespace rondo::cli {

namespace {

/// A generator that attends as settings say, or to everything.
Result<std::unique_ptr<Generator>> open_generator(const Runner& runner, const BenchOptions& options, int64_t tokens_max,
                                                  bool dense) {
    Generator::Options how;
    how.chunk_tokens = runner.settings.pipeline.prefill.chunk_tokens;
    how.kv_type = kv_dtype(runner.settings.memory.kv_dtype);
    how.context_tokens_max = options.depth + tokens_max + 1;
    if (!dense) how.prefill = runner.settings.pipeline.prefill.attention;
    if (!dense) how.rounds = runner.settings.pipeline.rounds;
    RONDO_ASSIGN(auto made, Generator::create(runner.model, *runner.device, how));
    if (made->round_attention() != nullptr) made->plan_rounds(round_ends(options.depth, options.round_tokens));
    RONDO_TRY(made->prefill(some_ids(options.depth, runner.model.spec.vocabulary), false));
    return made;
}

/// Prompts behind `depth` tokens of history. `choosers` threads choose for a layer's heads at once.
struct PromptBench {
    int64_t depth;
    double choosers;
};

Result<TimedRun> prefill_once(Generator& generator, const PromptBench& bench, std::span<const int32_t> prompt) {
    generator.truncate(bench.depth);
    SparsePrefill* const method = generator.sparse_prefill();
    if (method != nullptr) method->clear_stats();
    TimedRun run;
    const Transformer& transformer = generator.transformer();
    const StepSeconds before = transformer.seconds();
    const double start = seconds_now();
    RONDO_TRY(generator.prefill(prompt));
    run.seconds = seconds_now() - start;
    run.step = transformer.seconds() - before;
    if (method != nullptr) {
        const SparsePrefillStats& stats = method->stats();
        run.select_s = stats.select_seconds / bench.choosers;
        run.score_s = std::max(0.0, stats.score_seconds - run.select_s);
        run.step.attend += stats.attend_seconds;
    }
    RONDO_TRY(check_finite(generator.logits()));
    return run;
}

void tell_rounds(const Generator& generator, nlohmann::ordered_json& out) {
    if (generator.round_attention() == nullptr) return;
    const RoundStats& stats = generator.round_attention()->stats();
    out["rounds"] = {{"earlier", stats.rounds}, {"chosen", stats.chosen}};
}

/// What the method's lines hold; measured in a run apart, since counting costs time.
Status count_lines(Generator& generator, const PromptBench& bench, std::span<const int32_t> prompt,
                   nlohmann::ordered_json& out) {
    if (generator.sparse_prefill() == nullptr) return Status::ok();
    SparsePrefill& method = *generator.sparse_prefill();
    method.measure(1);
    const auto run = prefill_once(generator, bench, prompt);
    method.measure(0);
    if (!run) return run.error();
    const SparsePrefillStats& counted = method.stats();
    if (counted.causal == 0) return Status::ok();
    out["density"] = static_cast<double>(counted.covered) / static_cast<double>(counted.causal);
    if (counted.masses > 0) out["mass"] = counted.mass / static_cast<double>(counted.masses);
    return Status::ok();
}

}  // namespace

Status bench_prefill(const BenchOptions& options) {
    RONDO_TRY(options.model.check_method(MethodSlot::prefill, "bench prefill"));
    RONDO_ASSIGN(const auto lengths, bench_lengths(options, "--lengths", options.tokens));
    RONDO_ASSIGN(const auto runner, Runner::open_model(options.model));
    const ModelSpec& spec = runner->model.spec;
    RONDO_TRY(check_context(options.depth, lengths.back(), runner->model));
    const PromptBench bench = {options.depth,
                               static_cast<double>(std::min(runner->device->host_threads(), spec.heads))};
    const auto prompts = some_ids(lengths.back(), spec.vocabulary);
    const PipelineSettings& pipeline = runner->settings.pipeline;
    std::unique_ptr<Generator> dense, sparse;
    RONDO_ASSIGN(dense, open_generator(*runner, options, lengths.back(), true));
    if (pipeline.prefill.attention.method != PrefillAttention::Method::dense ||
        pipeline.rounds.method != RoundSettings::Method::none) {
        RONDO_ASSIGN(sparse, open_generator(*runner, options, lengths.back(), false));
    }
    BenchReport report = begin_report(BenchReport::Kind::prefill, options, *runner);
    for (size_t i = 0; i < lengths.size(); ++i) {
        const auto prompt = std::span(prompts).first(static_cast<size_t>(lengths[i]));
        BenchPoint point{lengths[i], options.depth, {}, {}, {}};
        Progress progress(progress_title("prefill of", lengths, i));
        const double runs_of_each = options.repeat + (sparse ? 1.5 : 1.0);  // the lines are counted in one more
        for (int repeat = 0; repeat <= options.repeat; ++repeat) {          // the first is a warm-up
            const auto share = [&](double runs) { return (repeat + runs) / runs_of_each; };
            RONDO_ASSIGN(const TimedRun run, prefill_once(*dense, bench, prompt));
            if (repeat > 0) point.dense.push_back(run);
            progress.show(share(sparse ? 0.5 : 1.0));
            if (!sparse) continue;
            RONDO_ASSIGN(const TimedRun other, prefill_once(*sparse, bench, prompt));
            if (repeat > 0) point.method.push_back(other);
            progress.show(share(1.0));
        }
        point.finish();
        if (sparse) tell_rounds(*sparse, point.more);
        if (sparse) RONDO_TRY(count_lines(*sparse, bench, prompt, point.more));
        report.points.push_back(std::move(point));
    }
    return finish_report(report, options);
}

}  // namespace rondo::cli

#include "cli/measure/bench/bench.hpp"

#include <cmath>
#include <cstdio>

#include "actors/gateway/bodies/json_text.hpp"
#include "cli/commands.hpp"
#include "cli/measure/bench/bench_plot.hpp"
#include "cli/measure/multi_turn/multi_turn.hpp"
#include "model/attention/round_attention.hpp"

namespace rondo::cli {

namespace {
constexpr size_t lengths_max = 16;
}

Result<std::vector<int64_t>> bench_lengths(const BenchOptions& options, const std::string& list_name, int64_t only) {
    if (!options.is_sweep) return std::vector<int64_t>{only};
    RONDO_ASSIGN(const std::vector<int32_t> lengths, parse_numbers(options.lengths, list_name));
    const auto wrong = [&](const std::string& what) {
        return make_error(ErrorCode::invalid_argument, list_name + " " + what);
    };
    if (lengths.empty()) return wrong("names no length, must be a list like 1024,4096");
    if (lengths.size() > lengths_max) {
        return wrong("names " + std::to_string(lengths.size()) + " lengths, must be at most " +
                     std::to_string(lengths_max));
    }
    for (size_t i = 0; i < lengths.size(); ++i) {
        const int64_t least = i == 0 ? 1 : int64_t{lengths[i - 1]} + 1;
        if (lengths[i] >= least) continue;
        return wrong("names " + std::to_string(lengths[i]) +
                     (i == 0 ? ", must be 1 or more"
                             : " behind " + std::to_string(lengths[i - 1]) + "; lengths must be ascending"));
    }
    return std::vector<int64_t>(lengths.begin(), lengths.end());
}

std::vector<int64_t> round_ends(int64_t tokens, int64_t round_tokens) {
    std::vector<int64_t> ends;
    for (int64_t end = round_tokens; end < tokens; end += round_tokens) ends.push_back(end);
    if (tokens > 0) ends.push_back(tokens);
    return apart_from_preamble(std::move(ends));
}

std::vector<int32_t> some_ids(int64_t count, int64_t vocabulary) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<int32_t>((i * 7919 + 13) % static_cast<size_t>(vocabulary));
    return ids;
}

Status check_finite(std::span<const float> logits) {
    for (const float logit : logits) {
        if (!std::isfinite(logit))
            return make_error(ErrorCode::internal, "the model gave a logit that is not a number");
    }
    return Status::ok();
}

Status check_context(int64_t depth, int64_t tokens, const Model& model) {
    const int64_t context = model.spec.usable_context();
    if (depth + tokens <= context) return Status::ok();
    return make_error(ErrorCode::out_of_range, "a depth of " + std::to_string(depth) + " and " +
                                                   std::to_string(tokens) + " tokens must be at most the context of " +
                                                   model.name + ", " + std::to_string(context));
}

std::string progress_title(const std::string& what, const std::vector<int64_t>& lengths, size_t index) {
    const std::string title = what + " " + std::to_string(lengths[index]);
    if (lengths.size() == 1) return title;
    return title + " (" + std::to_string(index + 1) + " of " + std::to_string(lengths.size()) + ")";
}

BenchReport begin_report(BenchReport::Kind kind, const BenchOptions& options, const Runner& runner) {
    BenchReport report;
    report.kind = kind;
    const PipelineSettings& pipeline = runner.settings.pipeline;
    report.method = kind == BenchReport::Kind::prefill ? row_of(pipeline.prefill.attention.method).name
                                                       : row_of(pipeline.decode.attention.method).name;
    if (pipeline.rounds.method != RoundSettings::Method::none) {
        const std::string rounds(row_of(pipeline.rounds.method).name);
        report.method =
            report.method == row_of(PrefillAttention::Method::dense).name ? rounds : report.method + "+" + rounds;
    }
    report.model = runner.model.name;
    report.device = runner.device->name();
    report.kv = name_of(runner.settings.memory.kv_dtype);
    report.batch = options.batch;
    report.repeat = options.repeat;
    report.weight_bytes = runner.model.weights->bytes();
    report.is_sweep = options.is_sweep;
    return report;
}

Status finish_report(const BenchReport& report, const BenchOptions& options) {
    std::printf("%s", options.json ? (json_text(to_json(report)) + "\n").c_str() : to_text(report).c_str());
    if (options.plot_file.empty()) return Status::ok();
    return write_file(options.plot_file, draw_bench(report));
}

namespace {

using Bench = Status (*)(const BenchOptions&);

/// `list` names several lengths, in place of `single`, which names one.
CLI::App* add_one(CLI::App& command, Action& run, const std::shared_ptr<BenchOptions>& options, const char* name,
                  const char* what, Bench bench, const char* list, const char* single) {
    CLI::App* const one = command.add_subcommand(name, what);
    options->model.add_all(*one);
    one->add_option("--tokens", options->tokens, "tokens a repeat")->check(CLI::Range(1, 1 << 20));
    one->add_option("--depth", options->depth, "tokens already in the context")->check(CLI::Range(0, 1 << 24));
    CLI::Option* const lengths =
        one->add_option(list, options->lengths,
                        "512,2048: measures at each in turn, ascending, at most " + std::to_string(lengths_max))
            ->excludes(one->get_option(single));
    one->add_option("--round-tokens", options->round_tokens,
                    "tokens of a round of the context, where a method chooses rounds")
        ->check(CLI::Range(1, 1 << 20));
    one->add_option("--repeat", options->repeat, "counted repeats; the median is quoted")->check(CLI::Range(1, 1000));
    one->add_option("--plot", options->plot_file, "SVG file: tokens/s over context length, and where the time goes")
        ->type_name("FILE");
    one->add_flag("--json", options->json);
    one->callback([options, lengths, &run, bench] {
        options->is_sweep = lengths->count() > 0;
        run = [options, bench]() -> Status {
            RONDO_TRY(check_writable(options->plot_file));
            return bench(*options);
        };
    });
    return one;
}

}  // namespace

void add_bench(CLI::App& app, Action& run) {
    auto options = std::make_shared<BenchOptions>();
    CLI::App* const command = app.add_subcommand("bench", "how fast a model runs here");
    command->require_subcommand(1);
    add_one(*command, run, options, "prefill",
            "tokens of a prompt per second; with --method beside dense in the same run", bench_prefill, "--lengths",
            "--tokens");
    add_one(*command, run, options, "decode",
            "tokens of answers per second; with --method beside dense in the same run", bench_decode, "--depths",
            "--depth")
        ->add_option("--batch", options->batch, "sequences at once")
        ->check(CLI::Range(1, 1024));
    add_multi_turn(*command, run);
}

}  // namespace rondo::cli

#include "cli/bench/bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/commands.hpp"
#include "cli/multi_turn/multi_turn.hpp"

namespace rondo::cli {

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

Status check_context(const BenchOptions& options, const Model& model) {
    if (options.depth + options.tokens <= model.spec.context_tokens) return Status::ok();
    return make_error(ErrorCode::out_of_range, "a depth of " + std::to_string(options.depth) + " and " +
                                                   std::to_string(options.tokens) + " tokens; the context of " +
                                                   model.name + " holds " + std::to_string(model.spec.context_tokens));
}

void report_bench(const BenchOptions& options, const std::string& kind, double tokens, std::vector<double> seconds,
                  const Runner& runner, const nlohmann::ordered_json& more) {
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    nlohmann::ordered_json out = {{"bench", kind},
                                  {"tokens_per_s", tokens / median},
                                  {"tokens_per_s_min", tokens / seconds.back()},
                                  {"tokens_per_s_max", tokens / seconds.front()},
                                  {"seconds", median},
                                  {"repeat", options.repeat},
                                  {"tokens", options.tokens},
                                  {"depth", options.depth},
                                  {"batch", options.batch},
                                  {"kv", name_of(runner.settings.memory.kv_dtype)},
                                  {"method", options.model.method.empty() ? "dense" : options.model.method},
                                  {"device", runner.device->name()},
                                  {"model", runner.model.name},
                                  {"weight_bytes", runner.model.weights->bytes()}};
    if (!more.is_null()) out.update(more);
    if (options.json) {
        std::printf("%s\n", out.dump().c_str());
        return;
    }
    std::printf("%s: %.1f tokens/s (median of %d; %.1f to %.1f), %s, depth %lld, batch %d, %s\n", kind.c_str(),
                tokens / median, options.repeat, tokens / seconds.back(), tokens / seconds.front(),
                runner.model.name.c_str(), static_cast<long long>(options.depth), options.batch,
                runner.device->name().c_str());
    for (const auto& [name, value] : more.items()) std::printf("  %s: %s\n", name.c_str(), value.dump().c_str());
}

void add_bench(CLI::App& app, Action& run) {
    auto options = std::make_shared<BenchOptions>();
    CLI::App* const command = app.add_subcommand("bench", "how fast a model runs here");
    command->require_subcommand(1);
    const auto add = [&](const char* name, const char* what, Status (*bench)(const BenchOptions&)) {
        CLI::App* const one = command->add_subcommand(name, what);
        options->model.add_all(*one);
        one->add_option("--tokens", options->tokens, "tokens a repeat")->check(CLI::Range(1, 1 << 20));
        one->add_option("--depth", options->depth, "tokens already in the context")->check(CLI::Range(0, 1 << 24));
        one->add_option("--repeat", options->repeat, "counted repeats; the median is quoted")
            ->check(CLI::Range(1, 1000));
        one->add_flag("--json", options->json);
        one->callback([options, &run, bench] { run = [options, bench] { return bench(*options); }; });
        return one;
    };
    add("prefill", "tokens of a prompt per second; with --method beside dense in the same run", bench_prefill);
    add("decode", "tokens of answers per second; with --method beside dense in the same run", bench_decode)
        ->add_option("--batch", options->batch, "sequences at once")
        ->check(CLI::Range(1, 1024));
    add_multi_turn(*command, run);
}

}  // namespace rondo::cli

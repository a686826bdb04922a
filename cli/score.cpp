#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/model_options.hpp"
#include "cli/npy_writer.hpp"
#include "cli/progress.hpp"

namespace rondo::cli {

namespace {

struct ScoreOptions {
    ModelOptions model;
    std::string tokens, text, logits_file;
    bool tokens_given = false;
    bool json = false;
};

/// ln p(id) under a row of logits.
double log_probability(std::span<const float> logits, int32_t id) {
    float max = logits[0];
    for (const float logit : logits) max = std::max(max, logit);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
    return static_cast<double>(logits[static_cast<size_t>(id)]) - max - std::log(sum);
}

Status score(const ScoreOptions& options) {
    RONDO_TRY(options.model.check_method(MethodSlot::prefill, "score"));
    RONDO_ASSIGN(const auto runner, Runner::open(options.model));
    std::vector<int32_t> ids;
    if (options.tokens_given) {
        RONDO_ASSIGN(ids, parse_numbers(options.tokens, "token ids"));
    } else {
        RONDO_ASSIGN(ids, runner->model.encode_text(options.text));
    }
    if (ids.empty())
        return make_error(ErrorCode::invalid_argument, "nothing to score: there must be at least one token");
    const auto vocabulary = static_cast<size_t>(runner->model.spec.vocabulary);
    std::optional<NpyWriter> file;
    if (!options.logits_file.empty()) {
        RONDO_ASSIGN(auto created, NpyWriter::create(options.logits_file, static_cast<int64_t>(ids.size()),
                                                     runner->model.spec.vocabulary));
        file.emplace(std::move(created));
    }
    Progress progress("scoring");
    std::vector<double> log_probabilities;
    size_t position = 0;
    RONDO_TRY(runner->generator->score(ids, [&](std::span<const float> rows) {
        if (file) file->write(rows);
        for (; !rows.empty(); rows = rows.subspan(vocabulary), ++position) {
            if (position + 1 < ids.size()) {
                log_probabilities.push_back(log_probability(rows.first(vocabulary), ids[position + 1]));
            }
        }
        progress.show(static_cast<double>(position) / static_cast<double>(ids.size()));
    }));
    progress.finish();
    if (file) RONDO_TRY(file->close());
    double total = 0.0;
    for (const double value : log_probabilities) total += value;
    const double perplexity =
        log_probabilities.empty() ? 0.0 : std::exp(-total / static_cast<double>(log_probabilities.size()));
    if (options.json) {
        const nlohmann::json out = {{"ids", ids}, {"logprobs", log_probabilities}, {"perplexity", perplexity}};
        std::printf("%s\n", out.dump().c_str());
    } else {
        std::printf("%zu tokens, log-probability %.4f, perplexity %.4f\n", ids.size(), total, perplexity);
    }
    return Status::ok();
}

}  // namespace

void add_score(CLI::App& app, Action& run) {
    auto options = std::make_shared<ScoreOptions>();
    CLI::App* const command = app.add_subcommand("score", "logits and log-probabilities of given tokens");
    options->model.add_all(*command);
    auto* const input = command->add_option_group("input");
    auto* const tokens = input->add_option("--tokens", options->tokens, "token ids: 1,2,3");
    input->add_option("--text", options->text, "text to tokenize and score");
    input->require_option(1);
    command
        ->add_option("--logits", options->logits_file,
                     "write all positions' logits here: .npy, float32 [n, vocabulary]")
        ->type_name("FILE");
    command->add_flag("--json", options->json);
    command->callback([options, tokens, &run] {
        options->tokens_given = tokens->count() > 0;
        run = [options] { return score(*options); };
    });
}

}  // namespace rondo::cli

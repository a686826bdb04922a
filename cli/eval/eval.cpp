#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/commands.hpp"
#include "cli/eval/contestant.hpp"
#include "cli/eval/report.hpp"
#include "cli/eval/roundtalk_prompt.hpp"
#include "cli/model_options.hpp"
#include "cli/progress.hpp"
#include "cli/quantile.hpp"

namespace rondo::cli {

namespace {

using namespace eval;

struct Options {
    ModelOptions model;
    std::string suite = "roundtalk", methods = "dense,loopserve,snapkv", budgets = "20", task = "recall";
    std::string places = "begin,middle,end", history = "teacher_forced";
    int dialogues = 30, rounds = 10;
    uint64_t seed = 1'000'000;  // far from those the demo model was trained on
    bool json = false;
};

/// What the methods' settings are scaled to: answers of a few tokens, contexts of a few hundred.
const std::vector<std::string> small_scale = {
    "pipeline.prefill.attention.min_tokens=0", "pipeline.prefill.attention.sample_rows=16",
    "pipeline.decode.attention.cold_tokens=2", "pipeline.decode.attention.reselect_every=4",
    "pipeline.decode.attention.observe=4",     "pipeline.decode.attention.lag_steps=0"};

Result<std::vector<Place>> parse_places(const std::string& list) {
    std::vector<Place> places;
    for (size_t begin = 0; begin <= list.size();) {
        const size_t end = std::min(list.find(',', begin), list.size());
        RONDO_ASSIGN(const Place place, parse_place(list.substr(begin, end - begin)));
        places.push_back(place);
        begin = end + 1;
    }
    return places;
}

Result<std::vector<int>> parse_budgets(const std::string& list) {
    RONDO_ASSIGN(const std::vector<int32_t> budgets, parse_numbers(list, "--budgets"));
    for (const int32_t share : budgets) {
        if (share < 1 || share > 100)
            return make_error(ErrorCode::invalid_argument,
                              "--budgets " + list + ": percents from 1 to 100 would be right");
    }
    return std::vector<int>(budgets.begin(), budgets.end());
}

double kl(std::span<const float> dense, std::span<const float> other) {
    const auto log_sum = [](std::span<const float> logits) {
        const double max = *std::ranges::max_element(logits);
        double sum = 0.0;
        for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
        return max + std::log(sum);
    };
    const double dense_sum = log_sum(dense), other_sum = log_sum(other);
    double total = 0.0;
    for (size_t i = 0; i < dense.size(); ++i) {
        const double log_p = static_cast<double>(dense[i]) - dense_sum;
        total += std::exp(log_p) * (log_p - (static_cast<double>(other[i]) - other_sum));
    }
    return std::max(total, 0.0);
}

void compare(const Attempt& dense, const Attempt& attempt, EvalRecord& record) {
    double divergence = 0.0;
    size_t same = 0;
    for (size_t i = 0; i < dense.logits.size(); ++i) {
        divergence += kl(dense.logits[i], attempt.logits[i]);
        if (dense.argmax[i] == attempt.argmax[i]) ++same;
    }
    const auto tokens = static_cast<double>(dense.logits.size());
    record.kl_to_dense = divergence / tokens;
    record.top1_agreement = static_cast<double>(same) / tokens;
}

/// One evaluation: every method on every dialogue.
class Run {
public:
    Run(const Options& options, const Runner& runner, std::vector<Contestant> contestants, std::vector<int> budgets)
        : options_(options), runner_(runner), contestants_(std::move(contestants)), budgets_(std::move(budgets)) {}

    Status dialogue(uint64_t seed, Task task, Place place) {
        DialogueOptions how;
        how.rounds = options_.rounds;
        how.tasks = {task};
        how.place = place;
        RONDO_ASSIGN(const auto rounds, make_dialogue(seed, how));
        if (options_.history != "free_running") RONDO_TRY(teacher_forced(seed, rounds));
        if (options_.history != "teacher_forced") RONDO_TRY(free_running(seed, rounds));
        return Status::ok();
    }
    const std::vector<EvalRecord>& records() const { return records_; }
    const std::vector<Contestant>& contestants() const { return contestants_; }

private:
    DType kv_type() const { return kv_dtype(runner_.settings.memory.kv_dtype); }

    EvalRecord record_of(uint64_t seed, const std::vector<DialogueRound>& rounds, const Contestant& contestant,
                         int share) const {
        EvalRecord record;
        record.method = contestant.label;
        if (contestant.has_budget()) record.budget = std::to_string(share) + "%";
        record.dialogue = seed;
        record.round = rounds.size() - 1;
        record.task = rounds.back().task;
        record.place = rounds.back().place;
        record.lag = lag_of(rounds.back(), rounds.size() - 1);
        return record;
    }

    static int budget_of(const PromptedQuestion& question, int share) {
        return std::max(8, static_cast<int>(std::lround(static_cast<double>(question.prompt.size()) * share / 100.0)));
    }

    /// A contestant without a budget runs once, not for each.
    template <class F>
    Status for_each(F function) {
        for (const Contestant& contestant : contestants_) {
            for (const int share : contestant.has_budget() ? budgets_ : std::vector<int>{100})
                RONDO_TRY(function(contestant, share));
        }
        return Status::ok();
    }

    Status teacher_forced(uint64_t seed, const std::vector<DialogueRound>& rounds) {
        const size_t last = rounds.size() - 1;
        RONDO_ASSIGN(const PromptedQuestion full, make_question(runner_.model, rounds, last, {}, true));
        RONDO_ASSIGN(const PromptedQuestion alone, make_question(runner_.model, rounds, last, {}, false));
        Attempt dense;
        RONDO_ASSIGN(dense, force(runner_.model, *runner_.device, kv_type(), Contestant{}, 8, full));
        return for_each([&](const Contestant& contestant, int share) -> Status {
            const PromptedQuestion& question = contestant.no_history ? alone : full;
            RONDO_ASSIGN(const Attempt attempt, force(runner_.model, *runner_.device, kv_type(), contestant,
                                                      budget_of(full, share), question));
            EvalRecord record = record_of(seed, rounds, contestant, share);
            record.exact = attempt.argmax == question.answer;
            compare(dense, attempt, record);
            std::vector<double> masses = attempt.masses;
            std::ranges::sort(masses);
            if (!masses.empty()) {
                double sum = 0.0;
                for (const double mass : masses) sum += mass;
                record.mass_mean = sum / static_cast<double>(masses.size());
                record.mass_p5 = quantile(masses, 0.05);
            }
            record.density = attempt.density;
            record.prompt_density = attempt.prompt_density;
            record.bytes_resident = attempt.bytes_resident;
            records_.push_back(std::move(record));
            return Status::ok();
        });
    }

    Status free_running(uint64_t seed, const std::vector<DialogueRound>& rounds) {
        constexpr int64_t answer_tokens_max = 96;
        return for_each([&](const Contestant& contestant, int share) -> Status {
            std::vector<std::string> answers;
            for (size_t t = 0; t < rounds.size(); ++t) {
                RONDO_ASSIGN(const PromptedQuestion question,
                             make_question(runner_.model, rounds, t, answers, !contestant.no_history));
                RONDO_ASSIGN(std::vector<int32_t> ids,
                             answer_freely(runner_.model, *runner_.device, kv_type(), contestant,
                                           budget_of(question, share), question, answer_tokens_max));
                if (!ids.empty() && runner_.model.ends_answer(ids.back())) ids.pop_back();
                answers.push_back(runner_.model.tokenizer->decode(ids));
            }
            EvalRecord record = record_of(seed, rounds, contestant, share);
            record.history = History::free_running;
            record.exact = answers.back() == rounds.back().answer;
            records_.push_back(std::move(record));
            return Status::ok();
        });
    }

    const Options& options_;
    const Runner& runner_;
    std::vector<Contestant> contestants_;
    std::vector<int> budgets_;
    std::vector<EvalRecord> records_;
};

/// How to attend stands in --methods and --set: in the file it would have no effect.
Status check_file(const ModelOptions& options) {
    ModelOptions file;
    file.config_file = options.config_file;
    RONDO_ASSIGN(const Settings settings, file.settings());
    const PipelineSettings& pipeline = settings.pipeline;
    if (pipeline.prefill.attention == PrefillAttention{} && pipeline.decode.attention == DecodeAttention{})
        return Status::ok();
    return make_error(ErrorCode::invalid_argument,
                      options.config_file + " says how to attend; --methods NAME:KEY=VALUE would be right, or --set");
}

Status run_eval(const Options& options) {
    RONDO_TRY(check_file(options.model));
    std::vector<std::string> base = small_scale;
    base.insert(base.end(), options.model.overrides.begin(), options.model.overrides.end());
    RONDO_ASSIGN(std::vector<Contestant> contestants, parse_contestants(options.methods, base));
    if (std::ranges::none_of(contestants, &Contestant::is_dense))
        contestants.insert(contestants.begin(),
                           Contestant{.label = std::string(dense_name), .prefill = {}, .decode = {}});
    RONDO_ASSIGN(std::vector<int> budgets, parse_budgets(options.budgets));
    RONDO_ASSIGN(const std::vector<Place> places, parse_places(options.places));
    RONDO_ASSIGN(const Task task, parse_task(options.task));
    RONDO_ASSIGN(const auto runner, Runner::open_model(options.model));
    if (runner->model.tokenizer == nullptr)
        return make_error(ErrorCode::unsupported, runner->model.name + " has no tokenizer, which dialogues need");
    Run run(options, *runner, std::move(contestants), std::move(budgets));
    Progress progress("eval");
    const size_t total = static_cast<size_t>(options.dialogues) * places.size();
    for (size_t i = 0; i < total; ++i) {
        RONDO_TRY(run.dialogue(options.seed + i / places.size(), task, places[i % places.size()]));
        progress.show(static_cast<double>(i + 1) / static_cast<double>(total));
    }
    progress.finish();
    EvalFacts facts;
    facts.suite = options.suite;
    facts.model = runner->model.name;
    facts.flags = "rondo eval --suite " + options.suite + " --methods " + options.methods + " --budgets " +
                  options.budgets + " --task " + options.task + " --places " + options.places + " --history " +
                  options.history + " --dialogues " + std::to_string(options.dialogues) + " --rounds " +
                  std::to_string(options.rounds) + " --seed " + std::to_string(options.seed);
    facts.settings["base"] = base;
    const auto tables = tabulate(run.records());
    if (options.json) {
        std::printf("%s\n", to_json(facts, run.records(), tables).dump().c_str());
    } else {
        std::printf("%s", to_markdown(facts, run.records(), tables).c_str());
    }
    return Status::ok();
}

}  // namespace

void add_eval(CLI::App& app, Action& run) {
    auto options = std::make_shared<Options>();
    CLI::App* const command = app.add_subcommand("eval", "how well methods answer, beside dense attention");
    options->model.add_place(*command);
    command->add_option("--suite", options->suite, "dialogues to answer")->check(CLI::IsMember({"roundtalk"}));
    command->add_option("--methods", options->methods,
                        "names, or NAME:KEY=VALUE:… with keys of pipeline.*.attention; also oracle, no_history");
    command->add_option("--budgets", options->budgets, "keys attended to, in percent of the prompt: 10,20,40");
    command->add_option("--task", options->task, "what the last message asks: recall, local, list, again, unknown");
    command->add_option("--places", options->places, "where it asks: begin,middle,end");
    command->add_option("--history", options->history, "whose answers stand in the history")
        ->check(CLI::IsMember({"teacher_forced", "free_running", "both"}));
    command->add_option("--dialogues", options->dialogues, "for each place")->check(CLI::Range(1, 100'000));
    command->add_option("--rounds", options->rounds, "of a dialogue")
        ->check(CLI::Range(1, DialogueOptions::rounds_max));
    command->add_option("--seed", options->seed, "of the first dialogue");
    command->add_flag("--json", options->json);
    command->callback([options, &run] { run = [options] { return run_eval(*options); }; });
}

}  // namespace rondo::cli

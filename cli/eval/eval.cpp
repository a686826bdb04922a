#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "cli/commands.hpp"
#include "cli/eval/eval_options.hpp"
#include "cli/eval/report.hpp"
#include "cli/eval/roundtalk_prompt.hpp"
#include "cli/progress.hpp"
#include "cli/quantile.hpp"

namespace rondo::cli {

namespace {

using namespace eval;

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

struct Dialogue {
    uint64_t seed = 0;
    std::optional<Task> asked;
    std::vector<DialogueRound> rounds;
};

/// One evaluation: every method on every dialogue.
class Run {
public:
    Run(const EvalOptions& options, const EvalPlan& plan, const Runner& runner)
        : options_(options),
          plan_(plan),
          machine_{runner.model, *runner.device, kv_dtype(runner.settings.memory.kv_dtype),
                   runner.settings.pipeline.prefill.chunk_tokens} {}

    /// `on_progress` hears what share is done.
    Status all(const std::function<void(double)>& on_progress) {
        const size_t each_seed = plan_.tasks.size() * plan_.places.size();
        const size_t total = static_cast<size_t>(options_.dialogues) * each_seed;
        for (size_t i = 0; i < total; ++i) {
            const size_t variant = i % each_seed;
            RONDO_TRY(dialogue(options_.seed + i / each_seed, plan_.tasks[variant / plan_.places.size()],
                               plan_.places[variant % plan_.places.size()]));
            on_progress(static_cast<double>(i + 1) / static_cast<double>(total));
        }
        return Status::ok();
    }
    const std::vector<EvalRecord>& records() const { return records_; }

private:
    Status dialogue(uint64_t seed, std::optional<Task> asked, Place place) {
        DialogueOptions how;
        how.rounds = options_.rounds;
        if (asked) how.tasks = {*asked};
        how.place = place;
        Dialogue made{seed, asked, {}};
        RONDO_ASSIGN(made.rounds, make_dialogue(seed, how));
        if (options_.history != "free_running") RONDO_TRY(teacher_forced(made));
        if (options_.history != "teacher_forced") RONDO_TRY(free_running(made));
        return Status::ok();
    }

    static EvalRecord record_of(const Dialogue& dialogue, const Contestant& contestant, int share) {
        const DialogueRound& last = dialogue.rounds.back();
        EvalRecord record;
        record.method = contestant.label;
        if (contestant.has_budget()) record.budget = std::to_string(share) + "%";
        record.dialogue = dialogue.seed;
        record.round = dialogue.rounds.size() - 1;
        record.asked = dialogue.asked;
        record.task = last.task;
        record.place = last.place;
        record.lag = lag_of(last, record.round);
        return record;
    }

    static int budget_of(const PromptedQuestion& question, int share) {
        return std::max(8, static_cast<int>(std::lround(static_cast<double>(question.prompt.size()) * share / 100.0)));
    }

    /// A contestant without a budget runs once, not for each.
    template <class F>
    Status for_each(F function) {
        for (const Contestant& contestant : plan_.contestants) {
            for (const int share : contestant.has_budget() ? plan_.budgets : std::vector<int>{100})
                RONDO_TRY(function(contestant, share));
        }
        return Status::ok();
    }

    Status teacher_forced(const Dialogue& dialogue) {
        const size_t last = dialogue.rounds.size() - 1;
        RONDO_ASSIGN(const PromptedQuestion full, make_question(machine_.model, dialogue.rounds, last, {}, true));
        RONDO_ASSIGN(const PromptedQuestion alone, make_question(machine_.model, dialogue.rounds, last, {}, false));
        Attempt dense;
        RONDO_ASSIGN(dense, force(machine_, Contestant{}, 8, full));
        return for_each([&](const Contestant& contestant, int share) -> Status {
            const PromptedQuestion& question = contestant.no_history ? alone : full;
            RONDO_ASSIGN(const Attempt attempt, force(machine_, contestant, budget_of(full, share), question));
            EvalRecord record = record_of(dialogue, contestant, share);
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
            record.line_overlap = attempt.line_overlap;
            record.prompt_mass = attempt.prompt_mass;
            record.unsampled_mass = attempt.unsampled_mass;
            record.evidence_mass = attempt.evidence_mass;
            record.bytes_resident = attempt.bytes_resident;
            records_.push_back(std::move(record));
            return Status::ok();
        });
    }

    Status free_running(const Dialogue& dialogue) {
        constexpr int64_t answer_tokens_max = 96;
        return for_each([&](const Contestant& contestant, int share) -> Status {
            std::vector<std::string> answers;
            for (size_t t = 0; t < dialogue.rounds.size(); ++t) {
                RONDO_ASSIGN(const PromptedQuestion question,
                             make_question(machine_.model, dialogue.rounds, t, answers, !contestant.no_history));
                RONDO_ASSIGN(std::vector<int32_t> ids, answer_freely(machine_, contestant, budget_of(question, share),
                                                                     question, answer_tokens_max));
                if (!ids.empty() && machine_.model.ends_answer(ids.back())) ids.pop_back();
                answers.push_back(machine_.model.tokenizer->decode(ids));
            }
            EvalRecord record = record_of(dialogue, contestant, share);
            record.history = History::free_running;
            record.exact = answers.back() == dialogue.rounds.back().answer;
            records_.push_back(std::move(record));
            return Status::ok();
        });
    }

    const EvalOptions& options_;
    const EvalPlan& plan_;
    Machine machine_;
    std::vector<EvalRecord> records_;
};

Status run_eval(const EvalOptions& options) {
    RONDO_ASSIGN(const EvalPlan plan, plan_of(options));
    RONDO_ASSIGN(const auto runner, Runner::open_model(plan.model));
    if (runner->model.tokenizer == nullptr)
        return make_error(ErrorCode::unsupported, runner->model.name + " has no tokenizer, which dialogues need");
    Run run(options, plan, *runner);
    Progress progress("eval");
    RONDO_TRY(run.all([&](double share) { progress.show(share); }));
    progress.finish();
    EvalFacts facts;
    facts.suite = options.suite;
    facts.model = runner->model.name;
    facts.flags = options.command();
    facts.settings["base"] = plan.base;
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
    auto options = std::make_shared<EvalOptions>();
    CLI::App* const command = app.add_subcommand("eval", "how well methods answer, beside dense attention");
    options->model.add_place(*command);
    command->add_option("--suite", options->suite, "dialogues to answer")->check(CLI::IsMember({"roundtalk"}));
    command->add_option("--methods", options->methods,
                        "names, or NAME:KEY=VALUE:… with keys of pipeline.*.attention; also oracle, no_history");
    command->add_option("--budgets", options->budgets, "keys attended to, in percent of the prompt: 10,20,40");
    command->add_option("--task", options->tasks,
                        "what the messages ask: recall,local,list,again,unknown; or mix, as the model was trained on");
    command->add_option("--places", options->places, "where it asks: begin,middle,end");
    command->add_option("--history", options->history, "whose answers stand in the history")
        ->check(CLI::IsMember({"teacher_forced", "free_running", "both"}));
    command->add_option("--dialogues", options->dialogues, "for each task and place")->check(CLI::Range(1, 100'000));
    command->add_option("--rounds", options->rounds, "of a dialogue")
        ->check(CLI::Range(1, DialogueOptions::rounds_max));
    command->add_option("--seed", options->seed, "of the first dialogue");
    command->add_flag("--json", options->json);
    command->callback([options, &run] { run = [options] { return run_eval(*options); }; });
}

}  // namespace rondo::cli

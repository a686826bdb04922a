#include "cli/measure/eval/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/measure/eval/roundtalk_prompt.hpp"
#include "cli/measure/quantile.hpp"

namespace rondo::cli::eval {

namespace {

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

double mean_of(std::span<const double> values) {
    double sum = 0.0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
}

/// What an attempt has beside its answer.
void note(const Attempt& attempt, EvalRecord& record) {
    if (!attempt.masses.empty()) {
        const auto chosen = std::span(attempt.masses).subspan(attempt.cold_masses);
        record.mass_mean = mean_of(attempt.masses);
        if (!chosen.empty()) record.mass_chosen = mean_of(chosen);
        std::vector<double> masses = attempt.masses;
        std::ranges::sort(masses);
        record.mass_p5 = quantile(masses, 0.05);
    }
    record.density = attempt.density;
    record.prompt_density = attempt.prompt_density;
    record.line_overlap = attempt.line_overlap;
    record.prompt_mass = attempt.prompt_mass;
    record.unsampled_mass = attempt.unsampled_mass;
    record.evidence_mass = attempt.evidence_mass;
    record.bytes_resident = attempt.bytes_resident;
    record.bytes_read = attempt.bytes_read;
    record.round_mass = attempt.round_mass;
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

    Status all(const std::function<void(double)>& on_progress) {
        const size_t each_seed = plan_.tasks.size() * plan_.places.size();
        const size_t total = static_cast<size_t>(options_.dialogues) * each_seed;
        for (size_t i = 0; i < total; ++i) {
            const size_t variant = i % each_seed;
            measures_ = i / each_seed < static_cast<size_t>(options_.measured);
            RONDO_TRY(dialogue(options_.first_seed() + i / each_seed, plan_.tasks[variant / plan_.places.size()],
                               plan_.places[variant % plan_.places.size()]));
            on_progress(static_cast<double>(i + 1) / static_cast<double>(total));
        }
        return Status::ok();
    }
    std::vector<EvalRecord> take_records() { return std::move(records_); }

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
        if (contestant.has_budget() && contestant.scaled) record.budget = std::to_string(share) + "%";
        record.dialogue = dialogue.seed;
        record.round = dialogue.rounds.size() - 1;
        record.asked = dialogue.asked;
        record.task = last.task;
        record.place = last.place;
        record.lag = lag_of(last, record.round);
        return record;
    }

    static int keys_in(const PromptedQuestion& question, int share) {
        return static_cast<int>(std::lround(static_cast<double>(question.prompt.size()) * share / 100.0));
    }

    static int budget_of(const Contestant& contestant, const PromptedQuestion& question, int share) {
        if (!contestant.scaled) return contestant.decode.budget_tokens;
        return std::max(least_keys(contestant), keys_in(question, share));
    }

    /// A row must not say 1% where the method takes more.
    static Status check_budget(const Contestant& contestant, const PromptedQuestion& question, int share) {
        if (!contestant.scaled || !contestant.has_budget() || keys_in(question, share) >= least_keys(contestant))
            return Status::ok();
        return too_few(contestant, share, keys_in(question, share), question);
    }

    static Error too_few(const Contestant& contestant, int share, int keys, const PromptedQuestion& question) {
        return make_error(ErrorCode::invalid_argument,
                          contestant.label + " at " + std::to_string(share) + "%: " + std::to_string(keys) +
                              " keys of a prompt of " + std::to_string(question.prompt.size()) + ", must be at least " +
                              std::to_string(least_keys(contestant)) + ": more percent, or longer dialogues");
    }

    template <class F>
    Status for_each(F function) {
        for (const Contestant& contestant : plan_.contestants)
            for (const int share : shares_of(contestant, plan_.budgets)) RONDO_TRY(function(contestant, share));
        return Status::ok();
    }

    Status teacher_forced(const Dialogue& dialogue) {
        const size_t last = dialogue.rounds.size() - 1;
        RONDO_ASSIGN(const PromptedQuestion full, make_question(machine_.model, dialogue.rounds, last, {}, true));
        RONDO_ASSIGN(const PromptedQuestion alone, make_question(machine_.model, dialogue.rounds, last, {}, false));
        RONDO_ASSIGN(DensePrompt prompt, DensePrompt::create(machine_, full));
        RONDO_ASSIGN(const Attempt dense, prompt.answer(Contestant{}, 8));
        return for_each([&](const Contestant& contestant, int share) -> Status {
            RONDO_TRY(check_budget(contestant, full, share));
            const PromptedQuestion& question = contestant.no_history ? alone : full;
            int budget = budget_of(contestant, full, share);
            if (contestant.matches_bytes)
                budget = std::max(least_keys(contestant), keys_for(machine_, rival_bytes_.at(share)));
            const bool shares_prompt = contestant.prefill.method == PrefillAttention::Method::dense &&
                                       !contestant.no_history && !contestant.chooses_rounds();
            const auto run = [&] {
                return shares_prompt ? prompt.answer(contestant, budget)
                                     : force(machine_, contestant, budget, question);
            };
            RONDO_ASSIGN(Attempt attempt, run());
            if (contestant.matches_bytes) {  // what its own choices read is known only now
                budget -= keys_for(machine_, attempt.bytes_read - rival_bytes_.at(share));
                if (budget < least_keys(contestant)) return too_few(contestant, share, budget, full);
                RONDO_ASSIGN(attempt, run());
            }
            if (measures_) RONDO_TRY(measure_choices(machine_, contestant, budget, question, attempt));
            if (contestant.label == options_.against) rival_bytes_[share] = attempt.bytes_read;
            EvalRecord record = record_of(dialogue, contestant, share);
            record.exact = is_answered(machine_.model, question, attempt.argmax);
            compare(dense, attempt, record);
            note(attempt, record);
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
                if (t + 1 == dialogue.rounds.size()) RONDO_TRY(check_budget(contestant, question, share));
                RONDO_ASSIGN(std::vector<int32_t> ids,
                             answer_freely(machine_, contestant, budget_of(contestant, question, share), question,
                                           answer_tokens_max));
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
    bool measures_ = true;               // this dialogue
    std::map<int, double> rival_bytes_;  // of this dialogue, by share
    std::vector<EvalRecord> records_;
};

}  // namespace

Result<std::vector<EvalRecord>> evaluate(const EvalOptions& options, const EvalPlan& plan, const Runner& runner,
                                         const std::function<void(double)>& on_progress) {
    Run run(options, plan, runner);
    RONDO_TRY(run.all(on_progress));
    return run.take_records();
}

}  // namespace rondo::cli::eval

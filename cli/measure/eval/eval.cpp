#include <algorithm>
#include <cstdio>

#include "actors/gateway/bodies/json_text.hpp"
#include "cli/commands.hpp"
#include "cli/measure/eval/evaluation.hpp"
#include "cli/measure/eval/methods_page.hpp"
#include "cli/progress.hpp"

namespace rondo::cli {

namespace {

using namespace eval;

Result<std::unique_ptr<Runner>> open_speaking(const ModelOptions& options) {
    RONDO_ASSIGN(auto runner, Runner::open_model(options));
    if (runner->model.tokenizer != nullptr) return runner;
    return make_error(ErrorCode::unsupported, runner->model.name + " has no tokenizer, which dialogues need");
}

Status run_eval(const EvalOptions& options) {
    RONDO_ASSIGN(const EvalPlan plan, plan_of(options));
    RONDO_ASSIGN(const auto runner, open_speaking(plan.model));
    Progress progress("eval");
    RONDO_ASSIGN(const auto records, evaluate(options, plan, *runner, [&](double share) { progress.show(share); }));
    progress.finish();
    EvalFacts facts;
    facts.suite = options.suite;
    facts.model = runner->model.name;
    facts.flags = options.command();
    facts.settings["base"] = plan.base;
    const auto tables = tabulate(records, options.against);
    if (options.json) {
        std::printf("%s\n", json_text(to_json(facts, records, tables)).c_str());
    } else {
        std::printf("%s", to_markdown(facts, records, tables).c_str());
    }
    return Status::ok();
}

/// The page's sections one after the other, on the same dialogues.
Status run_report(const EvalOptions& options) {
    const auto& sections = page_sections();
    std::vector<EvalPlan> plans;
    std::vector<EvalOptions> each;
    for (const PageSection& section : sections) {
        EvalOptions own = options;
        own.methods = section.methods;
        own.budgets = section.budgets;
        own.against = section.against;
        if (section.dialogues_max > 0) own.dialogues = std::min(own.dialogues, section.dialogues_max);
        RONDO_ASSIGN(EvalPlan plan, plan_of(own));
        plans.push_back(std::move(plan));
        each.push_back(std::move(own));
    }
    RONDO_ASSIGN(const auto runner, open_speaking(plans[0].model));
    EvalFacts facts;
    facts.suite = options.suite;
    facts.model = runner->model.name;
    facts.flags = options.command();
    facts.preamble = "Seeds of " + options.seeds +
                     "; settings were chosen by seeds of development alone. Settings of all "
                     "methods, scaled to answers of some ten tokens:";
    for (const std::string& setting : plans[0].base) facts.preamble += " `" + setting + "`";
    facts.preamble += ".";
    Progress progress("eval");
    std::vector<PageAnswers> answers;
    for (size_t i = 0; i < sections.size(); ++i) {
        const double before = static_cast<double>(i), all = static_cast<double>(sections.size());
        PageAnswers made;
        RONDO_ASSIGN(made.records, evaluate(each[i], plans[i], *runner,
                                            [&](double share) { progress.show((before + share) / all); }));
        made.tables = tabulate(made.records, sections[i].against);
        answers.push_back(std::move(made));
    }
    progress.finish();
    std::printf("%s", methods_page(facts, answers).c_str());
    return Status::ok();
}

}  // namespace

void add_eval(CLI::App& app, Action& run) {
    auto options = std::make_shared<EvalOptions>();
    CLI::App* const command = app.add_subcommand("eval", "how well methods answer, beside dense attention");
    options->model.add_place(*command);
    command->add_option("--suite", options->suite, "dialogues to answer")->check(CLI::IsMember({"roundtalk"}));
    CLI::Option* const methods =
        command->add_option("--methods", options->methods,
                            "names, or NAME:KEY=VALUE:… with keys of pipeline.*.attention; also oracle, no_history");
    CLI::Option* const budgets =
        command->add_option("--budgets", options->budgets, "keys attended to, in percent of the prompt: 10,20,40");
    CLI::Option* const against =
        command->add_option("--against", options->against, "one of --methods, which the others are compared with too");
    CLI::Option* const task = command->add_option(
        "--task", options->tasks,
        "what the messages ask: recall,local,list,again,unknown; or mix, as the model was trained on");
    command->add_option("--places", options->places, "where it asks: begin,middle,end");
    CLI::Option* const history =
        command->add_option("--history", options->history, "whose answers stand in the history")
            ->check(CLI::IsMember({"teacher_forced", "free_running", "both"}));
    command->add_option("--dialogues", options->dialogues, "for each task and place")->check(CLI::Range(1, 100'000));
    command->add_option("--rounds", options->rounds, "of a dialogue")
        ->check(CLI::Range(1, DialogueOptions::rounds_max));
    command->add_option("--measured", options->measured, "of them, in how many to find out what choices hold")
        ->check(CLI::Range(0, 100'000));
    command
        ->add_option("--seeds", options->seeds,
                     "what the dialogues are for: settings are chosen by those of development")
        ->check(CLI::IsMember({"development", "report"}));
    command->add_option("--seed", options->seed, "of the first dialogue");
    CLI::Option* const json = command->add_flag("--json", options->json);
    command->add_flag("--report", options->report, "the page about all methods (docs/methods.md)")
        ->excludes(json, methods, budgets, against, task, history);
    command->callback(
        [options, &run] { run = [options] { return options->report ? run_report(*options) : run_eval(*options); }; });
}

}  // namespace rondo::cli

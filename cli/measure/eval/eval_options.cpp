#include "cli/measure/eval/eval_options.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "cli/measure/eval/eval_tables.hpp"
#include "cli/measure/eval/option_list.hpp"

namespace rondo::cli::eval {

namespace {

/// What the methods' settings are scaled to: answers of a few tokens, contexts of a few hundred.
const std::vector<std::string> small_scale = {
    "pipeline.prefill.attention.min_tokens=0", "pipeline.decode.attention.cold_tokens=2",
    "pipeline.decode.attention.reselect_every=4", "pipeline.decode.attention.observe=4",
    "pipeline.decode.attention.lag_steps=0"};

Result<std::vector<int>> parse_budgets(const std::string& list) {
    RONDO_ASSIGN(const std::vector<int32_t> budgets, parse_numbers(list, "--budgets"));
    if (budgets.empty())
        return make_error(ErrorCode::invalid_argument, "--budgets is empty, must be percents from 1 to 100");
    if (std::set<int32_t>(budgets.begin(), budgets.end()).size() < budgets.size())
        return make_error(ErrorCode::invalid_argument, "--budgets " + list + ": each must be there only once");
    for (const int32_t share : budgets) {
        if (share < 1 || share > 100)
            return make_error(ErrorCode::invalid_argument, "--budgets " + list + ": must be percents from 1 to 100");
    }
    return std::vector<int>(budgets.begin(), budgets.end());
}

/// How to attend stands in --methods and --set: in the file it would have no effect.
Status check_file(const std::string& name) {
    ModelOptions file;
    file.config_file = name;
    RONDO_ASSIGN(const Settings settings, file.settings());
    const PipelineSettings& pipeline = settings.pipeline;
    if (pipeline.prefill.attention == PrefillAttention{} && pipeline.decode.attention == DecodeAttention{})
        return Status::ok();
    return make_error(ErrorCode::invalid_argument,
                      name + " says how to attend; that must be said by --methods NAME:KEY=VALUE or --set");
}

/// The option that must be used in place of this key; empty for most keys.
std::string_view said_by(const std::string& path) {
    if (path == "pipeline.decode.attention.budget_tokens") return "--budgets, in percent of the prompt";
    if (path == "preset" || path == "pipeline.prefill.attention.method" || path == "pipeline.decode.attention.method" ||
        path == "pipeline.rounds.method")
        return "--methods";
    return {};
}

/// Where and how the model runs, as far as an evaluation heeds it.
bool is_of_place(const std::string& path) {
    constexpr std::array<std::string_view, 4> keys = {"pipeline.prefill.on", "pipeline.decode.on",
                                                      "pipeline.prefill.chunk_tokens", "memory.kv_dtype"};
    return path.starts_with("model") || path.starts_with("devices") || std::ranges::find(keys, path) != keys.end();
}

/// Puts each override where it has an effect.
Status sort_overrides(const std::vector<std::string>& overrides, EvalPlan& plan) {
    for (const std::string& text : overrides) {
        const std::string path = text.substr(0, text.find('='));
        const auto wrong = [&](const std::string& what) {
            return make_error(ErrorCode::invalid_argument, "--set " + path + ": has no effect here; " + what);
        };
        if (const std::string_view option = said_by(path); !option.empty())
            return wrong("that must be said by " + std::string(option));
        if (path.starts_with(prompt_keys) || path.starts_with(answer_keys) || path.starts_with(round_keys)) {
            plan.base.push_back(text);
        } else if (is_of_place(path)) {
            plan.model.overrides.push_back(text);
        } else {
            RONDO_TRY(settings_from_yaml("", "settings", {&text, 1}));  // which says more of a misspelt key
            return wrong(
                "the key must be pipeline.*.attention.KEY, pipeline.rounds.KEY, pipeline.prefill.chunk_tokens, "
                "memory.kv_dtype, model or devices");
        }
    }
    return Status::ok();
}

/// As one word of a shell's line.
std::string shell_word(const std::string& text) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:=/+@%";
    if (text.find_first_not_of(plain) == std::string::npos) return text;
    std::string word = "'";
    for (const char byte : text) {
        if (byte == '\'') word += "'\\'";
        word += byte;
    }
    return word + "'";
}

}  // namespace

Result<EvalPlan> plan_of(const EvalOptions& options) {
    RONDO_TRY(check_file(options.model.config_file));
    RONDO_TRY(check_seeds(options.seed_use(), options.first_seed(), static_cast<uint64_t>(options.dialogues)));
    EvalPlan plan;
    plan.model = options.model;
    plan.model.overrides.clear();
    plan.base = small_scale;
    RONDO_TRY(sort_overrides(options.model.overrides, plan));
    RONDO_ASSIGN(plan.contestants, parse_contestants(options.methods, plan.base));
    if (std::ranges::find(plan.contestants, dense_name, &Contestant::label) == plan.contestants.end())
        plan.contestants.insert(plan.contestants.begin(),
                                Contestant{.label = std::string(dense_name), .prefill = {}, .decode = {}});
    const auto rival = std::ranges::find(plan.contestants, options.against, &Contestant::label);
    if (!options.against.empty() && rival == plan.contestants.end())
        return make_error(ErrorCode::invalid_argument, "--against " + options.against + ": must be one of --methods");
    RONDO_ASSIGN(plan.budgets, parse_budgets(options.budgets));
    for (auto each = plan.contestants.begin(); each != plan.contestants.end(); ++each) {
        if (!each->matches_bytes) continue;
        const auto wrong = [&](const char* where) {
            return make_error(ErrorCode::invalid_argument, "--methods " + each->label + ": match=bytes must " + where);
        };
        if (rival >= each) return wrong("stand behind the method that --against names");
        if (!rival->has_budget() || rival->matches_bytes) return wrong("have a rival with a budget of its own");
        if (options.history != "teacher_forced") return wrong("run with --history teacher_forced");
        const std::vector<int> shares = shares_of(*rival, plan.budgets);
        const auto has_run = [&](int share) { return rival->scaled && std::ranges::count(shares, share) > 0; };
        if (!std::ranges::all_of(shares_of(*each, plan.budgets), has_run))
            return wrong("run at budgets in percent at which its rival runs too");
    }
    RONDO_ASSIGN(plan.tasks, parse_list("--task", options.tasks, &parse_asked));
    RONDO_ASSIGN(plan.places, parse_list("--places", options.places, &parse_place));
    return plan;
}

SeedUse EvalOptions::seed_use() const {
    return seeds == seed_use_names[0] ? SeedUse::development : SeedUse::report;
}

std::string EvalOptions::command() const {
    std::string text = "rondo eval";
    const auto add = [&](const char* flag, const std::string& value) {
        if (!value.empty()) text += std::string(" ") + flag + " " + shell_word(value);
    };
    add("--suite", suite);
    if (report) {
        text += " --report";
    } else {
        add("--methods", methods);
        add("--budgets", budgets);
        add("--against", against);
        add("--task", tasks);
    }
    add("--places", places);
    if (!report) add("--history", history);
    add("--dialogues", std::to_string(dialogues));
    add("--rounds", std::to_string(rounds));
    add("--seeds", seeds);
    add("--seed", std::to_string(first_seed()));
    if (measured < dialogues) add("--measured", std::to_string(measured));
    add("--config", model.config_file);
    add("--model", model.model);
    add("--weights", model.weights);
    add("--device", model.device);
    if (model.threads > 0) add("--threads", std::to_string(model.threads));
    add("--kv", model.kv);
    for (const std::string& each : model.overrides) add("--set", each);
    return text;
}

}  // namespace rondo::cli::eval

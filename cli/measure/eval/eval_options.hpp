#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/measure/eval/contestant.hpp"
#include "cli/measure/eval/roundtalk.hpp"
#include "cli/measure/eval/seed_use.hpp"
#include "cli/model_options.hpp"

namespace rondo::cli::eval {

/// What the command line says.
struct EvalOptions {
    ModelOptions model;
    std::string suite = "roundtalk", methods = "dense,loopserve,snapkv", budgets = "20", tasks = "recall";
    std::string against;  // the rival; none: dense alone
    std::string places = "begin,middle,end", history = "teacher_forced";
    int dialogues = 30, rounds = 10;
    int measured = 100'000;             // dialogues of each task and place
    std::string seeds = "development";  // seed_use.hpp
    std::optional<uint64_t> seed;       // of the first; none: the first there is
    bool json = false, report = false;

    SeedUse seed_use() const;
    uint64_t first_seed() const { return seed.value_or(seeds_of(seed_use()).first); }
    /// The command that gives the same answers again, for a shell.
    std::string command() const;
};

/// What the options come to, checked: nothing in them is without effect.
struct EvalPlan {
    ModelOptions model;             ///< without what --set says of methods
    std::vector<std::string> base;  ///< settings of every method
    std::vector<Contestant> contestants;
    std::vector<int> budgets;  ///< percents
    std::vector<std::optional<Task>> tasks;
    std::vector<Place> places;
};

Result<EvalPlan> plan_of(const EvalOptions& options);

}  // namespace rondo::cli::eval

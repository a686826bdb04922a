#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/measure/eval/eval_tables.hpp"

namespace rondo::cli::eval {

/// What a run was, beside its answers.
struct EvalFacts {
    std::string suite, model;
    std::string flags;                                                   ///< with which the run can be repeated
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();  ///< of the methods and the dialogues
    std::string preamble = {};                                           ///< what else a reader should know of the run
};

/// The figures for people, as Markdown. `tables` are tabulate's of the same records.
std::string to_markdown(const EvalFacts& facts, std::span<const EvalRecord> records,
                        const std::vector<EvalTable>& tables);
/// All figures for programs, down to each answer.
nlohmann::ordered_json to_json(const EvalFacts& facts, std::span<const EvalRecord> records,
                               const std::vector<EvalTable>& tables);

}  // namespace rondo::cli::eval

#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/measure/multi_turn/statistics.hpp"

namespace rondo::cli::multi_turn {

/// What a run was, beside its figures.
struct RunFacts {
    std::string workload, url, model;
    std::string mode;  ///< who keeps the history
    uint64_t seed = 0;
    double tokens_per_word = 1.0;
    std::string flags;  ///< with which the run can be repeated
    Goals goals;
};

nlohmann::ordered_json to_json(const RunFacts& facts, const Statistics& statistics);
std::string to_table(const RunFacts& facts, const Statistics& statistics);

}  // namespace rondo::cli::multi_turn

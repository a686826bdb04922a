#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/measure/multi_turn/workload.hpp"

namespace rondo::cli::multi_turn {

/// A workload as the command line names it: a known one, and what is to be different.
struct WorkloadOptions {
    std::string name = "vllm";
    std::optional<int64_t> conversations, shared_prefix, active, clients;
    std::string turns, own_prefix, user_tokens, answer_tokens;  ///< A:B, or A for A:A; "" leaves what is known
    std::optional<double> rate, gap_s;
    double scale = 1.0;

    void add_to(CLI::App& app);
    Result<Workload> resolve() const;
    /// All of it as options, those that were left alone included.
    std::string flags() const;

private:
    Result<Workload> unscaled() const;
};

}  // namespace rondo::cli::multi_turn

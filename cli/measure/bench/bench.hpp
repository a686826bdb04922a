#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "cli/measure/bench/bench_report.hpp"
#include "cli/model_options.hpp"

namespace rondo::cli {

struct BenchOptions {
    ModelOptions model;
    int64_t tokens = 512;
    int64_t depth = 0;
    int batch = 1;
    int repeat = 5;
    int64_t round_tokens = 256;  ///< of each round of the history, where rounds are chosen
    std::string lengths;         ///< "1024,4096": prompts or depths to measure in turn, where is_sweep
    bool is_sweep = false;
    std::string plot_file;
    bool json = false;
};

Status bench_prefill(const BenchOptions& options);
Status bench_decode(const BenchOptions& options);

inline double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What to measure, in ascending order: the list that was given, or only the one.
Result<std::vector<int64_t>> bench_lengths(const BenchOptions& options, const std::string& list_name, int64_t only);
/// Where the rounds of a history of so many tokens end, the last of them at its end.
std::vector<int64_t> round_ends(int64_t tokens, int64_t round_tokens);
/// Ids spread over the vocabulary: what they are does not matter for speed, that they differ does for the embedding.
std::vector<int32_t> some_ids(int64_t count, int64_t vocabulary);
/// An error where a logit is not finite: such a run has measured nothing real.
Status check_finite(std::span<const float> logits);
/// An error where the context that a server would give the model does not hold `tokens` tokens behind `depth`.
Status check_context(int64_t depth, int64_t tokens, const Model& model);
/// What the progress bar says while one of the lengths is measured.
std::string progress_title(const std::string& what, const std::vector<int64_t>& lengths, size_t index);

/// A report that has no points yet.
BenchReport begin_report(BenchReport::Kind kind, const BenchOptions& options, const Runner& runner);
/// Prints it, and draws it where that was asked for.
Status finish_report(const BenchReport& report, const BenchOptions& options);

}  // namespace rondo::cli

#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/model_options.hpp"
#include "cli/quantile.hpp"

namespace rondo::cli {

struct BenchOptions {
    ModelOptions model;
    int64_t tokens = 512;
    int64_t depth = 0;
    int batch = 1;
    int repeat = 5;
    bool json = false;
};

Status bench_prefill(const BenchOptions& options);
Status bench_decode(const BenchOptions& options);

inline double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Ids spread over the vocabulary: what they are does not matter for speed, that they differ does for the embedding.
std::vector<int32_t> some_ids(int64_t count, int64_t vocabulary);
/// A figure of a run that did not compute anything real is worth nothing.
Status check_finite(std::span<const float> logits);
/// The model's context holds `tokens` behind `depth`.
Status check_context(const BenchOptions& options, const Model& model);

/// Prints what every bench says of its runs (seconds of each, in any order), and `more`.
void report_bench(const BenchOptions& options, const std::string& kind, double tokens, std::vector<double> seconds,
                  const Runner& runner, const nlohmann::ordered_json& more);

}  // namespace rondo::cli

#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "sparse/kv_store.hpp"

/// The parts of bench_sparse, and what they share.
namespace rondo::bench {

/// What figures are measured with and set beside.
struct Setting {
    Device& device;
    int repeat;
    double read_gb_per_s;
    double gemm_gflop_per_s;
};

/// Takes one row of figures. The rows of a part have the same keys.
using AddRow = std::function<void(nlohmann::ordered_json row)>;
/// Prints a row of a table, with the keys above it where it is the first.
void print_row(const nlohmann::ordered_json& row, bool first);

/// Ends the program where an error is more than rounding makes, and says of what.
void expect_small(double relative_error, const std::string& of);

/// Seconds of each work, in the median of rounds in which they take turns.
std::vector<double> seconds_in_turn(int rounds, std::span<const std::function<void()>> works);

/// The last chunk of 16384 keys: attend_lines of 5, 10 and 20% density against attend.
void bench_prefill(const Setting& setting, const KvStore& store, const AddRow& add_row);
/// score_rows of 64 rows and score_keys of a few queries, by how many keys there are.
void bench_scoring(const Setting& setting, const KvStore& store, const AddRow& add_row);
/// One row: attend_selected of 1024 keys for each KV head, copied or where they lie, against attend.
void bench_decode(const Setting& setting, const KvStore& store, const AddRow& add_row);

}  // namespace rondo::bench

#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/measure/eval/eval_tables.hpp"

namespace rondo::cli::eval {

/// What is wrong with an evaluation itself, as far as its own figures tell, one sentence each:
/// - an answer counts twice;
/// - a method is right more often than dense (does it see the answer?);
/// - a method with a budget attends to everything;
/// - a method says that it attends to less, and yet gives dense's logits to the bit.
std::vector<std::string> find_faults(std::span<const EvalRecord> records, std::span<const EvalTable> tables);

}  // namespace rondo::cli::eval

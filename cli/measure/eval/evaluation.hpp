#pragma once

#include <functional>
#include <vector>

#include "cli/measure/eval/eval_options.hpp"
#include "cli/measure/eval/eval_record.hpp"

namespace rondo::cli::eval {

/// Every method of the plan answers every dialogue, in order of their seeds. `on_progress` hears what share is done.
Result<std::vector<EvalRecord>> evaluate(const EvalOptions& options, const EvalPlan& plan, const Runner& runner,
                                         const std::function<void(double)>& on_progress);

}  // namespace rondo::cli::eval

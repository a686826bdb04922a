#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo::cli::eval {

/// NAME@VARIANT: settings of a method that belong together.
///   printed  as its authors print it or, where their code differs, as it runs
///   pooled   its scores pooled over the keys that follow, as LoopServe's are here
///   preset   what a pipeline file has without any setting but the method: no scaling to a small model
struct Variant {
    std::vector<std::string> keys = {};  ///< KEY=VALUE
    bool scaled = true;                  ///< by the evaluation's own settings and by --budgets
};

/// `label` is what was written, for the error.
Result<Variant> find_variant(const std::string& method, const std::string& variant, const std::string& label);

}  // namespace rondo::cli::eval

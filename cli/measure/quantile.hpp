#pragma once

#include <span>

namespace rondo::cli {

/// Of values in ascending order: the one below which this share of them lies, in between where it falls between two;
/// 0 of none.
double quantile(std::span<const double> sorted, double share);

}  // namespace rondo::cli

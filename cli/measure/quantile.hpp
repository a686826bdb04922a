#pragma once

#include <span>

namespace rondo::cli {

/// The value below which this share of the values lies, interpolated where it falls between two of them; 0 of no
/// values. Values are in ascending order.
double quantile(std::span<const double> sorted, double share);

}  // namespace rondo::cli

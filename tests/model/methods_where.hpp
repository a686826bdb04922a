#pragma once

#include <span>
#include <vector>

#include "config/method_rows.hpp"

namespace rondo::testing {

/// The methods whose rows are as `wanted`, in their order; never the first, which chooses nothing.
template <class Method>
std::vector<Method> methods_where(std::span<const MethodRow> rows, bool (*wanted)(const MethodRow&)) {
    std::vector<Method> found;
    for (size_t i = 0; i < rows.size(); ++i)
        if (i > 0 && wanted(rows[i])) found.push_back(static_cast<Method>(i));
    return found;
}

inline bool any_method(const MethodRow&) {
    return true;
}

}  // namespace rondo::testing

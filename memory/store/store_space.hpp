#pragma once

#include <string>

#include "memory/prefix_cache.hpp"

namespace rondo {

/// Whose ids they are: tenants, and methods that are not exact, have ways of their own.
struct StoreSpace {
    std::string tenant;
    std::string space;  ///< by which the prefix cache parts them
    Exactness exactness = Exactness::exact;
};

}  // namespace rondo

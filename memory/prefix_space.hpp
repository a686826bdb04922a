#pragma once

#include <string>
#include <utility>

namespace rondo {

/// Whose keys they are, and how those are computed that are not known yet: as dense attention does, or by a method that
/// leaves keys out, in its own way. Behind what is exact may stand what a method computed; behind that nothing is
/// exact.
struct PrefixSpace {
    PrefixSpace() = default;
    PrefixSpace(std::string of, std::string by = {}) : tenant(std::move(of)), method(std::move(by)) {}
    PrefixSpace(const char* of) : tenant(of) {}

    bool is_exact() const { return method.empty(); }
    bool operator==(const PrefixSpace&) const = default;

    std::string tenant;
    std::string method;  ///< and whatever else of it makes a difference; "": exact
};

}  // namespace rondo

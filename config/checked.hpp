#pragma once

#include <cstdint>
#include <optional>

namespace rondo {

/// Arithmetic for sizes that come from outside: nothing when the result does not fit.
template <class T>
std::optional<T> checked_add(T a, T b) {
    T out;
    return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional<T>(out);
}

template <class T>
std::optional<T> checked_mul(T a, T b) {
    T out;
    return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional<T>(out);
}

template <class T>
constexpr T ceil_div(T a, T b) {
    return (a + b - 1) / b;
}

template <class T>
constexpr T round_up(T a, T b) {
    return ceil_div(a, b) * b;
}

}  // namespace rondo

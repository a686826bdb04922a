#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

/// How much was written in one day, for a disk that wears. Plain numbers.
class WrittenToday {
public:
    static constexpr int64_t seconds_a_day = 24 * 3600;

    WrittenToday() = default;
    /// As `value` tells it.
    explicit WrittenToday(std::string_view value);
    std::string value() const;

    /// Times are seconds since 1970.
    uint64_t bytes(int64_t now) const { return is_same_day(now) ? bytes_ : 0; }
    void add(uint64_t bytes, int64_t now);

private:
    bool is_same_day(int64_t now) const;

    int64_t day_ = 0;
    uint64_t bytes_ = 0;
};

}  // namespace rondo

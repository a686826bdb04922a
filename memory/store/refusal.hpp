#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rondo {

/// Why a store does not take a record.
enum class StoreRefusal : uint8_t {
    none,
    stored_already,
    too_large,
    no_room,
    quota,           ///< its tenant has as much as he may
    written_enough,  ///< today
    disk             ///< it says no
};
inline constexpr size_t store_refusals = 7;
inline constexpr std::array<std::string_view, store_refusals> names_of_refusals = {
    "none", "stored_already", "too_large", "no_room", "quota", "written_enough", "disk"};

}  // namespace rondo

#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "kernels/backend.hpp"

namespace rondo::cpu {

std::string_view name_of(Bf16Way way);

/// The ways this processor has, those that processors with them are usually fastest at first.
std::vector<Bf16Way> bf16_ways_here();

/// Seconds that a product of a prompt's size takes in one way, on this thread; the least of several.
double time_bf16_way(Bf16Way way);

/// The first of `ways` that none behind it beats by more than a fifth: what is that close may come out either way the
/// next time, and other products are other bits.
Bf16Way fastest_way(const std::vector<Bf16Way>& ways, const std::function<double(Bf16Way)>& seconds);

/// `wanted`, or where that is `measured` what was measured on this machine before, kept in `folder`, or what is
/// measured now and kept there. A folder that cannot be used only means measuring each time. Refuses a way that the
/// processor has not.
Result<Bf16Way> choose_bf16_way(Bf16Way wanted, const std::filesystem::path& folder);

/// $XDG_CACHE_HOME/rondo, ~/.cache/rondo, or nothing where neither is known.
std::filesystem::path cache_folder();

}  // namespace rondo::cpu

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

/// The ways that this processor has. A way that is usually the fastest where it exists stands first.
std::vector<Bf16Way> bf16_ways_here();

/// The first of `ways` than which no later one is more than 1.2 times as fast. A closer race may end differently the
/// next time, and another way makes other bits. `seconds` is asked of all ways in turn, many times, and the least
/// counts: a core's clock may rise meanwhile, or another process may take its time away.
Bf16Way fastest_way(const std::vector<Bf16Way>& ways, const std::function<double(Bf16Way)>& seconds);

/// What a choice is made among.
struct Bf16Race {
    std::vector<Bf16Way> ways = bf16_ways_here();
    std::function<double(Bf16Way)> seconds;  ///< measures in place of the clock, as for `fastest_way`
};

/// Gives `wanted`. Where that is `measured`: the way that `folder` keeps from an earlier measurement on this machine,
/// else one that is measured now and kept there. Of two processes that measure at the same time the first to keep its
/// choice decides for both. Without a usable folder every call measures, and the first of a process decides. Refuses a
/// way that is not in the race.
Result<Bf16Way> choose_bf16_way(Bf16Way wanted, const std::filesystem::path& folder, const Bf16Race& race = {});

/// $XDG_CACHE_HOME/rondo, ~/.cache/rondo, or nothing where neither is known.
std::filesystem::path cache_folder();

}  // namespace rondo::cpu

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/attention/policies/decode_selection/top_keys.hpp"

/// Quest: before each step, the pages of keys that may hold the greatest scores, by bounds on the keys of a page. Plain
/// functions and no DecodeSelection, because it chooses pages, by the queries of the very step that attends to them.
/// Nothing is given up, and the first `quest_dense_layers` layers attend to everything.
namespace rondo {

inline constexpr int64_t quest_page_keys = 16;
inline constexpr int quest_dense_layers = 2;
inline constexpr int64_t quest_pages_min = 3;

/// Bounds of no keys, for the first one to replace.
void clear_page_bounds(std::span<float> lowest, std::span<float> highest);

/// Takes `keys` [any number, head_size] into the bounds of their page, [head_size] each.
void extend_page_bounds(std::span<const float> keys, std::span<float> lowest, std::span<float> highest);

/// What a KV head's queries [heads of its group, head_size] make of bounds. The most that a channel can add to a score
/// is max(q·lowest, q·highest) = min(q, 0)·lowest + max(q, 0)·highest, which is linear in the bounds: so the mean over
/// the group's heads is one product with the means of these factors, `on_lowest` and `on_highest` [head_size].
void weigh_page_bounds(std::span<const float> queries, std::span<float> on_lowest, std::span<float> on_highest);

/// scores[p]: mean over the group's heads of the greatest score (q·k, unscaled) that a key within the bounds of page p,
/// [pages, head_size] each, can have. Every page holds a key.
void score_pages(std::span<const float> on_lowest, std::span<const float> on_highest, std::span<const float> lowest,
                 std::span<const float> highest, std::span<float> scores);

/// Overwrites `pages`, ascending: the last one, which holds the newest key, and the best of the others, max(3, budget /
/// quest_page_keys) in all; every page when there are no more. Of equal scores the earlier page. There is a page. Keep
/// `scratch` from step to step.
void choose_pages(std::span<const float> scores, int64_t budget_keys, RankScratch& scratch,
                  std::vector<int32_t>& pages);

}  // namespace rondo

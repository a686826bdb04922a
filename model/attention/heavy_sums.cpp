#include "model/attention/heavy_sums.hpp"

#include <algorithm>

#include "config/checked.hpp"
#include "kernels/kv_layout.hpp"

namespace rondo {

HeavySums::HeavySums(const ModelSpec& spec)
    : kv_heads_(spec.kv_heads),
      heads_(static_cast<size_t>(spec.layers * spec.kv_heads)),
      chosen_(heads_.size()),
      window_begin_(static_cast<size_t>(spec.layers), 0),
      places_(static_cast<size_t>(spec.kv_heads)) {}

std::span<const std::vector<int32_t>> HeavySums::chosen(int layer) const {
    return std::span(chosen_).subspan(static_cast<size_t>(layer * kv_heads_), static_cast<size_t>(kv_heads_));
}

int64_t HeavySums::first_needed() const {
    return *std::ranges::min_element(window_begin_);
}

void HeavySums::begin(int layer, const KeyScores& scores, std::span<const std::vector<int32_t>> chosen,
                      int64_t window_begin) {
    window_begin_[static_cast<size_t>(layer)] = window_begin;
    const int64_t window = scores.keys - window_begin;
    for (int h = 0; h < kv_heads_; ++h) {
        Head& head = head_of(layer, h);
        const auto weights =
            scores.weights.subspan(static_cast<size_t>(h * scores.keys), static_cast<size_t>(scores.keys));
        const std::vector<int32_t>& keys = chosen[static_cast<size_t>(h)];
        chosen_[static_cast<size_t>(layer * kv_heads_ + h)] = keys;
        head.sums.clear();
        for (const int32_t key : keys) head.sums.push_back(weights[static_cast<size_t>(key)]);
        head.window.resize(static_cast<size_t>(window));
        for (int64_t key = window_begin; key < scores.keys; ++key)
            head.window[static_cast<size_t>(key % window)] = weights[static_cast<size_t>(key)];
    }
}

/// The least, and of equal ones the youngest, as a choice among all keys would leave it out; −1 where none is less.
int32_t HeavySums::place_for(const Head& head, std::span<const int32_t> keys, float sum) {
    int32_t least = -1;
    for (int32_t i = 0; i < std::ssize(keys); ++i) {
        const auto at = static_cast<size_t>(i);
        if (!(head.sums[at] < sum)) continue;
        const auto best = static_cast<size_t>(least);
        if (least < 0 || head.sums[at] < head.sums[best] || (head.sums[at] == head.sums[best] && keys[at] > keys[best]))
            least = i;
    }
    return least;
}

std::span<const int32_t> HeavySums::leave_window(int layer) {
    const int64_t key = window_begin_[static_cast<size_t>(layer)]++;
    bool any = false;
    for (int h = 0; h < kv_heads_; ++h) {
        Head& head = head_of(layer, h);
        std::vector<int32_t>& keys = chosen_[static_cast<size_t>(layer * kv_heads_ + h)];
        float& in_window = head.window[static_cast<size_t>(key) % head.window.size()];
        const float sum = in_window;
        in_window = 0.0F;  // the place is the newest key's from now on
        const int32_t place = places_[static_cast<size_t>(h)] = place_for(head, keys, sum);
        if (place < 0) continue;
        any = true;
        head.sums[static_cast<size_t>(place)] = sum;
        keys[static_cast<size_t>(place)] = static_cast<int32_t>(key);
    }
    return any ? std::span<const int32_t>(places_) : std::span<const int32_t>();
}

void HeavySums::add(int layer, std::span<const float> weights, std::span<const int32_t> block_begin) {
    const size_t columns = weights.size() / static_cast<size_t>(kv_heads_);
    for (int h = 0; h < kv_heads_; ++h) {
        Head& head = head_of(layer, h);
        const float* const of_head = weights.data() + static_cast<size_t>(h) * columns;
        for (size_t i = 0; i < head.sums.size(); ++i) head.sums[i] += of_head[i];
        add_to_window(head, of_head + round_up<size_t>(head.sums.size(), kv_block_tokens), block_begin,
                      window_begin(layer));
    }
}

/// `weights` begin with the block in which the window does.
void HeavySums::add_to_window(Head& head, const float* weights, std::span<const int32_t> begins, int64_t window_begin) {
    auto block = std::upper_bound(begins.begin(), begins.end() - 1, window_begin) - begins.begin() - 1;
    for (; block + 1 < std::ssize(begins); ++block, weights += kv_block_tokens) {
        const int64_t first = begins[static_cast<size_t>(block)], end = begins[static_cast<size_t>(block + 1)];
        for (int64_t key = std::max(first, window_begin); key < end; ++key)
            head.window[static_cast<size_t>(key) % head.window.size()] += weights[key - first];
    }
}

}  // namespace rondo

#include "model/attention/quest_pages.hpp"

#include <algorithm>
#include <cassert>

#include "config/stopwatch.hpp"

namespace rondo {

namespace {

constexpr int64_t keys_at_once = 64;  // read back together: a row of all KV heads is some kilobytes

/// Pages that a step can mark in a KV head: all that the budget allows but the last. A page is a block, so a sequence
/// has no more of them than the pool has blocks.
int64_t pages_marked_max(const KvPool& pool, int64_t budget_keys) {
    const size_t blocks = std::max(pool.blocks_total(LayerGroup::lower), pool.blocks_total(LayerGroup::upper));
    const int64_t pages =
        std::min(std::max(quest_pages_min, budget_keys / quest_page_keys), static_cast<int64_t>(blocks));
    return std::max<int64_t>(pages - 1, 0);
}

}  // namespace

QuestPages::QuestPages(const ModelSpec& spec, const KvPool& pool, Device& device, int64_t budget_keys)
    : pool_(&pool),
      device_(&device),
      group_(spec.heads / spec.kv_heads),
      budget_(budget_keys),
      layers_(static_cast<size_t>(spec.layers)),
      scratch_(static_cast<size_t>(spec.kv_heads)) {
    for (Layer& layer : layers_) {
        layer.heads.resize(scratch_.size());
        layer.pages.resize(scratch_.size());
    }
    for (PerHead& head : scratch_) {
        head.on_lowest.resize(static_cast<size_t>(spec.head_dim));
        head.on_highest.resize(static_cast<size_t>(spec.head_dim));
    }
}

Result<std::unique_ptr<QuestPages>> QuestPages::create(const ModelSpec& spec, const KvPool& pool, Device& device,
                                                       int64_t budget_keys) {
    std::unique_ptr<QuestPages> made(new QuestPages(spec, pool, device, budget_keys));
    const auto bytes = static_cast<size_t>(keys_at_once * spec.kv_heads * spec.head_dim) * sizeof(float);
    RONDO_ASSIGN(made->keys_, device.allocate(bytes));
    RONDO_ASSIGN(made->values_, device.allocate(bytes));
    const auto heads = static_cast<size_t>(spec.kv_heads);
    RONDO_TRY(made->entries_.reserve(device, heads * static_cast<size_t>(pages_marked_max(pool, budget_keys))));
    RONDO_TRY(made->counts_.reserve(device, heads));
    RONDO_TRY(made->slots_.reserve(device, static_cast<size_t>(keys_at_once)));
    return made;
}

void QuestPages::reset() {
    for (Layer& layer : layers_) {
        layer.keys = 0;
        for (Bounds& head : layer.heads) {
            head.lowest.clear();
            head.highest.clear();
        }
        for (std::vector<int32_t>& pages : layer.pages) pages.clear();
    }
}

void QuestPages::after_prefill(Device& device, const SequenceKv& kv) {
    static_cast<void>(device), static_cast<void>(kv);
    reset();
}

/// Of keys that have been cut off nothing is known.
void QuestPages::before_step(SequenceKv& kv) {
    if (std::ranges::any_of(layers_, [&](const Layer& layer) { return layer.keys > kv.tokens(); })) reset();
}

void QuestPages::after_step(const SequenceKv& kv) {
    stats_.causal += std::ssize(layers_) * std::ssize(scratch_) * kv.tokens();
    stats_.attended += attended_;
    stats_.selections += chose_ ? 1 : 0;
    stats_.bounds_read += chose_ ? bytes_beside() : 0;
}

bool QuestPages::ranges_of_step(int layer, int kv_head, const SequenceKv& kv, const OnRange& on_range) const {
    const std::vector<int32_t>& pages = layers_[static_cast<size_t>(layer)].pages[static_cast<size_t>(kv_head)];
    const auto begins = kv.block_begin(pool_->shape().group_of(layer));
    for (const int32_t page : pages) on_range(begins[static_cast<size_t>(page)], begins[static_cast<size_t>(page) + 1]);
    return !pages.empty();
}

int64_t QuestPages::bytes_beside() const {
    size_t floats = 0;
    for (const Layer& layer : layers_)
        for (const Bounds& head : layer.heads) floats += head.lowest.size() + head.highest.size();
    return static_cast<int64_t>(floats * sizeof(float));
}

Result<AttendedKeys> QuestPages::keys_of_step(int layer, const ScoreArgs& step, const SequenceKv& kv) {
    const Stopwatch watch(stats_.score_seconds);
    Layer& own = layers_[static_cast<size_t>(layer)];
    if (layer == 0) {
        attended_ = 0;
        chose_ = false;
    }
    if (layer < quest_dense_layers || kv.tokens() <= budget_) {
        for (std::vector<int32_t>& pages : own.pages) pages.clear();
        attended_ += std::ssize(own.pages) * kv.tokens();
        return AttendedKeys{};
    }
    RONDO_TRY(extend(layer, kv));
    assert(step.q.rows == 1 && step.q.dtype == DType::f32);
    const auto columns = static_cast<int64_t>(group_) * pool_->shape().atom.head_dim;
    device_->run_tasks(std::ssize(own.heads), [&](int64_t head) {
        choose_for_head(own, static_cast<int>(head),
                        {step.q.row<const float>(0) + head * columns, static_cast<size_t>(columns)});
    });
    const AttendedKeys chosen = mark(layer, kv);
    RONDO_TRY(entries_.send(*device_));
    RONDO_TRY(counts_.send(*device_));
    return AttendedKeys{entries_.data(), counts_.data(), chosen.stride, chosen.tail_begin};
}

/// Takes the keys that are new since the last time into the bounds of their pages.
Status QuestPages::extend(int layer, const SequenceKv& kv) {
    Layer& own = layers_[static_cast<size_t>(layer)];
    const LayerGroup group = pool_->shape().group_of(layer);
    const auto begins = kv.block_begin(group), blocks = kv.blocks(group);
    const auto d = static_cast<size_t>(pool_->shape().atom.head_dim);
    assert(kv.first_held() == 0 && own.keys < kv.tokens());
    for (Bounds& head : own.heads) {
        const size_t known = head.lowest.size();
        head.lowest.resize(blocks.size() * d);
        head.highest.resize(blocks.size() * d);
        clear_page_bounds(std::span(head.lowest).subspan(known), std::span(head.highest).subspan(known));
    }
    auto page = std::upper_bound(begins.begin(), begins.end() - 1, own.keys) - begins.begin() - 1;
    while (own.keys < kv.tokens()) {
        const int64_t count = std::min(keys_at_once, kv.tokens() - own.keys);
        slots_.host().clear();
        page_of_.clear();
        for (int64_t key = own.keys; key < own.keys + count; ++key) {
            while (begins[static_cast<size_t>(page + 1)] <= key) ++page;
            const auto at = static_cast<size_t>(page);
            slots_.host().push_back(blocks[at] * kv_block_tokens + static_cast<int32_t>(key) - begins[at]);
            page_of_.push_back(static_cast<int32_t>(page));
        }
        RONDO_TRY(slots_.send(*device_));
        const auto columns = std::ssize(own.heads) * static_cast<int64_t>(d);
        const Tensor keys = Tensor::of(keys_.data(), DType::f32, count, columns);
        RONDO_TRY(device_->ops().read_kv(keys, Tensor::of(values_.data(), DType::f32, count, columns),
                                         pool_->layer(layer), slots_.data()));
        for (size_t h = 0; h < own.heads.size(); ++h) {
            for (int64_t i = 0; i < count; ++i) {
                const size_t at = static_cast<size_t>(page_of_[static_cast<size_t>(i)]) * d;
                extend_page_bounds({keys.row<const float>(i) + h * d, d}, std::span(own.heads[h].lowest).subspan(at, d),
                                   std::span(own.heads[h].highest).subspan(at, d));
            }
        }
        own.keys += count;
    }
    return Status::ok();
}

void QuestPages::choose_for_head(Layer& layer, int head, std::span<const float> queries) {
    const auto h = static_cast<size_t>(head);
    PerHead& own = scratch_[h];
    weigh_page_bounds(queries, own.on_lowest, own.on_highest);
    own.scores.resize(layer.heads[h].lowest.size() / own.on_lowest.size());
    score_pages(own.on_lowest, own.on_highest, layer.heads[h].lowest, layer.heads[h].highest, own.scores);
    choose_pages(own.scores, budget_, own.ranks, layer.pages[h]);
}

/// The last page, in which every head's choice ends, is the tail; entries mark the others.
AttendedKeys QuestPages::mark(int layer, const SequenceKv& kv) {
    const Layer& own = layers_[static_cast<size_t>(layer)];
    const LayerGroup group = pool_->shape().group_of(layer);
    const auto begins = kv.block_begin(group), blocks = kv.blocks(group);
    const int32_t last = begins[begins.size() - 2];
    AttendedKeys chosen;
    chosen.stride = static_cast<int32_t>(own.pages[0].size()) - 1;
    chosen.tail_begin = last;
    entries_.host().clear();
    counts_.host().assign(own.pages.size(), chosen.stride);
    for (size_t head = 0; head < own.pages.size(); ++head) {
        attended_ += kv.tokens() - last;
        for (const int32_t page : std::span(own.pages[head]).first(static_cast<size_t>(chosen.stride))) {
            const auto at = static_cast<size_t>(page);
            const auto filled = static_cast<uint16_t>(begins[at + 1] - begins[at]);
            entries_.host().push_back({pool_->atom_index(blocks[at], layer, static_cast<int>(head)),
                                       static_cast<uint16_t>((1U << filled) - 1), filled});
            attended_ += filled;
        }
    }
    chose_ = true;
    return chosen;
}

}  // namespace rondo

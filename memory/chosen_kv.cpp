#include "memory/chosen_kv.hpp"

#include <algorithm>
#include <cassert>

#include "config/checked.hpp"

namespace rondo {

ChosenKv::ChosenKv(KvPool& pool, Device& device)
    : pool_(&pool), device_(&device), layers_(static_cast<size_t>(pool.shape().layers)) {
    clear();
}

void ChosenKv::clear() {
    for (const LayerGroup group : layer_groups) leases_[group] = pool_->acquire(group, 0).value();  // cannot fail
    atoms_used_ = {};
    for (Layer& layer : layers_) layer.counts.host().clear();
    keys_chosen_ = 0;
}

int64_t ChosenKv::blocks_held() const {
    int64_t held = 0;
    for (const KvLease& lease : leases_.values) held += static_cast<int64_t>(lease.blocks().size());
    return held;
}

Status ChosenKv::take_atoms(LayerGroup group, size_t count, std::vector<int32_t>& atoms) {
    const int32_t each = pool_->atoms_each_block(group);
    const auto held = static_cast<int32_t>(leases_[group].blocks().size()) * each;
    const int32_t wanted = atoms_used_[group] + static_cast<int32_t>(count);
    if (wanted > held) RONDO_TRY(pool_->extend(leases_[group], static_cast<size_t>(ceil_div(wanted - held, each))));
    atoms.resize(count);
    const int first_layer = pool_->shape().first_layer(group);
    const int heads = pool_->shape().kv_heads;
    for (int32_t& atom : atoms) {
        const int32_t block = leases_[group].blocks()[static_cast<size_t>(atoms_used_[group] / each)];
        const int32_t within = atoms_used_[group]++ % each;
        atom = pool_->atom_index(block, first_layer + within / heads, within % heads);
    }
    return Status::ok();
}

/// Where a key lies; `block` is where the search begins, so that ascending keys cost a walk.
int32_t ChosenKv::source_slot(const KvPool& pool, const SequenceKv& kv, int layer, int head, int32_t key,
                              size_t& block) {
    const LayerGroup group = pool.shape().group_of(layer);
    const auto begins = kv.block_begin(group);
    while (begins[block + 1] <= key) ++block;
    assert(begins[block] <= key);
    const int32_t id = kv.blocks(group)[block];
    return pool.atom_index(id, layer, head) * kv_block_tokens + key - begins[block];
}

Status ChosenKv::copy_keys(int layer, const SequenceKv& kv, std::span<const std::vector<int32_t>> chosen) {
    const LayerGroup group = pool_->shape().group_of(layer);
    size_t atoms_wanted = 0;
    for (const auto& keys : chosen) atoms_wanted += ceil_div<size_t>(keys.size(), kv_block_tokens);
    RONDO_TRY(take_atoms(group, atoms_wanted, atoms_));
    Layer& made = layers_[static_cast<size_t>(layer)];
    std::vector<int32_t>&from = from_.host(), &to = to_.host();
    from.assign(atoms_wanted * kv_block_tokens, -1);
    to.resize(from.size());
    size_t atom = 0;
    for (size_t head = 0; head < chosen.size(); ++head) {
        KvEntry* entry = made.entries.host().data() + head * static_cast<size_t>(made.stride);
        size_t block = 0;
        for (size_t i = 0; i < chosen[head].size(); i += kv_block_tokens, ++atom, ++entry) {
            const size_t count = std::min<size_t>(kv_block_tokens, chosen[head].size() - i);
            for (size_t t = 0; t < kv_block_tokens; ++t) {
                const size_t at = atom * kv_block_tokens + t;
                to[at] = atoms_[atom] * kv_block_tokens + static_cast<int32_t>(t);
                if (t < count)
                    from[at] = source_slot(*pool_, kv, layer, static_cast<int>(head), chosen[head][i + t], block);
            }
            *entry = {atoms_[atom], static_cast<uint16_t>((1U << count) - 1), kv_block_tokens};
        }
    }
    RONDO_TRY(from_.send(*device_));
    RONDO_TRY(to_.send(*device_));
    return device_->ops().move_kv(pool_->shape().atom, pool_->atoms(group), from_.data(), to_.data(),
                                  static_cast<int64_t>(from.size()));
}

Status ChosenKv::mark_keys(int layer, const SequenceKv& kv, std::span<const std::vector<int32_t>> chosen) {
    Layer& made = layers_[static_cast<size_t>(layer)];
    const auto begins = kv.block_begin(pool_->shape().group_of(layer));
    for (size_t head = 0; head < chosen.size(); ++head) {
        KvEntry* const entries = made.entries.host().data() + head * static_cast<size_t>(made.stride);
        int32_t count = 0;
        size_t block = 0;
        for (const int32_t key : chosen[head]) {
            const int32_t slot = source_slot(*pool_, kv, layer, static_cast<int>(head), key, block);
            const int32_t atom = slot / kv_block_tokens;
            if (count == 0 || entries[count - 1].atom != atom)
                entries[count++] = {atom, 0, static_cast<uint16_t>(begins[block + 1] - begins[block])};
            entries[count - 1].allowed |= static_cast<uint16_t>(1U << slot % kv_block_tokens);
        }
        made.counts.host()[head] = count;
    }
    return Status::ok();
}

Status ChosenKv::set_layer(int layer, const SequenceKv& kv, std::span<const std::vector<int32_t>> chosen, Place place) {
    Layer& made = layers_[static_cast<size_t>(layer)];
    const size_t blocks = kv.blocks(pool_->shape().group_of(layer)).size();
    size_t longest = 0;
    int64_t keys = 0;
    for (const auto& each : chosen) {
        longest = std::max(longest, place == Place::copied ? ceil_div<size_t>(each.size(), kv_block_tokens)
                                                           : std::min(each.size(), blocks));
        keys += static_cast<int64_t>(each.size());
    }
    made.stride = static_cast<int32_t>(longest);
    made.entries.host().assign(chosen.size() * longest, {});
    made.counts.host().resize(chosen.size());
    if (place == Place::copied) {
        for (size_t head = 0; head < chosen.size(); ++head)
            made.counts.host()[head] = static_cast<int32_t>(ceil_div<size_t>(chosen[head].size(), kv_block_tokens));
        if (Status copied = copy_keys(layer, kv, chosen); !copied) {
            made.counts.host().clear();
            return copied;
        }
    } else {
        RONDO_TRY(mark_keys(layer, kv, chosen));
    }
    keys_chosen_ += keys;
    RONDO_TRY(made.entries.send(*device_));
    return made.counts.send(*device_);
}

Status ChosenKv::replace(int layer, const SequenceKv& kv, int32_t key, std::span<const int32_t> places) {
    from_.host().clear();
    to_.host().clear();
    for (size_t head = 0; head < places.size(); ++head) {
        if (places[head] < 0) continue;
        size_t block = 0;
        from_.host().push_back(source_slot(*pool_, kv, layer, static_cast<int>(head), key, block));
        to_.host().push_back(slot_of_copy(layer, static_cast<int>(head), places[head]));
    }
    RONDO_TRY(from_.send(*device_));
    RONDO_TRY(to_.send(*device_));
    return device_->ops().move_kv(pool_->shape().atom, pool_->atoms(pool_->shape().group_of(layer)), from_.data(),
                                  to_.data(), std::ssize(from_.host()));
}

int32_t ChosenKv::slot_of_copy(int layer, int head, int32_t place) const {
    const Layer& made = layers_[static_cast<size_t>(layer)];
    const auto entry = static_cast<size_t>(head * made.stride + place / kv_block_tokens);
    return made.entries.host()[entry].atom * kv_block_tokens + place % kv_block_tokens;
}

BlockCounts ChosenKv::blocks_short(std::span<const std::vector<int32_t>> chosen) const {
    constexpr int64_t left_for_steps = 4;
    int64_t atoms = 0;
    for (const auto& keys : chosen) atoms += ceil_div<int64_t>(std::ssize(keys), kv_block_tokens);
    BlockCounts wanted;
    bool enough = true;
    for (const LayerGroup group : layer_groups) {
        if (!pool_->shape().has(group)) continue;
        const int64_t in_layers = pool_->shape().layers_in(group) * atoms;
        wanted[group] = ceil_div<int64_t>(in_layers, pool_->atoms_each_block(group)) + left_for_steps;
        enough = enough && static_cast<int64_t>(pool_->blocks_free(group)) >= wanted[group];
    }
    return enough ? BlockCounts{} : wanted;
}

AttendedKeys ChosenKv::keys(int layer, int64_t tail_begin) const {
    const Layer& made = layers_[static_cast<size_t>(layer)];
    if (made.counts.host().empty()) return {};
    return {made.entries.data(), made.counts.data(), made.stride, static_cast<int32_t>(tail_begin)};
}

}  // namespace rondo

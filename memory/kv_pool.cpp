#include "memory/kv_pool.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <new>
#include <string>

#include "config/checked.hpp"
#include "config/limits.hpp"

namespace rondo {

namespace {

const char* name_of(LayerGroup group) {
    return group == LayerGroup::lower ? "lower" : "upper";
}

Error bad(const char* field, int64_t value, int64_t low, int64_t high) {
    return make_error(ErrorCode::invalid_argument, "KV pool: " + std::string(field) + " is " + std::to_string(value) +
                                                       ", must be " + std::to_string(low) + " to " +
                                                       std::to_string(high));
}

Status check(const KvShape& shape, const PerGroup<size_t>& blocks) {
    // Kernels address a slot (block · 16 + token) with 32 bits.
    constexpr int64_t blocks_max = std::numeric_limits<int32_t>::max() / kv_block_tokens;
    if (shape.layers < 1 || shape.layers > limits::layers_max)
        return bad("layers", shape.layers, 1, limits::layers_max);
    if (shape.lower_layers < 0 || shape.lower_layers > shape.layers)
        return bad("lower_layers", shape.lower_layers, 0, shape.layers);
    if (shape.kv_heads < 1 || shape.kv_heads > limits::heads_max)
        return bad("kv_heads", shape.kv_heads, 1, limits::heads_max);
    if (shape.atom.head_dim < 1 || shape.atom.head_dim > limits::head_size_max)
        return bad("head_dim", shape.atom.head_dim, 1, limits::head_size_max);
    const DType dtype = shape.atom.dtype;
    if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::i8)
        return make_error(ErrorCode::invalid_argument,
                          "KV pool: dtype is " + std::string(traits(dtype).name) + ", must be f32, bf16 or i8");
    for (const LayerGroup group : layer_groups) {
        if (!shape.has(group)) continue;
        if (blocks[group] < 1 || blocks[group] > static_cast<size_t>(blocks_max))
            return make_error(ErrorCode::invalid_argument, "KV pool: blocks of the " + std::string(name_of(group)) +
                                                               " layers are " + std::to_string(blocks[group]) +
                                                               ", must be 1 to " + std::to_string(blocks_max));
        // Copies and marks address each token of each atom with 32 bits.
        const int64_t atoms_each = int64_t{shape.layers_in(group)} * shape.kv_heads;
        const int64_t atoms_max = std::numeric_limits<int32_t>::max() / kv_block_tokens;
        if (static_cast<int64_t>(blocks[group]) > atoms_max / atoms_each)
            return make_error(ErrorCode::out_of_range,
                              "KV pool: it is too large for " + std::to_string(atoms_each) + " heads in all layers; " +
                                  "memory.device_kv_mib must be at most " +
                                  std::to_string((static_cast<size_t>(atoms_max) * shape.atom.bytes()) >> 20));
    }
    return {};
}

}  // namespace

DType kv_dtype(MemorySettings::KvType type) {
    constexpr DType types[] = {DType::bf16, DType::f32, DType::i8};
    return types[static_cast<size_t>(type)];
}

KvLease::KvLease(KvPool* pool, LayerGroup group, std::vector<int32_t> blocks)
    : pool_(pool), group_(group), blocks_(std::move(blocks)) {}

KvLease::KvLease(KvLease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), group_(other.group_), blocks_(std::move(other.blocks_)) {
    other.blocks_.clear();
}

KvLease& KvLease::operator=(KvLease&& other) noexcept {
    KvLease taken(std::move(other));
    std::swap(pool_, taken.pool_);
    std::swap(group_, taken.group_);
    blocks_.swap(taken.blocks_);
    return *this;
}

KvLease::~KvLease() {
    truncate(0);
}

KvLease KvLease::share() const {
    return share(0, blocks_.size());
}

KvLease KvLease::share(size_t first, size_t count) const {
    assert(first <= blocks_.size() && count <= blocks_.size() - first);
    if (pool_ == nullptr) return {};
    const auto part = blocks().subspan(first, count);
    std::vector<int32_t> copy(part.begin(), part.end());
    pool_->add_reference(group_, part);
    return KvLease(pool_, group_, std::move(copy));
}

void KvLease::insert(size_t at, KvLease&& other) {
    assert(&other != this && at <= blocks_.size());
    if (other.pool_ == nullptr) return;
    if (pool_ == nullptr) {
        *this = std::move(other);
        return;
    }
    assert(pool_ == other.pool_ && group_ == other.group_);
    blocks_.insert(blocks_.begin() + static_cast<ptrdiff_t>(at), other.blocks_.begin(), other.blocks_.end());
    other.blocks_.clear();
}

void KvLease::take_last(KvLease& other, size_t count) {
    assert(&other != this && pool_ == other.pool_ && group_ == other.group_ && count <= other.blocks_.size());
    blocks_.insert(blocks_.end(), other.blocks_.end() - static_cast<ptrdiff_t>(count), other.blocks_.end());
    other.blocks_.resize(other.blocks_.size() - count);
}

void KvLease::truncate(size_t count) {
    if (count >= blocks_.size()) return;
    pool_->release(group_, blocks().subspan(count));
    blocks_.resize(count);
}

void KvLease::drop(size_t first, size_t count) {
    assert(first <= blocks_.size() && count <= blocks_.size() - first);
    if (count == 0) return;
    pool_->release(group_, blocks().subspan(first, count));
    const auto begin = blocks_.begin() + static_cast<ptrdiff_t>(first);
    blocks_.erase(begin, begin + static_cast<ptrdiff_t>(count));
}

KvLease KvLease::take_out(std::span<const Range> ranges) {
    std::vector<int32_t> out, kept;
    size_t at = 0;
    const auto keep_up_to = [&](size_t end) {
        kept.insert(kept.end(), blocks_.begin() + static_cast<ptrdiff_t>(at),
                    blocks_.begin() + static_cast<ptrdiff_t>(end));
        at = end;
    };
    for (const auto& [first, end] : ranges) {
        assert(at <= first && first <= end && end <= blocks_.size());
        keep_up_to(first);
        out.insert(out.end(), blocks_.begin() + static_cast<ptrdiff_t>(first),
                   blocks_.begin() + static_cast<ptrdiff_t>(end));
        at = end;
    }
    keep_up_to(blocks_.size());
    std::ranges::copy(kept, blocks_.begin());  // the table keeps the room that was reserved
    blocks_.resize(kept.size());
    return KvLease(pool_, group_, std::move(out));
}

void KvLease::put_in(std::span<const Range> ranges, KvLease&& other) {
    assert(&other != this && pool_ == other.pool_ && group_ == other.group_);
    const std::vector<int32_t> own = blocks_;
    blocks_.clear();
    size_t from = 0, from_other = 0;
    const auto take = [this](const std::vector<int32_t>& blocks, size_t& at, size_t count) {
        const auto first = blocks.begin() + static_cast<ptrdiff_t>(at);
        blocks_.insert(blocks_.end(), first, first + static_cast<ptrdiff_t>(count));
        at += count;
    };
    for (const auto& [first, end] : ranges) {
        take(own, from, first - blocks_.size());
        take(other.blocks_, from_other, end - first);
    }
    take(own, from, own.size() - from);
    assert(from_other == other.blocks_.size());
    other.blocks_.clear();
}

Result<std::unique_ptr<KvPool>> KvPool::create(Device& device, const KvShape& shape, const PerGroup<size_t>& blocks) {
    RONDO_TRY(check(shape, blocks));
    std::unique_ptr<KvPool> pool(new KvPool(device, shape));
    for (const LayerGroup group : layer_groups)
        if (shape.has(group)) RONDO_TRY(pool->allocate(group, blocks[group]));
    return pool;
}

Status KvPool::allocate(LayerGroup group, size_t blocks) {
    const auto bytes = checked_mul(shape_.block_bytes(group), blocks);
    if (!bytes)
        return make_error(ErrorCode::out_of_memory, "KV pool: " + std::to_string(blocks) + " blocks of " +
                                                        std::to_string(shape_.block_bytes(group)) +
                                                        " bytes are more than can be addressed; ask for fewer blocks");
    Group made;
    RONDO_ASSIGN(made.storage, device_.allocate_pool(*bytes));
    try {
        made.references.assign(blocks, 0);
        made.free.resize(blocks);
    } catch (const std::bad_alloc&) {
        return make_error(ErrorCode::out_of_memory,
                          "KV pool: no memory for the tables of " + std::to_string(blocks) + " blocks; ask for fewer");
    }
    // The last is taken first, so a pool fills from the start of its storage.
    for (size_t i = 0; i < blocks; ++i) made.free[i] = static_cast<int32_t>(blocks - 1 - i);
    groups_[group] = std::move(made);
    return {};
}

KvPool::~KvPool() {
    for (const Group& group : groups_.values)
        assert(group.free.size() == group.references.size() && "a lease outlived its pool");
}

Result<KvLease> KvPool::acquire(LayerGroup group, size_t count) {
    KvLease lease(this, group, {});
    RONDO_TRY(extend(lease, count));
    return lease;
}

Status KvPool::extend(KvLease& lease, size_t count) {
    assert(lease.pool_ == this);
    Group& group = groups_[lease.group_];
    std::vector<int32_t>& blocks = lease.blocks_;
    size_t free_now;
    // The table grows before the lock and only when that many blocks exist: an absurd count costs nothing, and the free
    // list is never left half taken.
    if (count <= group.references.size()) {
        const size_t needed = blocks.size() + count;
        if (needed > blocks.capacity()) blocks.reserve(std::max(needed, 2 * blocks.capacity()));
        std::unique_lock lock(mutex_);
        free_now = group.free.size();
        if (count <= free_now) {
            const size_t reached_before = group.reached;
            for (size_t i = 0; i < count; ++i) {
                const int32_t block = group.free.back();
                group.free.pop_back();
                group.references[static_cast<size_t>(block)] = 1;
                group.reached = std::max(group.reached, static_cast<size_t>(block) + 1);
                blocks.push_back(block);
            }
            const size_t reached = group.reached;
            lock.unlock();
            if (reached > reached_before) expect(lease.group_, reached_before, reached);
            return {};
        }
    } else {
        free_now = blocks_free(lease.group_);
    }
    return make_error(ErrorCode::out_of_memory, "KV pool: " + std::to_string(count) + " blocks of the " +
                                                    name_of(lease.group_) + " layers asked for, " +
                                                    std::to_string(free_now) + " of " +
                                                    std::to_string(group.references.size()) + " are free");
}

void KvPool::expect(LayerGroup group, size_t from, size_t to) {
    const size_t bytes = layer_block_bytes();
    for (int layer = 0; layer < shape_.layers_in(group); ++layer)
        device_.expect_pool(this->layer(shape_.first_layer(group) + layer).base, from * bytes, to * bytes);
}

size_t KvPool::blocks_free(LayerGroup group) const {
    const std::lock_guard lock(mutex_);
    return groups_[group].free.size();
}

size_t KvPool::blocks_total(LayerGroup group) const {
    return groups_[group].references.size();
}

size_t KvPool::blocks_free() const {
    const std::lock_guard lock(mutex_);
    size_t free = 0;
    for (const Group& group : groups_.values) free += group.free.size();
    return free;
}

size_t KvPool::blocks_total() const {
    size_t total = 0;
    for (const LayerGroup group : layer_groups) total += blocks_total(group);
    return total;
}

int KvPool::references(LayerGroup group, int32_t block) const {
    assert(block >= 0 && static_cast<size_t>(block) < blocks_total(group));
    const std::lock_guard lock(mutex_);
    return groups_[group].references[static_cast<size_t>(block)];
}

KvLayer KvPool::layer(int layer) const {
    assert(layer >= 0 && layer < shape_.layers);
    const LayerGroup group = shape_.group_of(layer);
    const int within = layer - shape_.first_layer(group);
    const size_t block_bytes = layer_block_bytes();
    return {atoms(group) + static_cast<size_t>(within) * blocks_total(group) * block_bytes, block_bytes,
            shape_.kv_heads, shape_.atom};
}

int32_t KvPool::atom_index(int32_t block, int layer, int head) const {
    const LayerGroup group = shape_.group_of(layer);
    const int within = layer - shape_.first_layer(group);
    return (within * static_cast<int32_t>(blocks_total(group)) + block) * shape_.kv_heads + head;
}

void KvPool::add_reference(LayerGroup group, std::span<const int32_t> blocks) {
    const std::lock_guard lock(mutex_);
    for (const int32_t block : blocks) {
        assert(groups_[group].references[static_cast<size_t>(block)] > 0);
        ++groups_[group].references[static_cast<size_t>(block)];
    }
}

void KvPool::release(LayerGroup group, std::span<const int32_t> blocks) {
    const std::lock_guard lock(mutex_);
    Group& from = groups_[group];
    // Backwards, so that the next owner gets them in the order this one had them.
    for (size_t i = blocks.size(); i-- > 0;) {
        int32_t& references = from.references[static_cast<size_t>(blocks[i])];
        assert(references > 0);
        if (--references == 0) from.free.push_back(blocks[i]);
    }
}

}  // namespace rondo

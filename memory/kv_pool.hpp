#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "config/result.hpp"
#include "config/settings.hpp"
#include "kernels/device.hpp"
#include "kernels/kv_layout.hpp"
#include "memory/per_group.hpp"

namespace rondo {

struct KvShape {
    int layers = 0;
    int lower_layers = 0;  ///< L_w: layers [0, lower_layers) are the lower group; 0 puts all into the upper
    int kv_heads = 0;
    KvAtom atom;

    LayerGroup group_of(int layer) const { return layer < lower_layers ? LayerGroup::lower : LayerGroup::upper; }
    int first_layer(LayerGroup group) const { return group == LayerGroup::lower ? 0 : lower_layers; }
    int layers_in(LayerGroup group) const { return group == LayerGroup::lower ? lower_layers : layers - lower_layers; }
    bool has(LayerGroup group) const { return layers_in(group) > 0; }
    /// `count` blocks of each group that has layers.
    BlockCounts blocks_of_each(int64_t count) const {
        return {has(LayerGroup::lower) ? count : 0, has(LayerGroup::upper) ? count : 0};
    }
    /// A canonical block: 16 tokens × the group's layers × heads. Blocks of one layer lie one behind the other.
    size_t block_bytes(LayerGroup group) const {
        return static_cast<size_t>(layers_in(group)) * static_cast<size_t>(kv_heads) * atom.bytes();
    }
};

/// How settings call the types of keys and values.
DType kv_dtype(MemorySettings::KvType type);

class KvPool;

/// Blocks held by one owner; gives them back exactly once, when destroyed. Move-only. Outlived by its pool. One lease
/// is used by one thread at a time; different leases of a pool by any.
class KvLease {
public:
    KvLease() = default;
    KvLease(KvLease&& other) noexcept;
    KvLease& operator=(KvLease&& other) noexcept;
    ~KvLease();

    std::span<const int32_t> blocks() const { return blocks_; }
    LayerGroup group() const { return group_; }
    /// A second lease on the same blocks: they are free when the last one is gone.
    KvLease share() const;
    /// A lease on blocks [first, first + count) of this one, shared.
    KvLease share(size_t first, size_t count) const;
    /// Takes over the blocks of another lease of the same pool and group: behind its own, or before its block `at`.
    void append(KvLease&& other) { insert(blocks_.size(), std::move(other)); }
    void insert(size_t at, KvLease&& other);
    /// Takes the last `count` blocks over from another lease of the same pool and group. Allocates nothing that
    /// `reserve` has made room for.
    void take_last(KvLease& other, size_t count);
    /// Gives back the blocks from `count` on.
    void truncate(size_t count);
    /// Gives back blocks [first, first + count); those behind move up.
    void drop(size_t first, size_t count);
    /// Blocks [first, second), counted in one lease.
    using Range = std::pair<size_t, size_t>;
    /// Takes the blocks of these ranges out, into a lease of their own, in order. Ranges are ascending and apart.
    KvLease take_out(std::span<const Range> ranges);
    /// Takes over the blocks of another lease of the same pool and group, so that they lie in these ranges of this one.
    void put_in(std::span<const Range> ranges, KvLease&& other);
    /// Makes room in the table (takes no blocks), so that `KvPool::extend` up to `count` blocks allocates nothing.
    void reserve(size_t count) { blocks_.reserve(count); }

private:
    friend class KvPool;
    KvLease(KvPool* pool, LayerGroup group, std::vector<int32_t> blocks);
    KvPool* pool_ = nullptr;
    LayerGroup group_ = LayerGroup::upper;
    std::vector<int32_t> blocks_;
};

/// All KV blocks of one memory space, allocated once. Reference-counted block ids; a mutex guards the free lists,
/// because leases may be dropped by any actor that owns one. Its device outlives it.
class KvPool {
public:
    /// So many blocks for each group that has layers; the number of one without is not looked at. The storage is not
    /// touched: on a CPU its pages are taken as they are used.
    static Result<std::unique_ptr<KvPool>> create(Device& device, const KvShape& shape, const PerGroup<size_t>& blocks);
    ~KvPool();
    KvPool(const KvPool&) = delete;
    KvPool& operator=(const KvPool&) = delete;

    /// `count` blocks, or out_of_memory and none.
    Result<KvLease> acquire(LayerGroup group, size_t count);
    /// Appends `count` blocks to a lease of this pool, or out_of_memory and none. Allocates nothing that `reserve` has
    /// made room for.
    Status extend(KvLease& lease, size_t count);
    size_t blocks_free(LayerGroup group) const;
    size_t blocks_total(LayerGroup group) const;
    size_t blocks_free() const;                             ///< of all groups together
    size_t blocks_total() const;                            ///< likewise
    int references(LayerGroup group, int32_t block) const;  ///< for tests and metrics
    const KvShape& shape() const { return shape_; }
    /// The pool's view of one layer for kernels.
    KvLayer layer(int layer) const;
    /// Where the atoms of a group begin, for kernels that address them one by one.
    std::byte* atoms(LayerGroup group) const { return groups_[group].storage.as<std::byte>(); }
    /// The same as a kernel's layer: each atom is a block of one head.
    KvLayer each_atom(LayerGroup group) const { return {atoms(group), shape_.atom.bytes(), 1, shape_.atom}; }
    int32_t atoms_each_block(LayerGroup group) const { return shape_.layers_in(group) * shape_.kv_heads; }
    /// The atom of (block, layer, KV head), counted from `atoms` of the layer's group.
    int32_t atom_index(int32_t block, int layer, int head) const;

private:
    friend class KvLease;
    KvPool(Device& device, const KvShape& shape) : device_(device), shape_(shape) {}
    Status allocate(LayerGroup group, size_t blocks);
    /// Tells the device that blocks [from, to) are taken, which never were before.
    void expect(LayerGroup group, size_t from, size_t to);
    size_t layer_block_bytes() const { return static_cast<size_t>(shape_.kv_heads) * shape_.atom.bytes(); }
    void add_reference(LayerGroup group, std::span<const int32_t> blocks);
    void release(LayerGroup group, std::span<const int32_t> blocks);

    struct Group {
        Buffer storage;
        std::vector<int32_t> references;  // by block
        std::vector<int32_t> free;        // last in, first out: warm blocks first
        size_t reached = 0;               // blocks [0, reached) were taken once, and no others
    };

    Device& device_;
    const KvShape shape_;
    mutable std::mutex mutex_;
    PerGroup<Group> groups_;
};

}  // namespace rondo

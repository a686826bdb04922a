#include "memory/store/host_arena.hpp"

#include <algorithm>
#include <cassert>
#include <mutex>
#include <utility>

#include "config/checked.hpp"
#include "memory/store/disk_queue.hpp"
#include "memory/store/host_slab.hpp"

namespace rondo {

/// The arena's memory, which goes with its last record. Frames come back on any thread.
class HostArena::Frames {
public:
    Frames(Device& device, const Options& options)
        : device_(device),
          frame_bytes_(options.frame_bytes),
          slab_bytes_(options.slab_bytes / options.frame_bytes * options.frame_bytes),
          bytes_max_(options.bytes_max / options.frame_bytes * options.frame_bytes) {}

    size_t free() const {
        const std::lock_guard lock(mutex_);
        return free_.size();
    }
    /// Takes slabs until so many are free. Memory that the host does not give is not asked for again.
    bool grow(size_t frames) {
        const std::lock_guard lock(mutex_);
        while (free_.size() < frames) {
            const auto bytes = static_cast<size_t>(std::min<uint64_t>(slab_bytes_, bytes_max_ - bytes_));
            Result<HostSlab> slab =
                bytes == 0 ? make_error(ErrorCode::out_of_memory, "") : HostSlab::pinned(device_, bytes);
            if (!slab) {
                bytes_max_ = bytes_;
                return false;
            }
            for (size_t at = bytes; at > 0; at -= frame_bytes_) free_.push_back(&slab->span()[at - frame_bytes_]);
            slabs_.push_back(std::move(*slab));
            bytes_ += bytes;
        }
        return true;
    }
    MemoryParts take(size_t frames) {
        const std::lock_guard lock(mutex_);
        assert(free_.size() >= frames);
        MemoryParts taken;
        for (; frames > 0; --frames) {
            taken.emplace_back(free_.back(), frame_bytes_);
            free_.pop_back();
        }
        return taken;
    }
    void give(const MemoryParts& parts) {
        const std::lock_guard lock(mutex_);
        for (auto part = parts.rbegin(); part != parts.rend(); ++part) free_.push_back(part->data());
    }

private:
    Device& device_;
    const size_t frame_bytes_, slab_bytes_;
    mutable std::mutex mutex_;
    uint64_t bytes_max_;
    uint64_t bytes_ = 0;  // of all slabs
    std::vector<HostSlab> slabs_;
    std::vector<std::byte*> free_;
};

class HostArena::Record {
public:
    Record(std::shared_ptr<Frames> of, size_t count, const StoreName& own_name, std::vector<int32_t> own_ids)
        : name(own_name), ids(std::move(own_ids)), frames(std::move(of)), parts(frames->take(count)) {}
    ~Record() {
        for (const auto part : parts) std::ranges::fill(part, std::byte{0});
        frames->give(parts);
    }
    Record(const Record&) = delete;
    Record& operator=(const Record&) = delete;

    const StoreName name;
    const std::vector<int32_t> ids;
    const std::shared_ptr<Frames> frames;
    const MemoryParts parts;
    size_t layers = 0, layer_bytes = 0;
    bool dropped = false;
};

MemoryParts HostArena::layer_of(const Record& record, size_t layer) {
    return parts_within(record.parts, layer * record.layer_bytes, record.layer_bytes);
}

size_t HostArena::layer_bytes_of(const Record& record) {
    return record.layer_bytes;
}

HostArena::HostArena(Device& device, const Options& options)
    : options_(options), frames_(std::make_shared<Frames>(device, options)) {
    assert(options.frame_bytes % disk_alignment == 0 && options.slab_bytes >= options.frame_bytes);
}

HostArena::RecordPtr HostArena::begin(const StoreName& name, std::vector<int32_t> ids, size_t layers,
                                      size_t layer_bytes) {
    assert(layer_bytes % disk_alignment == 0);
    std::erase_if(under_way_, [](const auto& one) { return one.second.expired(); });
    if (has(name) || under_way_.contains(name)) return nullptr;
    const size_t frames = ceil_div(layers * layer_bytes, options_.frame_bytes);
    if (frames > options_.bytes_max / options_.frame_bytes || !make_room(frames)) return nullptr;
    const auto record = std::make_shared<Record>(frames_, frames, name, std::move(ids));
    record->layers = layers;
    record->layer_bytes = layer_bytes;
    under_way_[name] = record;
    return record;
}

/// What somebody holds gives no room. Where the rest is not enough, nobody goes.
bool HostArena::make_room(size_t frames) {
    if (frames_->grow(frames)) return true;
    size_t free = frames_->free();
    std::vector<StoreName> going;
    for (const auto& [used, name] : by_use_) {
        if (free >= frames) break;
        const RecordPtr& record = kept_.at(name).record;
        if (record.use_count() > 1) continue;
        free += record->parts.size();
        going.push_back(name);
    }
    if (free < frames) return false;
    for (const StoreName& name : going) remove(kept_.find(name));
    counts_.evicted += std::ssize(going);
    return true;
}

void HostArena::keep(const RecordPtr& record) {
    if (record->dropped) return;
    under_way_.erase(record->name);
    kept_[record->name].record = record;
    use(record->name);
    bytes_ += record->layers * record->layer_bytes;
}

HostArena::RecordPtr HostArena::find(const StoreName& name, std::span<const int32_t> ids) {
    const auto found = kept_.find(name);
    if (found == kept_.end()) return nullptr;
    const std::vector<int32_t>& own = found->second.record->ids;
    if (own.size() < ids.size() || !std::equal(ids.begin(), ids.end(), own.begin())) return nullptr;
    ++counts_.found;
    return found->second.record;
}

void HostArena::drop(const StoreName& name) {
    if (const auto found = kept_.find(name); found != kept_.end()) remove(found);
    if (const auto found = under_way_.find(name); found != under_way_.end()) {
        if (const RecordPtr record = found->second.lock()) record->dropped = true;
        under_way_.erase(found);
    }
}

void HostArena::use(const StoreName& name) {
    const auto found = kept_.find(name);
    if (found == kept_.end()) return;
    by_use_.erase(found->second.used);
    found->second.used = ++uses_;
    by_use_[uses_] = name;
}

void HostArena::each(const std::function<void(const StoreName&, uint64_t bytes)>& each) const {
    for (const auto& [name, kept] : kept_) each(name, kept.record->layers * kept.record->layer_bytes);
}

void HostArena::remove(std::map<StoreName, Kept>::iterator kept) {
    bytes_ -= kept->second.record->layers * kept->second.record->layer_bytes;
    by_use_.erase(kept->second.used);
    kept_.erase(kept);
}

}  // namespace rondo

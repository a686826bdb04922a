#include "actors/opened_store.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/timespan.hpp"

namespace rondo {

namespace {

uint64_t mib(int count) {
    return static_cast<uint64_t>(count) << 20;
}

/// Records that lie side by side say how fast the disk reads, before anything is restored. A few small ones would say
/// how soon it answers; where there are no others, the first restores measure it.
void probe(DiskMeter& disk, const KvStore& store, const std::string& path) {
    std::vector<RecordPlace> places;
    store.index().each([&places](const StoredRecord& record) { places.push_back(record.place); });
    std::ranges::sort(places);
    RecordPlace together;
    for (const RecordPlace& place : places) {
        const bool goes_on = place.segment == together.segment && place.offset == together.offset + together.bytes;
        if (goes_on)
            together.bytes += place.bytes;
        else
            together = place;
        if (together.bytes >= DiskMeter::probe_bytes)
            return disk.probe(path + "/" + Segments::name_of(together.segment), together.offset);
    }
}

}  // namespace

Result<OpenedStore> open_store(const MemorySettings& memory, const Runtime& runtime, std::unique_ptr<DiskQueue> disk) {
    const DiskSettings& settings = memory.disk;
    OpenedStore made;
    made.host_bytes_max = mib(memory.host_kv_mib);
    made.tokens_min = settings.min_tokens;
    made.tasks = std::make_shared<StoreTasks>();
    if (disk == nullptr) {
        RONDO_ASSIGN(disk, DiskQueue::open({}));
    }
    made.queue = std::make_unique<DiskMeter>(std::move(disk));
    KvStore::Options options;
    options.path = settings.path;
    options.bytes_max = mib(settings.kv_mib);
    options.bytes_free_min = mib(settings.free_mib);
    options.tenant_bytes_max = mib(settings.tenant_mib);
    options.written_a_day_max = mib(settings.written_a_day_mib);
    options.unused_seconds_max = settings.unused_s;
    if (!settings.key_file.empty()) {
        RONDO_ASSIGN(KeyFile keys, KeyFile::read(settings.key_file));
        options.keys.emplace(std::move(keys));
    }
    const KvShape& shape = runtime.pool->shape();
    options.kind = {runtime.model.fingerprint, shape.atom.dtype,  shape.layers, shape.kv_heads,
                    shape.atom.head_dim,       shape.lower_layers};
    options.now = whole_seconds_since_1970;
    options.post = [tasks = made.tasks](std::function<void()> task) { tasks->post(std::move(task)); };
    RONDO_ASSIGN(made.store, KvStore::open(std::move(options), *made.queue));
    probe(*made.queue, *made.store, settings.path);
    made.conversations = std::make_unique<KeptConversations>(*made.store);
    RONDO_ASSIGN(made.heads, made.conversations->heads());
    made.newer = made.conversations->newer();
    return made;
}

}  // namespace rondo

#include "memory/store/round_reader.hpp"

#include <algorithm>
#include <utility>

#include "config/checked.hpp"
#include "memory/store/kv_bytes.hpp"

namespace rondo {

namespace {

/// A layer's place among those of its group.
size_t place_in_group(const KvShape& shape, int layer) {
    return static_cast<size_t>(layer - shape.first_layer(shape.group_of(layer)));
}

}  // namespace

/// A round's record of one group, on its way into these blocks.
struct RoundReader::Record {
    size_t round = 0;
    LayerGroup group = LayerGroup::upper;
    StoreName name{};
    KvStore::ReadingPtr reading = {};
    std::vector<int32_t> blocks = {};
    size_t layer_bytes = 0;
    HostArena::RecordPtr held = {};    // it lies in host memory, and is not read
    HostArena::RecordPtr filled = {};  // where it will lie there
    size_t layers_filled = 0;
};

/// Bytes of a layer of a record that are copied to its blocks. They are held meanwhile.
struct RoundReader::Layer {
    MemoryParts bytes;
    HostArena::RecordPtr in_arena = {};
    std::optional<Staging::Piece> staged = {};
};

struct RoundReader::Reading {
    Job job;
    std::vector<Record> records;
    size_t whole = 0;                  // rounds that nothing is missing of, so far
    size_t under_way = 0;              // headers or layers
    size_t next = 0;                   // layer of a record, which comes next: layer by layer, in each record by record
    std::vector<size_t> missing = {};  // by layer: records that have not come
    int arrived = 0;                   // first layers that nothing is missing of
    bool opened = false;               // all headers are known

    size_t layers_in_all() const { return records.size() * missing.size(); }
    bool over() const { return opened && under_way == 0 && next == layers_in_all(); }
    /// A layer of a record is in its blocks. True: of all rounds there are more layers now.
    bool come(int layer) {
        --missing[static_cast<size_t>(layer)];
        const int before = arrived;
        while (std::cmp_less(arrived, missing.size()) && missing[static_cast<size_t>(arrived)] == 0) ++arrived;
        return arrived > before && whole == job.rounds.size();
    }
};

RoundReader::Ticket RoundReader::read(Job job) {
    if (job.rounds.empty()) {
        job.over(0);
        return {};
    }
    const auto reading = std::make_shared<Reading>(Reading{std::move(job), {}});
    reading->whole = reading->job.rounds.size();
    reading->missing.resize(static_cast<size_t>(pool_.shape().layers));
    for (size_t i = 0; i < reading->job.rounds.size(); ++i) {
        const auto& [stored, known_blocks] = reading->job.rounds[i];
        const auto blocks = ceil_div<int64_t>(std::ssize(stored.ids), kv_block_tokens);
        for (const LayerGroup group : layer_groups) {
            if (!pool_.shape().has(group)) continue;
            const auto begins = reading->job.kv.block_begin(group);
            const auto at = [&](int64_t token) { return std::ranges::lower_bound(begins, token) - begins.begin(); };
            const auto all = reading->job.kv.blocks(group);
            Record record{i, group, stored.records[group]};
            record.blocks.assign(all.begin() + at(stored.first_token), all.begin() + at(stored.end_token()));
            // A sequence that is cut otherwise has no place for the record's blocks.
            if (std::ssize(record.blocks) != blocks) reading->whole = std::min(reading->whole, i);
            reading->records.push_back(std::move(record));
            for (int layer = 0; layer < pool_.shape().layers; ++layer)
                if (pool_.shape().group_of(layer) == group) ++reading->missing[static_cast<size_t>(layer)];
        }
    }
    reading->under_way = reading->records.size();
    readings_.push_back(reading);
    for (size_t i = 0; i < reading->records.size(); ++i) open(reading, i);
    return reading;
}

void RoundReader::cancel(const Ticket& ticket) {
    const auto reading = std::static_pointer_cast<Reading>(ticket.lock());
    if (reading == nullptr) return;
    reading->whole = 0;
    go_on();
}

void RoundReader::open(const ReadingPtr& reading, size_t index) {
    Record& record = reading->records[index];
    if (options_.arena != nullptr && store_.index().find(record.name) != nullptr)
        record.held = options_.arena->find(record.name, reading->job.rounds[record.round].stored.ids);
    if (record.held != nullptr) {
        record.layer_bytes = HostArena::layer_bytes_of(*record.held);
        reading->opened = --reading->under_way == 0;
        return go_on();
    }
    store_.read(record.name, reading->job.rounds[record.round].stored.ids,
                [=, this, thread = thread_](Result<KvStore::ReadingPtr> opened) {
                    if (!thread.has_owner()) return;
                    Record& own = reading->records[index];
                    reading->opened = --reading->under_way == 0;
                    if (opened) {
                        own.reading = std::move(*opened);
                        const RecordHeader& header = KvStore::header_of(*own.reading);
                        own.layer_bytes = round_up<size_t>(header.layer_bytes(), disk_alignment);
                        if (options_.arena != nullptr && store_.is_current(*own.reading))
                            own.filled =
                                options_.arena->begin(own.name, header.ids, header.layers.size(), own.layer_bytes);
                    } else {
                        reading->whole = std::min(reading->whole, own.round);
                    }
                    go_on();
                });
}

/// As much as may be under way, in order of asking; and what is over is told.
void RoundReader::go_on() {
    bool disk_is_busy = false;
    for (const ReadingPtr& reading : readings_)
        if (reading->opened) read_some(reading, disk_is_busy);
    std::vector<ReadingPtr> over;
    std::erase_if(readings_, [&](const ReadingPtr& reading) {
        if (reading->over()) over.push_back(reading);
        return reading->over();
    });
    if (readings_.empty()) staging_.clear();
    for (const ReadingPtr& reading : over) {
        if (options_.arena != nullptr)  // what goes first is an end, and not what others may begin with
            for (auto record = reading->records.rbegin(); record != reading->records.rend(); ++record)
                options_.arena->use(record->name);
        reading->records.clear();
        const Job job = std::move(reading->job);
        job.over(reading->whole);
    }
}

/// What cannot be whole any more is not read. What lies in host memory does not wait for the disk.
void RoundReader::read_some(const ReadingPtr& reading, bool& disk_is_busy) {
    const size_t records = reading->records.size();
    const auto has_room = [this](size_t under_way, size_t bytes) {
        return under_way == 0 || under_way + bytes <= options_.bytes_under_way;
    };
    for (; reading->next < reading->layers_in_all(); ++reading->next) {
        const auto layer = static_cast<int>(reading->next / records);
        const size_t index = reading->next % records;
        const Record& record = reading->records[index];
        if (record.round >= reading->whole || pool_.shape().group_of(layer) != record.group) continue;
        if (record.held != nullptr) {
            if (!has_room(come_, record.layer_bytes)) return;
        } else {
            const bool others_wait = come_ > options_.bytes_under_way;
            disk_is_busy = disk_is_busy || others_wait || !has_room(read_, record.layer_bytes);
            if (disk_is_busy) return;
        }
        read_layer(reading, index, layer);
    }
}

void RoundReader::read_layer(const ReadingPtr& reading, size_t index, int layer) {
    const Record& record = reading->records[index];
    (record.held != nullptr ? come_ : read_) += record.layer_bytes;
    ++reading->under_way;
    if (record.held != nullptr) {
        options_.arena->begin_copy(record.layer_bytes);
        const size_t place = place_in_group(pool_.shape(), layer);
        return copy_layer(reading, index, layer, {HostArena::layer_of(*record.held, place), record.held});
    }
    // Only what is whole may go where it belongs: the proof is one of all blocks.
    const bool whole = reading->job.rounds[record.round].known_blocks == 0 &&
                       record.layer_bytes == bytes_of_layer(pool_, record.blocks.size());
    MemoryParts blocks = whole ? parts_of_layer(device_, pool_, layer, record.blocks) : MemoryParts();
    if (blocks.empty()) return read_staged(reading, index, layer);
    const auto proved = [=, this, thread = thread_](const Status& status) {
        if (thread.has_owner()) end_layer(reading, index, layer, status);
    };
    store_.read_layer(record.reading, place_in_group(pool_.shape(), layer), std::move(blocks), proved,
                      layer_comes(record.layer_bytes));
}

/// By memory between: where blocks are known already, go on otherwise, or are no disk's to read into.
void RoundReader::read_staged(const ReadingPtr& reading, size_t index, int layer) {
    const Record& record = reading->records[index];
    const size_t place = place_in_group(pool_.shape(), layer);
    Layer from;
    if (record.filled != nullptr) {
        from.in_arena = record.filled;
        from.bytes = HostArena::layer_of(*record.filled, place);
    } else {
        from.staged = staging_.take(record.layer_bytes);
        from.bytes = {from.staged->bytes};
    }
    const auto proved = [=, this, thread = thread_](const Status& status) {
        if (!thread.has_owner()) return;
        fill(reading->records[index], status);
        if (status && reading->records[index].round < reading->whole) return copy_layer(reading, index, layer, from);
        if (from.staged) staging_.give(*from.staged);
        end_layer(reading, index, layer, status);
    };
    store_.read_layer(record.reading, place, from.bytes, proved, layer_comes(record.layer_bytes));
}

/// The disk does not wait for proofs and copies.
std::function<void()> RoundReader::layer_comes(size_t bytes) {
    return [this, thread = thread_, bytes] {
        if (!thread.has_owner()) return;
        read_ -= bytes;
        come_ += bytes;
        go_on();
    };
}

/// A layer of a record has come. What lacks one does not stay in host memory.
void RoundReader::fill(Record& record, const Status& status) {
    if (record.filled == nullptr) return;
    ++record.layers_filled;
    const bool all = record.layers_filled == KvStore::header_of(*record.reading).layers.size();
    if (status && all) options_.arena->keep(record.filled);
    if (!status || all) record.filled = nullptr;
}

void RoundReader::copy_layer(const ReadingPtr& reading, size_t index, int layer, const Layer& from) {
    const Record& record = reading->records[index];
    const auto known = static_cast<size_t>(reading->job.rounds[record.round].known_blocks);
    const auto blocks = std::span<const int32_t>(record.blocks).subspan(known);
    const Status put =
        copy_in(device_, pool_, layer, blocks,
                parts_within(from.bytes, bytes_of_layer(pool_, known), bytes_of_layer(pool_, blocks.size())));
    // Blocks and bytes are held until the stream has passed.
    const auto copied = thread_.handing_over<Status>([=, this](const Status& status) {
        if (from.staged) staging_.give(*from.staged);
        if (reading->records[index].held != nullptr) options_.arena->end_copy();
        end_layer(reading, index, layer, put ? status : put);
    });
    const Status told = device_.notify(StreamId::load, copied);
    if (told) return;
    static_cast<void>(device_.drain(StreamId::load));
    copied(told);
}

void RoundReader::end_layer(const ReadingPtr& reading, size_t index, int layer, const Status& status) {
    const Record& record = reading->records[index];
    come_ -= record.layer_bytes;
    --reading->under_way;
    if (!status) {
        reading->whole = std::min(reading->whole, record.round);
    } else if (reading->come(layer)) {
        reading->job.arrived(reading->arrived);
    }
    go_on();
}

}  // namespace rondo

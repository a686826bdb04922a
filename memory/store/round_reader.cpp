#include "memory/store/round_reader.hpp"

#include <algorithm>
#include <utility>

#include "config/checked.hpp"
#include "memory/store/kv_bytes.hpp"

namespace rondo {

namespace {

/// A layer's place among those of its group.
size_t place_in_group(const KvShape& shape, int layer) {
    const int first = shape.group_of(layer) == LayerGroup::lower ? 0 : shape.lower_layers;
    return static_cast<size_t>(layer - first);
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

std::function<void(Status)> RoundReader::here(std::function<void(const Status&)> done) const {
    return [post = options_.post, alive = alive_, done = std::move(done)](Status status) {
        post([alive, done, status = std::move(status)] {
            if (*alive) done(status);
        });
    };
}

RoundReader::Ticket RoundReader::read(Job job) {
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
    const Record& record = reading->records[index];
    store_.read(record.name, reading->job.rounds[record.round].stored.ids,
                [=, this, alive = alive_](Result<KvStore::ReadingPtr> opened) {
                    if (!*alive) return;
                    Record& own = reading->records[index];
                    reading->opened = --reading->under_way == 0;
                    if (opened) {
                        own.reading = std::move(*opened);
                        own.layer_bytes =
                            round_up<size_t>(KvStore::header_of(*own.reading).layer_bytes(), disk_alignment);
                    } else {
                        reading->whole = std::min(reading->whole, own.round);
                    }
                    go_on();
                });
}

/// As much as may be under way, in order of asking; and what is over is told.
void RoundReader::go_on() {
    for (const ReadingPtr& reading : readings_)
        if (reading->opened && !read_some(reading)) break;
    std::vector<ReadingPtr> over;
    std::erase_if(readings_, [&](const ReadingPtr& reading) {
        if (reading->over()) over.push_back(reading);
        return reading->over();
    });
    if (readings_.empty()) staging_.clear();
    for (const ReadingPtr& reading : over) {
        reading->records.clear();
        const Job job = std::move(reading->job);
        job.over(reading->whole);
    }
}

/// What cannot be whole any more is not read. False: as much is under way as may be.
bool RoundReader::read_some(const ReadingPtr& reading) {
    const size_t records = reading->records.size();
    for (; reading->next < reading->layers_in_all(); ++reading->next) {
        const auto layer = static_cast<int>(reading->next / records);
        const size_t index = reading->next % records;
        const Record& record = reading->records[index];
        if (record.round >= reading->whole || pool_.shape().group_of(layer) != record.group) continue;
        if (under_way_ > 0 && under_way_ + record.layer_bytes > options_.bytes_under_way) return false;
        read_layer(reading, index, layer);
    }
    return true;
}

void RoundReader::read_layer(const ReadingPtr& reading, size_t index, int layer) {
    const Record& record = reading->records[index];
    under_way_ += record.layer_bytes;
    ++reading->under_way;
    // Only what is whole may go where it belongs: the proof is one of all blocks.
    const bool whole = reading->job.rounds[record.round].known_blocks == 0 &&
                       record.layer_bytes == bytes_of_layer(pool_, record.blocks.size());
    MemoryParts blocks = whole ? parts_of_layer(device_, pool_, layer, record.blocks) : MemoryParts();
    if (blocks.empty()) return read_staged(reading, index, layer);
    store_.read_layer(record.reading, place_in_group(pool_.shape(), layer), std::move(blocks),
                      [=, this, alive = alive_](const Status& status) {
                          if (*alive) end_layer(reading, index, layer, status);
                      });
}

/// By memory between: where blocks are known already, go on otherwise, or are no disk's to read into.
void RoundReader::read_staged(const ReadingPtr& reading, size_t index, int layer) {
    const Record& record = reading->records[index];
    const Staging::Piece piece = staging_.take(record.layer_bytes);
    store_.read_layer(record.reading, place_in_group(pool_.shape(), layer), {piece.bytes},
                      [=, this, alive = alive_](const Status& status) {
                          if (!*alive) return;
                          if (status && reading->records[index].round < reading->whole)
                              return copy_layer(reading, index, layer, piece);
                          staging_.give(piece);
                          end_layer(reading, index, layer, status);
                      });
}

void RoundReader::copy_layer(const ReadingPtr& reading, size_t index, int layer, const Staging::Piece& piece) {
    const Record& record = reading->records[index];
    const auto known = static_cast<size_t>(reading->job.rounds[record.round].known_blocks);
    const Status put = copy_in(device_, pool_, layer, std::span<const int32_t>(record.blocks).subspan(known),
                               std::span<const std::byte>(piece.bytes).subspan(bytes_of_layer(pool_, known)));
    // Blocks and bytes are held until the stream has passed.
    const auto copied = [=, this](const Status& status) {
        staging_.give(piece);
        end_layer(reading, index, layer, put ? status : put);
    };
    const Status told = device_.notify(StreamId::load, here(copied));
    if (told) return;
    static_cast<void>(device_.drain(StreamId::load));
    copied(told);
}

void RoundReader::end_layer(const ReadingPtr& reading, size_t index, int layer, const Status& status) {
    const Record& record = reading->records[index];
    under_way_ -= record.layer_bytes;
    --reading->under_way;
    if (!status) {
        reading->whole = std::min(reading->whole, record.round);
    } else if (reading->come(layer)) {
        reading->job.arrived(reading->arrived);
    }
    go_on();
}

}  // namespace rondo

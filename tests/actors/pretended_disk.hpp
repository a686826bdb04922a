#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "memory/store/way_back.hpp"

namespace rondo::testing {

/// Marks of keys by group and slot, as the device's memory would hold them.
using Marks = std::map<std::pair<LayerGroup, int32_t>, uint64_t>;

/// A disk for tests of what turns go through: which records there are, the way that ids lead along and the room for
/// what comes are the store's own, and what is stored of a key is its mark.
class PretendedDisk {
public:
    PretendedDisk(const KvShape& shape, Marks& marks) : shape_(shape), marks_(marks) {}

    /// So many records at the most, as if room were asked for in the middle.
    void put(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv, int records_max) {
        const PerGroup<RecordIndex::NameOf> names = names_of(space);
        for (const StoredRound& round : rounds_of(space, ids, kv, shape_)) {
            for (const LayerGroup group : layer_groups) {
                const StoreName name = names[group](round.end);
                if (index_.find(name) != nullptr) continue;
                if (records_max-- == 0) return;
                StoredRecord record;
                record.name = name;
                record.before = names[group](round.before);
                record.exactness = round.end.exactness;
                record.group = group;
                record.tokens_before = round.first_token;
                record.tokens = static_cast<int32_t>(round.ids.size());
                record.place.bytes = 64 * round.ids.size();
                record.saved_seconds = 1.0;
                record.waypoints =
                    RecordIndex::waypoints_of(round.before.prefix, round.end.exactness, round.ids, names[group]);
                ASSERT_TRUE(index_.add(record));
                for (int64_t key = round.first_token; key < round.end_token(); ++key)
                    records_[name].push_back(marks_.at({group, kv.slot(group, key)}));
            }
        }
    }
    WayBack way(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv) const {
        return way_back(stored_rounds(index_, names_of(space), shape_, space, ids), kv, shape_);
    }
    void evict() {
        StoredRecord best;
        best.saved_seconds = 1e9;
        best.place.bytes = 1;
        const RecordIndex::Limit one_goes{nullptr, 1, 0};
        const auto room = index_.make_room(best, {&one_goes, 1}, [](const StoredRecord&) { return true; });
        index_.gone(room);
        for (const RecordIndex::Taken& taken : room.taken) records_.erase(taken.record.name);
    }
    /// The number's record, if there are so many.
    void damage(int number) {
        if (std::cmp_less(number, records_.size())) damaged_.insert(std::next(records_.begin(), number)->first);
    }

    struct Reading {
        Reading(SequenceKv blocks, WayBack what)
            : kv(std::move(blocks)), way(std::move(what)), whole(way.rounds.size()) {}
        bool over() const { return layers == layer_groups.size(); }
        /// Where its tokens end that are there in every layer, once it is over.
        int64_t end() const { return whole == 0 ? way.begin : way.rounds[whole - 1].stored.end_token(); }

        SequenceKv kv;  // holds the blocks that are written to
        const WayBack way;
        size_t layers = 0, whole;
    };
    /// Its next layer comes, as far as it is there and whole.
    void go_on(Reading& reading) {
        const LayerGroup group = layer_groups[reading.layers++];
        for (size_t i = 0; i < reading.whole; ++i) {
            const auto& [stored, known_blocks] = reading.way.rounds[i];
            const StoreName& name = stored.records[group];
            if (damaged_.erase(name) > 0) {
                index_.remove(name);
                records_.erase(name);
            }
            const auto found = records_.find(name);
            if (found == records_.end()) {
                reading.whole = i;
                return;
            }
            for (int64_t key = stored.first_token + known_blocks * kv_block_tokens; key < stored.end_token(); ++key)
                marks_[{group, reading.kv.slot(group, key)}] =
                    found->second[static_cast<size_t>(key - stored.first_token)];
        }
    }

private:
    static PerGroup<RecordIndex::NameOf> names_of(const PrefixSpace& space) {
        return {name_of(LayerGroup::lower, space), name_of(LayerGroup::upper, space)};
    }
    static RecordIndex::NameOf name_of(LayerGroup group, const PrefixSpace& space) {
        const uint64_t method = name_of_space(space.method).low;
        return [group, method](const RecordIndex::Border& border) {
            StoreName name{};
            const uint64_t mark =
                (group == LayerGroup::lower ? 1 : 2) ^ (border.exactness == Exactness::exact ? 0 : method << 2);
            const uint64_t low = border.prefix.low ^ mark;
            std::memcpy(name.data(), &low, sizeof(low));
            std::memcpy(name.data() + sizeof(low), &border.prefix.high, sizeof(low));
            return name;
        };
    }

    const KvShape shape_;
    Marks& marks_;
    RecordIndex index_;
    std::map<StoreName, std::vector<uint64_t>> records_;  // marks of their keys
    std::set<StoreName> damaged_;
};

}  // namespace rondo::testing

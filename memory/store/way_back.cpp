#include "memory/store/way_back.hpp"

#include <algorithm>
#include <utility>

namespace rondo {

namespace {

RecordIndex::Border begin_of(const StoreSpace& space) {
    return {name_of_space(space.space), space.exactness};
}

}  // namespace

std::vector<StoredRound> rounds_of(const StoreSpace& space, std::span<const int32_t> ids, const SequenceKv& kv) {
    std::vector<StoredRound> rounds;
    RecordIndex::Border border = begin_of(space);
    for (int64_t r = 0; r < kv.rounds(); ++r) {
        StoredRound round;
        round.first_token = kv.round_begin(r);
        const int64_t end = r + 1 < kv.rounds() ? kv.round_begin(r + 1) : kv.tokens();
        const auto own =
            ids.subspan(static_cast<size_t>(round.first_token), static_cast<size_t>(end - round.first_token));
        round.ids.assign(own.begin(), own.end());
        round.before = std::exchange(border, {name_of_round(border.prefix, own), space.exactness});
        round.end = border;
        rounds.push_back(std::move(round));
    }
    return rounds;
}

std::vector<StoredRound> stored_rounds(const KvStore& store, const KvShape& shape, const StoreSpace& space,
                                       std::span<const int32_t> ids) {
    const LayerGroup first = shape.has(LayerGroup::upper) ? LayerGroup::upper : LayerGroup::lower;
    const LayerGroup other = first == LayerGroup::upper ? LayerGroup::lower : LayerGroup::upper;
    std::vector<StoredRound> rounds;
    RecordIndex::Border border = begin_of(space);
    for (const StoredRecord* const record : store.index().way(border, ids, space.exactness, store.names(first, {}))) {
        StoredRound round;
        round.first_token = record->tokens_before;
        const auto own = ids.subspan(static_cast<size_t>(record->tokens_before), static_cast<size_t>(record->tokens));
        round.ids.assign(own.begin(), own.end());
        round.before = std::exchange(border, {name_of_round(border.prefix, own), space.exactness});
        round.end = border;
        if (shape.has(other) && store.index().find(store.names(other, {})(border)) == nullptr) break;
        rounds.push_back(std::move(round));
    }
    return rounds;
}

std::vector<StoreName> records_of(const KvStore& store, const KvShape& shape, std::span<const StoredRound> rounds) {
    std::vector<StoreName> names;
    for (const StoredRound& round : rounds)
        for (const LayerGroup group : layer_groups)
            if (shape.has(group)) names.push_back(store.names(group, {})(round.end));
    return names;
}

}  // namespace rondo

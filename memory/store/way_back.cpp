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
    for (const RecordIndex::Step& step : store.index().way(border, ids, space.exactness, store.names(first, {}))) {
        StoredRound round;
        // A record that says it begins elsewhere is not what its name says.
        if (step.record->tokens_before != (rounds.empty() ? 0 : rounds.back().end_token())) break;
        round.first_token = step.record->tokens_before;
        round.is_part = step.is_part();
        const auto own = ids.subspan(static_cast<size_t>(round.first_token), static_cast<size_t>(step.tokens));
        round.ids.assign(own.begin(), own.end());
        round.before = std::exchange(border, {name_of_round(border.prefix, own), space.exactness});
        round.end = border;
        round.records[first] = step.record->name;
        if (shape.has(other)) {
            const RecordIndex::NameOf names = store.names(other, {});
            const StoredRecord* const record =
                round.is_part ? store.index().find_through(names(border), names(round.before))
                              : store.index().find(names(border));
            if (record == nullptr || record->tokens_before != round.first_token) break;
            round.records[other] = record->name;
        }
        rounds.push_back(std::move(round));
    }
    return rounds;
}

}  // namespace rondo

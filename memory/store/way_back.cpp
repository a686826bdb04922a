#include "memory/store/way_back.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <utility>

#include "config/checked.hpp"

namespace rondo {

namespace {

RecordIndex::Border begin_of(const PrefixSpace& space) {
    return {name_of_space(space.tenant), Exactness::exact};
}

/// Up to where the sequence has full blocks from this token on; none: no block begins with it.
std::optional<int64_t> end_of_whole_blocks(const SequenceKv& kv, int64_t first, const KvShape& shape) {
    int64_t end = kv.tokens();
    for (const LayerGroup group : layer_groups) {
        if (!shape.has(group)) continue;
        const auto begins = kv.block_begin(group);
        auto at = std::ranges::lower_bound(begins, first);
        if (at == begins.end() || *at != first) return std::nullopt;
        while (std::next(at) != begins.end() && *std::next(at) - *at == kv_block_tokens) ++at;
        end = std::min<int64_t>(end, *at);
    }
    return end;
}

}  // namespace

int64_t record_tokens_max(const KvShape& shape) {
    constexpr size_t layer_bytes = size_t{1} << 20;
    const size_t block_bytes = static_cast<size_t>(shape.kv_heads) * shape.atom.bytes();
    const auto blocks = std::bit_floor(std::max<size_t>(layer_bytes / block_bytes, 1));
    return std::clamp<int64_t>(static_cast<int64_t>(blocks) * kv_block_tokens, 512, 4096);
}

std::vector<StoredRound> rounds_of(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv,
                                   const KvShape& shape) {
    const int64_t most = record_tokens_max(shape);
    std::vector<StoredRound> rounds;
    RecordIndex::Border border = begin_of(space);
    for (int64_t r = 0; r < kv.rounds(); ++r) {
        const int64_t end = r + 1 < kv.rounds() ? kv.round_begin(r + 1) : kv.tokens();
        for (int64_t first = kv.round_begin(r); first < end; first += most) {
            const int64_t tokens = std::min(end - first, most);
            const auto own = ids.subspan(static_cast<size_t>(first), static_cast<size_t>(tokens));
            StoredRound round;
            round.first_token = first;
            round.ids.assign(own.begin(), own.end());
            const bool exact = first + tokens <= kv.exact_tokens();
            round.before = std::exchange(
                border, {name_of_round(border.prefix, own), exact ? Exactness::exact : Exactness::sparse});
            round.end = border;
            rounds.push_back(std::move(round));
        }
    }
    return rounds;
}

std::vector<StoredRound> stored_rounds(const RecordIndex& index, const PerGroup<RecordIndex::NameOf>& names,
                                       const KvShape& shape, const PrefixSpace& space, std::span<const int32_t> ids) {
    const LayerGroup first = shape.has(LayerGroup::upper) ? LayerGroup::upper : LayerGroup::lower;
    const LayerGroup other = first == LayerGroup::upper ? LayerGroup::lower : LayerGroup::upper;
    std::vector<StoredRound> rounds;
    RecordIndex::Border border = begin_of(space);
    const Exactness allowed = space.is_exact() ? Exactness::exact : Exactness::sparse;
    for (const RecordIndex::Step& step : index.way(border, ids, allowed, names[first])) {
        StoredRound round;
        // A record that says it begins elsewhere is not what its name says.
        if (step.record->tokens_before != (rounds.empty() ? 0 : rounds.back().end_token())) break;
        round.first_token = step.record->tokens_before;
        round.is_part = step.is_part();
        round.may_go_on = round.is_part || step.tokens == record_tokens_max(shape);
        const auto own = ids.subspan(static_cast<size_t>(round.first_token), static_cast<size_t>(step.tokens));
        round.ids.assign(own.begin(), own.end());
        round.before = std::exchange(border, {name_of_round(border.prefix, own), step.record->exactness});
        round.end = border;
        round.records[first] = step.record->name;
        if (shape.has(other)) {
            const RecordIndex::NameOf& name = names[other];
            const StoredRecord* const record =
                round.is_part ? index.find_through(name(border), name(round.before)) : index.find(name(border));
            if (record == nullptr || record->tokens_before != round.first_token) break;
            round.records[other] = record->name;
        }
        rounds.push_back(std::move(round));
    }
    return rounds;
}

std::vector<StoredRound> stored_rounds(const KvStore& store, const KvShape& shape, const PrefixSpace& space,
                                       std::span<const int32_t> ids) {
    const PerGroup<RecordIndex::NameOf> names{store.names(LayerGroup::lower, space.method),
                                              store.names(LayerGroup::upper, space.method)};
    return stored_rounds(store.index(), names, shape, space, ids);
}

WayBack way_back(std::vector<StoredRound> stored, const SequenceKv& kv, const KvShape& shape) {
    WayBack way{{}, kv.tokens(), kv.tokens()};
    const auto leads_on = [&](const StoredRound& round) { return round.end_token() > kv.tokens(); };
    auto next = std::ranges::find_if(stored, leads_on);
    if (next == stored.end()) return way;
    std::optional<int64_t> common;
    while (!(common = end_of_whole_blocks(kv, next->first_token, shape))) {
        if (next == stored.begin()) return way;
        --next;
    }
    int64_t known = (std::min(*common, next->end_token()) - next->first_token) / kv_block_tokens;
    const int64_t begin = next->first_token + known * kv_block_tokens;
    if (stored.back().end_token() - kv.tokens() <= kv.tokens() - begin) return way;
    way.begin = begin;
    way.end = stored.back().end_token();
    for (; next != stored.end(); ++next) way.rounds.push_back({std::move(*next), std::exchange(known, 0)});
    return way;
}

int64_t tokens_for_cuts(int64_t missing) {
    constexpr int64_t tokens_of_rounds = 256;  // of each, as a guess
    return kv_block_tokens * (1 + missing / tokens_of_rounds);
}

void keep_within(WayBack& way, const SequenceKv& kv, int64_t blocks_max) {
    int64_t blocks = 0;
    for (const LayerGroup group : layer_groups) blocks = std::max<int64_t>(blocks, std::ssize(kv.blocks(group)));
    const auto is_too_much = [&](const WayBack::Round& round) {
        blocks += ceil_div<int64_t>(std::ssize(round.stored.ids), kv_block_tokens) - round.known_blocks;
        return blocks > blocks_max;
    };
    way.rounds.erase(std::ranges::find_if(way.rounds, is_too_much), way.rounds.end());
    if (!way.rounds.empty()) way.end = way.rounds.back().stored.end_token();
    if (way.rounds.empty() || way.end <= kv.tokens()) way = {{}, kv.tokens(), kv.tokens()};
}

bool grow_for(SequenceKv& kv, const WayBack& way, int64_t tokens) {
    const std::vector<int64_t> before = kv.planned_ends();
    std::vector<int64_t> ends;
    for (const auto& [round, known_blocks] : way.rounds)
        if (!round.may_go_on || std::ranges::binary_search(before, round.end_token()))
            ends.push_back(round.end_token());
    std::ranges::copy_if(before, std::back_inserter(ends), [&](int64_t end) { return end > way.end; });
    const int64_t given_up = kv.tokens() - way.begin;
    std::optional<SequenceKv> shorter;
    if (given_up > 0) {
        shorter.emplace(kv.beginning(way.begin, before));
        shorter->go_on_as(kv);
        shorter->take_set_aside(kv);
    }
    SequenceKv& grown = shorter ? *shorter : kv;
    int64_t exact = grown.exact_tokens();
    for (const auto& [round, known_blocks] : way.rounds)
        if (round.end.exactness == Exactness::exact && exact >= std::max(round.first_token, way.begin))
            exact = round.end_token();
    grown.plan_rounds(std::move(ends));
    if (grown.set_aside(tokens + given_up) && grown.extend(way.end - way.begin)) {
        grown.take_as_exact(exact);
        if (exact < way.end) grown.go_on_inexactly(exact);  // what comes is not, and what is computed behind it neither
        if (shorter) kv = std::move(*shorter);
        return true;
    }
    if (shorter)
        kv.take_set_aside(*shorter);
    else
        kv.plan_rounds(before);
    return false;
}

}  // namespace rondo

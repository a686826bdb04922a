#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/kv_pool.hpp"
#include "memory/prefix_space.hpp"
#include "memory/sequence_kv.hpp"
#include "memory/store/kv_store.hpp"

namespace rondo {

/// What a turn that misses so many tokens sets aside beside them: what comes from the store may be cut into more rounds
/// than anybody knows before, each of which begins a block.
int64_t tokens_for_cuts(int64_t missing);

/// A record has no more tokens than this: what a conversation shares with another one up to some place within a round
/// is neither written nor read far beyond it. A layer of so many has about a megabyte, so that a disk reads it as
/// soon as more.
int64_t record_tokens_max(const KvShape& shape);

/// A round among ids, or a part of one.
struct StoredRound {
    int64_t first_token = 0;
    std::vector<int32_t> ids;
    RecordIndex::Border before, end;
    bool is_part = false;           ///< its records go on otherwise behind these ids
    bool may_go_on = false;         ///< the round, behind it: nothing on the disk says whether it does
    PerGroup<StoreName> records{};  ///< of one that is stored
    int64_t end_token() const { return first_token + std::ssize(ids); }
};

/// The rounds of a sequence whose keys are those of `ids`, in parts as large as records may be.
std::vector<StoredRound> rounds_of(const PrefixSpace& space, std::span<const int32_t> ids, const SequenceKv& kv,
                                   const KvShape& shape);

/// The rounds that are stored of `ids` in every layer group, from the beginning on.
std::vector<StoredRound> stored_rounds(const RecordIndex& index, const PerGroup<RecordIndex::NameOf>& names,
                                       const KvShape& shape, const PrefixSpace& space, std::span<const int32_t> ids);
std::vector<StoredRound> stored_rounds(const KvStore& store, const KvShape& shape, const PrefixSpace& space,
                                       std::span<const int32_t> ids);

/// What may be read back behind the keys that a sequence has.
struct WayBack {
    struct Round {
        StoredRound stored;
        int64_t known_blocks = 0;  ///< of its first ones, which are there already
    };
    std::vector<Round> rounds;
    int64_t begin = 0, end = 0;  ///< of the tokens that will come
};
/// The stored rounds that begin or go on where the sequence's keys end. Of a round of which some is known, that must be
/// whole blocks of it: so a cache leaves it that gives up its end. Where rounds were cut otherwise when the sequence's
/// keys were computed, the way begins before their end, if it leads further than that costs.
WayBack way_back(std::vector<StoredRound> stored, const SequenceKv& kv, const KvShape& shape);
/// As many of its rounds as lead to no more blocks than that: each begins one, however few tokens it has. None if they
/// lead no further than the sequence does.
void keep_within(WayBack& way, const SequenceKv& kv, int64_t blocks_max);
/// Gives the sequence blocks for what will come, in rounds as they are stored; what it has behind the way's begin it
/// gives up. False, and it has the keys that it had: there are not enough blocks for that and for what it needs behind
/// it, `tokens` more than it had.
bool grow_for(SequenceKv& kv, const WayBack& way, int64_t tokens);

}  // namespace rondo

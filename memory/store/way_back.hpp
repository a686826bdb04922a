#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/kv_pool.hpp"
#include "memory/sequence_kv.hpp"
#include "memory/store/kv_store.hpp"
#include "memory/store/store_space.hpp"

namespace rondo {

/// A round among ids, or the beginning of one.
struct StoredRound {
    int64_t first_token = 0;
    std::vector<int32_t> ids;
    RecordIndex::Border before, end;
    bool is_part = false;           ///< its records go on otherwise behind these ids
    PerGroup<StoreName> records{};  ///< of one that is stored
    int64_t end_token() const { return first_token + std::ssize(ids); }
};

/// The rounds of a sequence whose keys are those of `ids`.
std::vector<StoredRound> rounds_of(const StoreSpace& space, std::span<const int32_t> ids, const SequenceKv& kv);

/// The rounds that are stored of `ids` in every layer group, from the beginning on.
std::vector<StoredRound> stored_rounds(const KvStore& store, const KvShape& shape, const StoreSpace& space,
                                       std::span<const int32_t> ids);

}  // namespace rondo

#pragma once

#include <cstdint>

#include "kernels/kv_layout.hpp"

namespace rondo::cpu {

/// A key with its value, where it lies; no atom: zeros.
struct KeySource {
    const std::byte* atom = nullptr;
    int32_t token = 0;
};

/// Fills an atom with `count` ≤ 16 keys from anywhere and zeros behind them.
void gather_atom(const KvAtom& layout, const KeySource* sources, int count, std::byte* atom);

/// Entries [begin, end) of Ops::move_kv. Sixteen in a row that fill one atom are written together.
void move_keys(const KvAtom& layout, std::byte* atoms, const int32_t* from, const int32_t* to, int64_t begin,
               int64_t end);

}  // namespace rondo::cpu

#include "kernels/cpu/move_kv.hpp"

#include <cstring>

namespace rondo::cpu {

namespace {

void copy_row(std::byte* to, const std::byte* from, size_t bytes) {
    if (from == nullptr) {
        std::memset(to, 0, bytes);
    } else {
        std::memcpy(to, from, bytes);
    }
}

/// The values of bf16 tokens as they lie: one channel in each 32-bit word, a token in its low or its high half.
struct PairRow {
    const uint32_t* words = nullptr;
    uint32_t shift = 0;
};

PairRow pair_row(const KvAtom& layout, const KeySource& source) {
    if (source.atom == nullptr) return {};
    const auto* const values = reinterpret_cast<const uint32_t*>(source.atom + layout.half_bytes());
    return {values + source.token / 2 * layout.head_dim, static_cast<uint32_t>(source.token % 2) * 16};
}

void merge_pair(const PairRow& low, const PairRow& high, uint32_t* out, int64_t d) {
    if (low.words != nullptr && high.words != nullptr) {
        for (int64_t c = 0; c < d; ++c)
            out[c] = (low.words[c] >> low.shift & 0xffffU) | (high.words[c] >> high.shift << 16);
    } else if (low.words != nullptr) {
        for (int64_t c = 0; c < d; ++c) out[c] = low.words[c] >> low.shift & 0xffffU;
    } else if (high.words != nullptr) {
        for (int64_t c = 0; c < d; ++c) out[c] = high.words[c] >> high.shift << 16;
    } else {
        std::memset(out, 0, static_cast<size_t>(d) * sizeof(uint32_t));
    }
}

/// Copies one key to token `token` of an atom.
void move_key(const KvAtom& layout, const KeySource& source, std::byte* atom, int token) {
    const size_t half = layout.half_bytes(), row = half / kv_block_tokens;
    const size_t from = static_cast<size_t>(source.token) * row, to = static_cast<size_t>(token) * row;
    copy_row(atom + to, source.atom == nullptr ? nullptr : source.atom + from, row);
    if (layout.dtype == DType::bf16) {
        auto* const values = reinterpret_cast<uint16_t*>(atom + half) + token / 2 * 2 * layout.head_dim + token % 2;
        const PairRow source_row = pair_row(layout, source);
        for (int64_t c = 0; c < layout.head_dim; ++c) {
            values[2 * c] = source_row.words == nullptr
                                ? uint16_t{0}
                                : static_cast<uint16_t>(source_row.words[c] >> source_row.shift);
        }
        return;
    }
    copy_row(atom + half + to, source.atom == nullptr ? nullptr : source.atom + half + from, row);
    if (layout.dtype != DType::i8) return;
    for (int part = 0; part < 2; ++part) {  // K's scale, V's scale
        const size_t scales = layout.scales_offset() + static_cast<size_t>(part * kv_block_tokens) * sizeof(float);
        const size_t at = scales + static_cast<size_t>(source.token) * sizeof(float);
        copy_row(atom + scales + static_cast<size_t>(token) * sizeof(float),
                 source.atom == nullptr ? nullptr : source.atom + at, sizeof(float));
    }
}

}  // namespace

void gather_atom(const KvAtom& layout, const KeySource* sources, int count, std::byte* atom) {
    if (layout.dtype != DType::bf16) {
        for (int t = 0; t < kv_block_tokens; ++t) move_key(layout, t < count ? sources[t] : KeySource{}, atom, t);
        return;
    }
    const size_t row = layout.half_bytes() / kv_block_tokens;
    for (int t = 0; t < kv_block_tokens; t += 2) {
        const KeySource low = t < count ? sources[t] : KeySource{}, high = t + 1 < count ? sources[t + 1] : KeySource{};
        for (int i = 0; i < 2; ++i) {
            const KeySource& source = i == 0 ? low : high;
            const std::byte* const from =
                source.atom == nullptr ? nullptr : source.atom + static_cast<size_t>(source.token) * row;
            copy_row(atom + static_cast<size_t>(t + i) * row, from, row);
        }
        auto* const values = reinterpret_cast<uint32_t*>(atom + layout.half_bytes());
        merge_pair(pair_row(layout, low), pair_row(layout, high), values + t / 2 * layout.head_dim, layout.head_dim);
    }
}

void move_keys(const KvAtom& layout, std::byte* atoms, const int32_t* from, const int32_t* to, int64_t begin,
               int64_t end) {
    const auto source = [&](int64_t i) {
        if (from[i] < 0) return KeySource{};
        return KeySource{atoms + static_cast<size_t>(from[i] / kv_block_tokens) * layout.bytes(),
                         from[i] % kv_block_tokens};
    };
    for (int64_t i = begin; i < end;) {
        std::byte* const atom = atoms + static_cast<size_t>(to[i] / kv_block_tokens) * layout.bytes();
        const bool whole = to[i] % kv_block_tokens == 0 && i + kv_block_tokens <= end &&
                           to[i + kv_block_tokens - 1] == to[i] + kv_block_tokens - 1;
        if (whole) {
            KeySource sources[kv_block_tokens];
            for (int t = 0; t < kv_block_tokens; ++t) sources[t] = source(i + t);
            gather_atom(layout, sources, kv_block_tokens, atom);
            i += kv_block_tokens;
        } else {
            move_key(layout, source(i), atom, to[i] % kv_block_tokens);
            ++i;
        }
    }
}

}  // namespace rondo::cpu

#include "memory/prefix_name.hpp"

#include <algorithm>
#include <bit>

#include "kernels/kv_layout.hpp"

namespace rondo {

namespace {

// The bytes "rondo prefix 1\n\n" as two little-endian numbers.
constexpr PrefixName space_key{0x7270206F646E6F72U, 0x0A0A312078696665U};

/// SipHash-1-3 with 128 bits of output (Aumasson and Bernstein, 2012; section 2.2 and the reference code). It reads
/// words, not bytes, so that the machine's byte order plays no part.
class SipHash {
public:
    explicit SipHash(const PrefixName& key)
        : a_(key.low ^ 0x736F6D6570736575U),
          b_(key.high ^ 0x646F72616E646F6DU ^ 0xEEU),
          c_(key.low ^ 0x6C7967656E657261U),
          d_(key.high ^ 0x7465646279746573U) {}

    void add(uint64_t word) {
        d_ ^= word;
        round();
        a_ ^= word;
    }
    /// `rest`: the bytes that fill no word, the first one lowest.
    PrefixName end(uint64_t rest, size_t bytes) {
        add(rest | static_cast<uint64_t>(bytes) << 56);
        c_ ^= 0xEEU;
        PrefixName name;
        name.low = squeeze();
        b_ ^= 0xDDU;
        name.high = squeeze();
        return name;
    }

private:
    void round() {
        a_ += b_;
        b_ = std::rotl(b_, 13) ^ a_;
        a_ = std::rotl(a_, 32);
        c_ += d_;
        d_ = std::rotl(d_, 16) ^ c_;
        a_ += d_;
        d_ = std::rotl(d_, 21) ^ a_;
        c_ += b_;
        b_ = std::rotl(b_, 17) ^ c_;
        c_ = std::rotl(c_, 32);
    }
    uint64_t squeeze() {
        for (int i = 0; i < 3; ++i) round();
        return a_ ^ b_ ^ c_ ^ d_;
    }

    uint64_t a_, b_, c_, d_;
};

uint64_t word_of(std::string_view bytes) {
    uint64_t word = 0;
    for (size_t i = 0; i < bytes.size(); ++i) word |= uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
    return word;
}

}  // namespace

PrefixName name_of_space(std::string_view space) {
    SipHash hash(space_key);
    std::string_view rest = space;
    for (; rest.size() >= 8; rest.remove_prefix(8)) hash.add(word_of(rest.substr(0, 8)));
    return hash.end(word_of(rest), space.size());
}

PrefixName name_of_block(const PrefixName& before, std::span<const int32_t> ids) {
    SipHash hash(before);
    const auto word = [&](size_t i) { return uint64_t{static_cast<uint32_t>(ids[i])}; };
    size_t i = 0;
    for (; i + 2 <= ids.size(); i += 2) hash.add(word(i) | word(i + 1) << 32);
    return hash.end(i < ids.size() ? word(i) : 0, 4 * ids.size());
}

PrefixName name_of_round(PrefixName before, std::span<const int32_t> ids) {
    for (; !ids.empty(); ids = ids.subspan(std::min<size_t>(ids.size(), kv_block_tokens)))
        before = name_of_block(before, ids.first(std::min<size_t>(ids.size(), kv_block_tokens)));
    return before;
}

}  // namespace rondo

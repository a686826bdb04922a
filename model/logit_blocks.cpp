#include "model/logit_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "config/checked.hpp"

namespace rondo {

namespace {

constexpr size_t block_size = 64;
constexpr float nothing = -std::numeric_limits<float>::infinity();

/// Four floats of one register: GCC's and Clang's vectors, because their loops here do not become any by themselves
/// (the clamp of an exponential turns into a branch, and a sum must not be reordered). Same bits with or without wider
/// registers.
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));
constexpr size_t lanes = 4;

Floats load(const float* from) {
    Floats loaded;
    std::memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

template <class Values>
Values block_of(Values values, size_t block) {
    const size_t begin = block * block_size;
    return values.subspan(begin, std::min(block_size, values.size() - begin));
}

bool ranks_before(const Candidate& a, const Candidate& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/// The largest value, NaNs left out (every comparison with one is false); −Inf when there is none.
float max_of(std::span<const float> values) {
    const auto larger = [](auto a, auto b) { return a > b ? a : b; };
    Floats partial[4];
    std::fill(partial, partial + 4, Floats{} + nothing);
    size_t i = 0;
    for (; i + 4 * lanes <= values.size(); i += 4 * lanes)
        for (size_t part = 0; part < 4; ++part)
            partial[part] = larger(load(values.data() + i + part * lanes), partial[part]);
    const Floats best = larger(larger(partial[0], partial[1]), larger(partial[2], partial[3]));
    float largest = larger(larger(best[0], best[1]), larger(best[2], best[3]));
    for (; i < values.size(); ++i) largest = larger(values[i], largest);
    return largest;
}

/// exp(x) for x ≤ 0 within 2 units in the last place; 0 below -87 (where the result would be denormal) and for NaN.
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2, a Taylor polynomial for exp(r), and 2ⁿ put into the exponent bits.
Floats exp_of_negative(Floats x) {
    constexpr float least = -87.0F;
    constexpr float round = 12582912.0F;  // 1.5 · 2²³: adding it leaves the nearest integer in the low bits
    constexpr float log2_e = 1.44269504F, ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;
    const Floats clamped = x > least ? x : Floats{} + least;
    const Floats shifted = clamped * log2_e + round;
    const Floats n = shifted - round;
    const Floats r = (clamped - n * ln2_high) - n * ln2_low;
    Floats p = r * (1.0F / 5040.0F) + 1.0F / 720.0F;
    p = p * r + 1.0F / 120.0F;
    p = p * r + 1.0F / 24.0F;
    p = p * r + 1.0F / 6.0F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const Ints exponent = std::bit_cast<Ints>(shifted) - std::bit_cast<int32_t>(round) + 127;
    return x >= least ? p * std::bit_cast<Floats>(exponent << 23) : Floats{};
}

/// out[i] = exp((in[i] − largest) · factor) over a whole block, in place if so wished; returns their sum.
float exp_block(float* out, const float* in, float largest, float factor) {
    Floats partial[4] = {};
    for (size_t i = 0; i < block_size; i += 4 * lanes)
        for (size_t part = 0; part < 4; ++part) {
            const Floats weight = exp_of_negative((load(in + i + part * lanes) - largest) * factor);
            std::memcpy(out + i + part * lanes, &weight, sizeof weight);
            partial[part] += weight;
        }
    const Floats sum = (partial[0] + partial[1]) + (partial[2] + partial[3]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/// The same over a block that may be the short last one.
float exp_values(std::span<float> out, std::span<const float> in, float largest, float factor) {
    if (in.size() == block_size) return exp_block(out.data(), in.data(), largest, factor);
    float padded[block_size];
    std::fill(std::copy(in.begin(), in.end(), padded), padded + block_size, nothing);
    const float sum = exp_block(padded, padded, largest, factor);
    std::copy_n(padded, in.size(), out.begin());
    return sum;
}

}  // namespace

LogitBlocks::LogitBlocks(int64_t vocabulary, bool ranks)
    : maxima_(ceil_div(static_cast<size_t>(vocabulary), block_size)), masses_(maxima_.size()) {
    if (ranks) candidates_.reserve(static_cast<size_t>(vocabulary));
}

float LogitBlocks::scan(std::span<const float> logits) {
    assert(ceil_div(logits.size(), block_size) == maxima_.size());
    for (size_t block = 0; block < maxima_.size(); ++block) maxima_[block] = max_of(block_of(logits, block));
    return max_of(maxima_);
}

int32_t LogitBlocks::argmax(std::span<const float> logits, float largest) const {
    if (largest == nothing) return 0;
    const auto block = static_cast<size_t>(std::find(maxima_.begin(), maxima_.end(), largest) - maxima_.begin());
    const auto values = block_of(logits, block);
    const auto at = std::find(values.begin(), values.end(), largest) - values.begin();
    return static_cast<int32_t>(block * block_size + static_cast<size_t>(at));
}

/// All candidates of at least this value, by id.
void LogitBlocks::gather(std::span<const float> values, float least) {
    candidates_.clear();
    for (size_t block = 0; block < maxima_.size(); ++block) {
        if (!(maxima_[block] >= least)) continue;
        auto id = static_cast<int32_t>(block * block_size);
        for (const float value : block_of(values, block)) {
            if (value >= least) candidates_.push_back({value, id});
            ++id;
        }
    }
}

std::span<Candidate> LogitBlocks::top(std::span<const float> logits, size_t count) {
    // As many blocks as asked for have a maximum of at least `least`, so the answer lies at or above it.
    float least = nothing;
    if (count < maxima_.size()) {
        candidates_.clear();
        for (const float largest : maxima_) candidates_.push_back({largest, 0});
        const auto last = candidates_.begin() + static_cast<ptrdiff_t>(count - 1);
        std::nth_element(candidates_.begin(), last, candidates_.end(), ranks_before);
        least = last->value;
    }
    gather(logits, least);
    if (count < candidates_.size()) {
        const auto last = candidates_.begin() + static_cast<ptrdiff_t>(count - 1);
        std::nth_element(candidates_.begin(), last, candidates_.end(), ranks_before);
        candidates_.resize(count);
    } else if (!candidates_.empty()) {
        std::iter_swap(std::max_element(candidates_.begin(), candidates_.end(), ranks_before), candidates_.end() - 1);
    }
    return candidates_;
}

double LogitBlocks::mass(std::span<const float> logits, float largest) const {
    double sum = 0.0;
    float weights[block_size];
    for (size_t block = 0; block < maxima_.size(); ++block) {
        const auto values = block_of(logits, block);
        sum += exp_values({weights, values.size()}, values, largest, 1.0F);
    }
    return sum;
}

void LogitBlocks::weigh(std::span<float> logits, float largest, float temperature, const Cut& cut) {
    // Not infinite, however small the temperature: the likeliest token's 0 must stay 0.
    const float factor = std::min(1.0F / temperature, std::numeric_limits<float>::max());
    for (size_t block = 0; block < maxima_.size(); ++block) {
        const auto values = block_of(logits, block);
        if (!(maxima_[block] >= cut.value)) {
            maxima_[block] = masses_[block] = 0.0F;
            continue;
        }
        if (cut.value > nothing) {
            auto id = static_cast<int32_t>(block * block_size);
            for (float& value : values) {
                if (!cut.keeps(value, id)) value = nothing;
                ++id;
            }
        }
        masses_[block] = exp_values(values, values, largest, factor);
        maxima_[block] = max_of(values);
    }
}

Cut LogitBlocks::nucleus(std::span<const float> weights, float top_p) {
    const double all = total();
    // Weights below this cannot hold more than the share 1 − top_p even if every token had one, so the cut lies above.
    const double least = (1.0 - static_cast<double>(top_p)) * all / static_cast<double>(weights.size());
    gather(weights, std::max(static_cast<float>(least * 0.999), std::numeric_limits<float>::min()));
    // A selection by mass: halve by rank, go on in the half where the sum reaches what is needed.
    double needed = static_cast<double>(top_p) * all;
    auto begin = candidates_.begin(), end = candidates_.end();
    while (end - begin > 1) {
        const auto middle = begin + (end - begin) / 2;
        std::nth_element(begin, middle, end, ranks_before);
        double upper = 0.0;
        for (auto i = begin; i != middle; ++i) upper += i->value;
        if (upper >= needed) {
            end = middle;
        } else {
            needed -= upper;
            begin = middle;
        }
    }
    return {begin->value, begin->id};
}

void LogitBlocks::keep(std::span<float> weights, const Cut& cut) {
    for (size_t block = 0; block < maxima_.size(); ++block) {
        if (maxima_[block] < cut.value) {
            maxima_[block] = masses_[block] = 0.0F;
            continue;
        }
        float sum = 0.0F;
        auto id = static_cast<int32_t>(block * block_size);
        for (float& weight : block_of(weights, block)) {
            if (!cut.keeps(weight, id)) weight = 0.0F;
            sum += weight;
            ++id;
        }
        masses_[block] = sum;
    }
}

double LogitBlocks::total() const {
    double sum = 0.0;
    for (const float mass : masses_) sum += mass;
    return sum;
}

int32_t LogitBlocks::pick(std::span<const float> weights, double at) const {
    double left = at * total();
    size_t chosen = 0;
    bool found = false;
    for (size_t block = 0; block < masses_.size() && !found; ++block) {
        if (masses_[block] <= 0.0F) continue;
        chosen = block;
        found = left < masses_[block];
        if (!found) left -= masses_[block];
    }
    // Sums round: what falls off the end falls on the last token that has a weight.
    if (!found) left = std::numeric_limits<double>::infinity();
    auto id = static_cast<int32_t>(chosen * block_size);
    int32_t last = id;
    for (const float weight : block_of(weights, chosen)) {
        if (weight > 0.0F) {
            last = id;
            if (left < weight) break;
            left -= weight;
        }
        ++id;
    }
    return last;
}

}  // namespace rondo

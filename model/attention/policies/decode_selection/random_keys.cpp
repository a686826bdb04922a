#include "config/mix_bits.hpp"
#include "model/attention/policies/decode_selection/budget_selection.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"

namespace rondo {

namespace {

/// SplitMix64: a counter, and a mixing of its bits that makes the number.
class RandomBits {
public:
    explicit RandomBits(uint64_t seed) : state_(seed) {}

    uint64_t next() { return mix_bits(state_ += mix_step); }

private:
    uint64_t state_;
};

/// A control: as many keys as the method beside it, drawn blindly and anew as often. A method has to beat it.
class RandomKeys final : public BudgetSelection {
public:
    explicit RandomKeys(const DecodeAttention& settings)
        : BudgetSelection(settings), triggers_(choice_triggers(settings)) {}

    ChoiceTriggers triggers() const override { return triggers_; }
    int queries() const override { return 0; }

protected:
    /// Every set of keys is as likely: a key is taken with the probability that the keys still needed have among those
    /// still left, which ends with exactly the budget.
    void choose(const KeyScores& scores, uint64_t seed, std::span<std::vector<int32_t>> chosen) const override {
        RandomBits seeds(seed);
        for (std::vector<int32_t>& keys : chosen) {
            RandomBits random(seeds.next());
            auto needed = static_cast<uint64_t>(budget());
            for (int64_t key = 0; needed > 0; ++key) {
                const auto left = static_cast<uint64_t>(scores.keys - key);
                if (((random.next() >> 32) * left) >> 32 >= needed) continue;
                keys.push_back(static_cast<int32_t>(key));
                --needed;
            }
        }
    }

private:
    ChoiceTriggers triggers_;
};

}  // namespace

std::unique_ptr<DecodeSelection> make_random(const DecodeAttention& settings) {
    return std::make_unique<RandomKeys>(settings);
}

}  // namespace rondo

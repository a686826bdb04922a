#include "model/format/format_progress.hpp"

#include <algorithm>
#include <utility>

#include "config/limits.hpp"

namespace rondo {

namespace {

constexpr size_t known_max = 32;        // bits of so many states are kept
constexpr int32_t states_max = 4096;    // more are forgotten when the next token was taken
constexpr size_t work_max = 1'000'000;  // of one token's bits: what took longer to know may not come

void set(std::vector<uint64_t>& bits, int32_t id, bool to) {
    uint64_t& word = bits[static_cast<size_t>(id) / 64];
    const uint64_t bit = uint64_t{1} << (id % 64);
    word = to ? word | bit : word & ~bit;
}

}  // namespace

FormatProgress::FormatProgress(std::shared_ptr<const AnswerFormat> format, int32_t begin, const SortedTokens& tokens,
                               std::vector<int32_t> ends, int64_t vocabulary)
    : format_(std::move(format)),
      states_(format_->grammar()),
      state_(states_.begin(begin)),
      tokens_(&tokens),
      ends_(std::move(ends)),
      words_(static_cast<size_t>(vocabulary + 63) / 64) {}

std::span<const uint64_t> FormatProgress::allowed() {
    auto known = known_.find(state_);
    if (known == known_.end()) {
        if (known_.size() >= known_max) known_.clear();
        known = known_.emplace(state_, bits_of(state_)).first;
    }
    return known->second;
}

FormatProgress::Bits FormatProgress::bits_of(State state) {
    Bits bits(words_, 0);
    if (state != GrammarStates::dead) set_tokens(state, bits);
    for (const int32_t end : ends_) set(bits, end, states_.may_end(state));
    if (std::ranges::all_of(bits, [](uint64_t word) { return word == 0; })) bits.clear();
    return bits;
}

/// Those whose bytes lead from this state to another.
void FormatProgress::set_tokens(State state, Bits& bits) {
    const size_t work_end = states_.work() + work_max;
    walked_.assign(1, state);  // and the states behind each byte of the token before
    for (size_t i = 0; i < tokens_->size() && states_.work() < work_end; ++i) {
        // Shares more with the token before than of that one could go on.
        if (tokens_->shared(i) >= walked_.size()) continue;
        walked_.resize(tokens_->shared(i) + 1);
        const std::string_view bytes = tokens_->bytes(i);
        while (walked_.size() <= bytes.size()) {
            const State next = states_.next(walked_.back(), static_cast<uint8_t>(bytes[walked_.size() - 1]));
            if (next == GrammarStates::dead) break;
            walked_.push_back(next);
        }
        if (walked_.size() > bytes.size()) set(bits, tokens_->id(i), true);
    }
}

void FormatProgress::take(std::string_view bytes) {
    for (const char byte : bytes) {
        if (state_ == GrammarStates::dead) break;
        state_ = states_.next(state_, static_cast<uint8_t>(byte));
    }
    if (states_.count() <= states_max) return;
    state_ = states_.keep_only(state_);
    known_.clear();
}

}  // namespace rondo

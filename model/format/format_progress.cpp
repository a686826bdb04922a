#include "model/format/format_progress.hpp"

#include <algorithm>
#include <utility>

#include "config/limits.hpp"

namespace rondo {

namespace {

constexpr size_t known_max = 32;        // bits of so many states are kept
constexpr int32_t states_max = 4096;    // more are forgotten when the next token was taken
constexpr size_t work_max = 4'000'000;  // of one token's bits: what took longer to know may not come

void set(std::vector<uint64_t>& bits, int32_t id) {
    bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
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
    bool any = false;
    if (state != GrammarStates::dead) {
        const size_t work_end = states_.work() + work_max;
        walked_.assign(1, state);  // by bytes of the token before
        for (size_t i = 0; i < tokens_->size(); ++i) {
            // Shares more with the token before than of that one could go on.
            if (tokens_->shared(i) >= walked_.size()) continue;
            walked_.resize(tokens_->shared(i) + 1);
            const std::string_view bytes = tokens_->bytes(i);
            while (walked_.size() <= bytes.size()) {
                const State next = states_.next(walked_.back(), static_cast<uint8_t>(bytes[walked_.size() - 1]));
                if (next == GrammarStates::dead) break;
                walked_.push_back(next);
            }
            if (walked_.size() <= bytes.size()) continue;
            set(bits, tokens_->id(i));
            any = true;
            if (states_.work() > work_end) break;
        }
        for (const int32_t end : ends_) {
            const auto word = static_cast<size_t>(end) / 64;
            bits[word] &= ~(uint64_t{1} << (end % 64));
            if (states_.may_end(state)) bits[word] |= uint64_t{1} << (end % 64);
        }
        any = std::ranges::any_of(bits, [](uint64_t word) { return word != 0; });
    }
    if (!any) bits.clear();
    return bits;
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

#include "model/sampler.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "config/limits.hpp"
#include "config/mix_bits.hpp"
#include "config/sampling_ranges.hpp"

namespace rondo {

namespace {

/// JSON has no −Inf, so an impossible token's log-probability is this.
constexpr float logprob_min = -9999.0F;
constexpr float impossible = -std::numeric_limits<float>::infinity();

std::string written(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

Status in_range(const std::string& field, double value, const NumberRange& range) {
    if (range.holds(value)) return {};
    return make_error(ErrorCode::out_of_range, field + ": is " + written(value) + ", must be " +
                                                   (range.low_included ? "" : "above ") + written(range.low) + " to " +
                                                   written(range.high));
}

/// What is allowed can be chosen, however unlikely: a broken logit is made a small one.
void keep_allowed(std::span<float> logits, std::span<const uint64_t> allowed) {
    const auto sound = [](float logit) { return logit > impossible ? logit : std::numeric_limits<float>::lowest(); };
    for (size_t word = 0; word < allowed.size() && !logits.empty(); ++word) {
        const std::span<float> some = logits.first(std::min<size_t>(64, logits.size()));
        logits = logits.subspan(some.size());
        if (allowed[word] == ~uint64_t{0}) {  // most words are all or none
            std::ranges::transform(some, some.begin(), sound);
        } else if (allowed[word] == 0) {
            std::ranges::fill(some, impossible);
        } else {
            for (size_t i = 0; i < some.size(); ++i)
                some[i] = (allowed[word] >> i & 1) != 0 ? sound(some[i]) : impossible;
        }
    }
}

bool penalises(const SamplingParams& params) {
    return params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F || params.frequency_penalty != 0.0F;
}

}  // namespace

Status SamplingParams::check(int64_t vocabulary) const {
    RONDO_TRY(in_range("temperature", temperature, sampling_ranges::temperature));
    RONDO_TRY(in_range("top_k", top_k, {0, static_cast<double>(vocabulary)}));
    RONDO_TRY(in_range("top_p", top_p, sampling_ranges::top_p));
    RONDO_TRY(in_range("min_p", min_p, sampling_ranges::min_p));
    RONDO_TRY(in_range("repetition_penalty", repetition_penalty, sampling_ranges::repetition_penalty));
    RONDO_TRY(in_range("presence_penalty", presence_penalty, sampling_ranges::presence_penalty));
    RONDO_TRY(in_range("frequency_penalty", frequency_penalty, sampling_ranges::frequency_penalty));
    RONDO_TRY(in_range("logprobs", logprobs, {-1, limits::logprobs_max}));
    RONDO_TRY(
        in_range("logit_bias entries", static_cast<double>(logit_bias.size()), {0, limits::logit_bias_entries_max}));
    for (const auto& [id, bias] : logit_bias) {
        RONDO_TRY(in_range("logit_bias token id", id, {0, static_cast<double>(vocabulary - 1)}));
        RONDO_TRY(in_range("logit_bias[" + std::to_string(id) + "]", bias, sampling_ranges::logit_bias));
    }
    return {};
}

Sampler::Sampler(SamplingParams params, int64_t vocabulary)
    : params_(std::move(params)),
      // Mixed, so that neighbouring seeds do not count through the same states one step apart.
      random_state_(mix_bits(params_.seed + mix_step)),
      blocks_(vocabulary, params_.temperature > 0.0F || params_.logprobs > 0) {
    assert(vocabulary > 0);
    const auto size = static_cast<size_t>(vocabulary);
    if (penalises(params_)) {
        seen_.reserve(size);
        seen_at_.assign(size, -1);
    }
    if (params_.logprobs >= 0) {
        raw_logits_.resize(size);
        top_.reserve(static_cast<size_t>(params_.logprobs));
    }
}

void Sampler::observe_prompt(std::span<const int32_t> ids) {
    for (const int32_t id : ids) remember(id);
}

/// Nothing for ids that have no logit, and when no penalty asks.
Sampler::Seen* Sampler::remember(int32_t id) {
    if (id < 0 || static_cast<size_t>(id) >= seen_at_.size()) return nullptr;
    int32_t& at = seen_at_[static_cast<size_t>(id)];
    if (at < 0) {
        at = static_cast<int32_t>(seen_.size());
        seen_.push_back({id, 0});
    }
    return &seen_[static_cast<size_t>(at)];
}

Sampled Sampler::next(std::span<float> logits, std::span<const int32_t> never, std::span<const uint64_t> allowed) {
    if (params_.logprobs >= 0) note_logprobs(logits);
    penalise(logits);
    for (const int32_t id : never) logits[static_cast<size_t>(id)] = impossible;
    if (!allowed.empty()) keep_allowed(logits, allowed);
    const float largest = blocks_.scan(logits);
    const bool sampled = params_.temperature > 0.0F && std::isfinite(largest);
    const int32_t id = sampled ? draw(logits, largest) : blocks_.argmax(logits, largest);
    if (Seen* seen = remember(id)) ++seen->in_answer;
    return {id, raw_logits_.empty() ? 0.0F : logprob(raw_logits_[static_cast<size_t>(id)]), top_};
}

void Sampler::note_logprobs(std::span<const float> logits) {
    std::copy(logits.begin(), logits.end(), raw_logits_.begin());
    raw_largest_ = blocks_.scan(logits);
    raw_log_mass_ = std::isfinite(raw_largest_) ? std::log(blocks_.mass(logits, raw_largest_)) : 0.0;
    top_.clear();
    if (params_.logprobs == 0) return;
    const auto best = blocks_.top(logits, static_cast<size_t>(params_.logprobs));
    std::sort(best.begin(), best.end(), [](const Candidate& a, const Candidate& b) {
        return a.value > b.value || (a.value == b.value && a.id < b.id);
    });
    for (const Candidate& each : best) top_.push_back({each.id, logprob(each.value)});
}

float Sampler::logprob(float logit) const {
    // Equal to the largest covers +Inf, from which nothing can be subtracted; the first comparison is false for NaN.
    if (!(logit > impossible)) return logprob_min;
    const double below = logit == raw_largest_ ? 0.0 : static_cast<double>(logit) - raw_largest_;
    return std::max(logprob_min, static_cast<float>(below - raw_log_mass_));
}

void Sampler::penalise(std::span<float> logits) const {
    for (const Seen& seen : seen_) {
        float& logit = logits[static_cast<size_t>(seen.id)];
        logit = logit > 0.0F ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
        logit -= params_.frequency_penalty * static_cast<float>(seen.in_answer);
        if (seen.in_answer > 0) logit -= params_.presence_penalty;
    }
    for (const auto& [id, bias] : params_.logit_bias) logits[static_cast<size_t>(id)] += bias;
}

int32_t Sampler::draw(std::span<float> logits, float largest) {
    Cut cut;
    if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < logits.size()) {
        const Candidate last = blocks_.top(logits, static_cast<size_t>(params_.top_k)).back();
        cut = {last.value, last.id};
    }
    blocks_.weigh(logits, largest, params_.temperature, cut);
    if (params_.top_p < 1.0F) blocks_.keep(logits, blocks_.nucleus(logits, params_.top_p));
    if (params_.min_p > 0.0F) blocks_.keep(logits, {.value = params_.min_p});  // the largest weight is exp(0) = 1
    return blocks_.pick(logits, random());
}

/// Uniform in [0, 1): the state is only a counter, the mixing makes the number.
double Sampler::random() {
    random_state_ += mix_step;
    return static_cast<double>(mix_bits(random_state_) >> 11) * 0x1.0p-53;
}

}  // namespace rondo

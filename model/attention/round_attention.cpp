#include "model/attention/round_attention.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/device_buffer.hpp"
#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo {

namespace {

// As many rows as this are all looked at; of more, so many.
constexpr int64_t rows_all = 256;
constexpr int rows_sampled = 64;

}  // namespace

std::vector<int64_t> apart_from_preamble(std::vector<int64_t> round_ends, int64_t preamble_tokens) {
    constexpr int64_t least = 4;  // keys that draw attention whatever they are
    const int64_t end = preamble_tokens < least ? kv_block_tokens : preamble_tokens;
    if (round_ends.empty() || end < round_ends.front()) round_ends.insert(round_ends.begin(), end);
    return round_ends;
}

Result<std::unique_ptr<RoundAttention>> RoundAttention::create(const ModelSpec& spec, const KvPool& pool,
                                                               const RoundSettings& settings) {
    if (settings.method == RoundSettings::Method::none) return std::unique_ptr<RoundAttention>();
    const int below = pool.shape().lower_layers;
    if (!pool.shape().has(LayerGroup::lower) || !pool.shape().has(LayerGroup::upper))
        return make_error(ErrorCode::internal, "choosing rounds needs a pool with layers on both sides of a watershed");
    return std::unique_ptr<RoundAttention>(new RoundAttention(spec, settings, below));
}

void RoundAttention::begin_message(int64_t first, int64_t begin, int64_t end) {
    first_ = first;
    begin_ = begin;
    end_ = end;
    looked_.clear();
    stats_ = {.attended = stats_.attended, .causal = stats_.causal};
}

void RoundAttention::begin_chunk(SequenceKv& kv, int64_t token) {
    kv.show_rounds();
    std::erase_if(looked_, [token](const Looked& one) { return one.token >= token; });
}

/// They begin behind what always stays, and end before the message.
std::pair<int64_t, int64_t> RoundAttention::past(const SequenceKv& kv) const {
    int64_t begin = 1;
    while (begin < kv.rounds() && kv.round_begin(begin) < first_) ++begin;
    int64_t end = begin;
    while (end + 1 < kv.rounds() && kv.round_begin(end + 1) <= begin_) ++end;
    return {begin, end};
}

bool RoundAttention::chooses(const SequenceKv& kv, int64_t token) const {
    if (token < begin_) return false;
    const auto [begin, end] = past(kv);
    return end - begin > 1;
}

Status RoundAttention::look(Device& device, const SequenceKv& kv, int64_t token, const Tensor& q, ScoreArgs args) {
    const int64_t rows = std::min(end_ - token, q.rows);
    if (rows <= 0) return Status::ok();  // of the answer
    take_.host() =
        sample_rows(rows, rows <= rows_all ? static_cast<int>(rows_all) : rows_sampled, static_cast<uint64_t>(token));
    row_keys_.host().assign(take_.host().begin(), take_.host().end());
    for (int32_t& key : row_keys_.host()) key += static_cast<int32_t>(token);
    RONDO_TRY(take_.send(device));
    RONDO_TRY(row_keys_.send(device));
    const auto taken = std::ssize(take_.host());
    RONDO_TRY(grow(device, queries_, static_cast<size_t>(taken * q.columns) * sizeof(float)));
    args.q = Tensor::of(queries_.data(), DType::f32, taken, q.columns);
    RONDO_TRY(device.ops().take_rows(args.q, q, take_.data()));
    args.row_keys = row_keys_.data();
    args.keys = token + rows;
    RONDO_TRY(score(device, args));

    Looked& here = looked_.emplace_back(Looked{token, {}});
    const auto [past_begin, past_end] = past(kv);
    for (int64_t round = past_begin; round < past_end; ++round) {
        const int64_t first = kv.round_begin(round), end = kv.round_begin(round + 1);
        double mass = 0.0;
        for (int64_t head = 0; head < spec_.kv_heads; ++head) {
            const auto of_head = sums_.subspan(static_cast<size_t>(head * args.keys + first));
            mass = std::accumulate(of_head.begin(), of_head.begin() + (end - first), mass);
        }
        here.masses.push_back(mass);
    }
    return Status::ok();
}

/// Each key's attention, summed over the rows, to where the host can read it.
Status RoundAttention::score(Device& device, const ScoreArgs& args) {
    const auto count = static_cast<size_t>(spec_.kv_heads * args.keys);
    RONDO_TRY(grow(device, scores_, count * sizeof(float)));
    RONDO_TRY(device.ops().score_keys(Tensor::of(scores_.data(), DType::f32, spec_.kv_heads, args.keys), args));
    sums_ = {scores_.as<float>(), count};
    if (!device.computes_in_host_memory()) {
        host_scores_.resize(count);
        RONDO_TRY(device.copy(host_scores_.data(), scores_.data(), sums_.size_bytes(), StreamId::compute));
        sums_ = host_scores_;
    }
    RONDO_ASSIGN(const Mark scored, device.record(StreamId::compute));
    return device.reach(scored);
}

/// Of the attention to past rounds, by round. Nothing or no number: all the same.
std::vector<double> RoundAttention::shares() const {
    std::vector<double> masses(looked_.front().masses.size(), 0.0);
    for (const Looked& one : looked_)
        for (size_t round = 0; round < masses.size(); ++round) masses[round] += one.masses[round];
    const double sum = std::accumulate(masses.begin(), masses.end(), 0.0);
    for (double& mass : masses) mass = sum > 0.0 ? mass / sum : 1.0 / static_cast<double>(masses.size());
    return masses;
}

void RoundAttention::choose(SequenceKv& kv) {
    if (looked_.empty()) return;
    const std::vector<double> masses = shares();
    const std::vector<int32_t> chosen = method_->choose(masses);
    const int64_t first = past(kv).first;
    std::vector<int64_t> left_out;
    for (size_t round = 0; round < masses.size(); ++round)
        if (!std::ranges::binary_search(chosen, static_cast<int32_t>(round)))
            left_out.push_back(static_cast<int64_t>(round) + first);
    kv.hide_rounds(LayerGroup::upper, left_out);
    if (kv.tokens() < end_) return;
    count(kv, masses, chosen);  // by the whole message
    queries_ = Buffer();        // a turn has many steps to come
    scores_ = Buffer();
}

void RoundAttention::count(const SequenceKv& kv, std::span<const double> masses, std::span<const int32_t> chosen) {
    stats_.rounds = std::ssize(masses);
    stats_.chosen = std::ssize(chosen);
    stats_.keys = kv.tokens(LayerGroup::lower);
    stats_.kept_keys = kv.tokens(LayerGroup::upper);
    stats_.mass = 0.0;
    for (const int32_t round : chosen) stats_.mass += masses[static_cast<size_t>(round)];
}

void RoundAttention::after_step(const SequenceKv& kv) {
    if (stats_.rounds == 0) return;
    const int64_t above = spec_.layers - layers_below_;
    stats_.causal += spec_.kv_heads * spec_.layers * kv.tokens();
    stats_.attended += spec_.kv_heads * (layers_below_ * kv.tokens() + above * kv.tokens(LayerGroup::upper));
}

}  // namespace rondo

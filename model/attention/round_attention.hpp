#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "config/result.hpp"
#include "config/settings.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "memory/device_table.hpp"
#include "memory/sequence_kv.hpp"
#include "model/attention/policies/round_selection/round_selection.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// What choosing rounds for a message has come to; nothing where there was no choice.
struct RoundStats {
    int64_t rounds = 0;  ///< earlier ones that there were, and of them those that stayed
    int64_t chosen = 0;
    int64_t keys = 0;  ///< of an upper layer that there were behind the message, and those that stayed
    int64_t kept_keys = 0;
    double mass = 0.0;     ///< share of the attention to earlier rounds that the chosen ones drew
    int64_t attended = 0;  ///< entries that steps of the answer attended to, by layer and KV head
    int64_t causal = 0;    ///< entries there were
};

/// The ends of a prompt's rounds, so that what stands before the first one is no part of it: so many tokens of system
/// prompts and the like, or the first block where there are next to none. It always stays.
std::vector<int64_t> apart_from_preamble(std::vector<int64_t> round_ends, int64_t preamble_tokens = 0);

/// Which rounds the layers above the watershed attend to, for one sequence: for a message's tokens and for the answer
/// behind it. What stands before the first round always stays, and so does the round of the message.
///
/// A message may come in several chunks. Each chooses by its own tokens and those before them, so that the answer goes
/// by all of them. Rounds that are left out are hidden in the sequence's upper group (SequenceKv::hide_rounds): nothing
/// of them is lost, and whoever wants the sequence whole shows them again.
///
///     begin_message → (begin_chunk → look → choose)… → answer
///
/// Used by one thread at a time, the one that issues to the device which computes a chunk. Another device may compute
/// the next one.
class RoundAttention {
public:
    /// Null where all rounds are attended to.
    static Result<std::unique_ptr<RoundAttention>> create(const ModelSpec& spec, const KvPool& pool,
                                                          const RoundSettings& settings);

    /// The message has the tokens [begin, end). What follows them is its answer, which chooses nothing. Rounds that
    /// begin before token `first` belong to what stands before the first one, however it was cut.
    void begin_message(int64_t first, int64_t begin, int64_t end);
    /// Of so many tokens from this one on those that a chunk takes: the message begins a chunk of its own.
    int64_t within_chunk(int64_t token, int64_t tokens) const {
        return token < begin_ ? std::min(tokens, begin_ - token) : tokens;
    }
    /// A chunk begins at this token. All rounds are seen again; what later chunks have looked at is forgotten.
    void begin_chunk(SequenceKv& kv, int64_t token);
    /// Whether a chunk that begins there chooses: it is the message's, and there are rounds to choose from.
    bool chooses(const SequenceKv& kv, int64_t token) const;
    /// Whether this layer is the watershed, whose attention is looked at.
    bool is_watershed(int layer) const { return layer + 1 == layers_below_; }
    int layers_below() const { return layers_below_; }
    /// What a chunk's tokens attend to in the watershed's layer; the rows of `q` are theirs, the first one of `token`.
    /// `device` computes the chunk.
    Status look(Device& device, const SequenceKv& kv, int64_t token, const Tensor& q, ScoreArgs args);
    /// By all that was looked at: hides the rounds that do not stay.
    void choose(SequenceKv& kv);

    /// A step of the answer has been computed.
    void after_step(const SequenceKv& kv);

    const RoundStats& stats() const { return stats_; }

private:
    RoundAttention(const ModelSpec& spec, const RoundSettings& settings, int layers_below)
        : spec_(spec), method_(make_round_selection(settings)), layers_below_(layers_below) {}
    /// The rounds [begin, end) of the sequence that are past.
    std::pair<int64_t, int64_t> past(const SequenceKv& kv) const;
    Status score(Device& device, const ScoreArgs& args);
    std::vector<double> shares() const;
    void count(const SequenceKv& kv, std::span<const double> masses, std::span<const int32_t> chosen);

    /// What the rows of a chunk looked at, by round from the first past one on.
    struct Looked {
        int64_t token = 0;
        std::vector<double> masses;
    };

    const ModelSpec& spec_;
    std::unique_ptr<RoundSelection> method_;
    int layers_below_;
    int64_t first_ = 0;
    int64_t begin_ = 0, end_ = 0;  // of the message
    std::vector<Looked> looked_;   // by chunk
    Buffer queries_, scores_;      // [rows, H·d] f32; [KV heads, keys] f32
    DeviceTable<int32_t> take_, row_keys_;
    std::vector<float> host_scores_;
    std::span<const float> sums_;  // of them, where the host can read them
    RoundStats stats_;
};

}  // namespace rondo

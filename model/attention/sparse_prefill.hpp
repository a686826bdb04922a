#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "memory/device_table.hpp"
#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"
#include "model/attention/prompt_probe.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// What sparse prefill did and cost, summed over layers and heads.
struct SparsePrefillStats {
    int64_t covered = 0;  ///< entries attended to, where `measure` says so
    int64_t causal = 0;   ///< entries there are
    double mass = 0.0;    ///< share of the sampled rows' attention that the lines hold, summed; likewise
    int64_t masses = 0;   ///< how many such shares
    double score_seconds = 0.0;
    double select_seconds = 0.0;  ///< of all threads, within score_seconds
    double attend_seconds = 0.0;

    SparsePrefillStats& operator+=(const SparsePrefillStats& other);
};

/// Attends a prompt's chunks by lines: scores some of the rows exactly, lets a method choose, runs what it chose. One
/// object serves all sequences of a device, a chunk of one sequence at a time.
class SparsePrefill {
public:
    /// From the file that a method names; none without one.
    static Result<HeadPatterns> read_patterns(const ModelSpec& spec, const PrefillAttention& settings);
    static Result<std::unique_ptr<SparsePrefill>> create(const ModelSpec& spec, Device& device,
                                                         const PrefillAttention& settings, HeadPatterns patterns);
    static Result<std::unique_ptr<SparsePrefill>> create(const ModelSpec& spec, Device& device,
                                                         const PrefillAttention& settings);

    /// A short prompt, or one that sees few keys, costs less when nothing is chosen.
    bool wanted(int64_t rows, int64_t keys) const;
    /// As Ops::attend for one sequence, whose rows of queries are `q` and whose blocks begin at these keys. `seed` is
    /// the chunk's own. A probe looks at what is attended to.
    Status attend(int layer, const AttendArgs& args, const Tensor& q, std::span<const int32_t> block_begin,
                  uint64_t seed, PromptProbe* probe = nullptr);

    /// A layer of such a prompt, which was attended to in full.
    void count_dense(int64_t rows, int64_t keys);

    /// What is counted costs time: of every how many-th layer that is attended to; 0: of none.
    void measure(int every) { measure_every_ = every; }
    const SparsePrefillStats& stats() const { return stats_; }
    void clear_stats() { stats_ = {}; }

private:
    SparsePrefill(const ModelSpec& spec, Device& device, const PrefillAttention& settings, HeadPatterns patterns);
    Status choose(int layer, const AttendArgs& args, const Tensor& q, const ChunkShape& chunk, uint64_t seed);
    Result<ScoreArgs> rows_to_score(std::span<const int32_t> rows, const Buffer& queries, const AttendArgs& args,
                                    const Tensor& q, const ChunkShape& chunk);
    Status show(PromptProbe& probe, int layer, const AttendArgs& args, const Tensor& q, const ChunkShape& chunk);
    Status score_blocks(ScoreArgs args, const Tensor& q, const ChunkShape& chunk);
    void note(const ChunkShape& chunk, int head, const SampledRows& sampled);
    Result<LineTables> tables();

    const ModelSpec& spec_;
    Device& device_;
    PrefillAttention settings_;
    std::unique_ptr<PrefillSparsity> method_;
    Buffer queries_;                // [sampled rows, H·d] f32
    std::vector<int32_t> sampled_;  // rows of the chunk
    DeviceTable<int32_t> take_, row_keys_;
    std::vector<float> block_scores_;  // [heads, row blocks, blocks], where the method wants them
    std::vector<Lines> lines_;         // by head
    DeviceTable<int32_t> column_begin_, columns_, band_begin_, bands_, block_begin_, blocks_, dense_rows_;
    struct HeadNote {
        double select_seconds = 0.0;
        std::optional<double> mass;  // none where no rows were looked at
        Coverage coverage;
    };
    std::vector<HeadNote> notes_;  // by head
    int measure_every_ = 0;
    int64_t attended_ = 0;   // layers
    bool measures_ = false;  // this one
    SparsePrefillStats stats_;
};

}  // namespace rondo

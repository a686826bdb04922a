#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "kernels/ops.hpp"
#include "memory/sequence_kv.hpp"
#include "model/files/spec.hpp"

namespace rondo {

struct SequenceAttention;

/// Some rows of one sequence in a batch: tokens whose keys the sequence has room for and the batch is to write.
struct BatchPart {
    const SequenceKv* kv = nullptr;
    int64_t first_token = 0;
    std::span<const int32_t> ids;
    /// Decode rows are `invariant`: their results do not depend on what else is in the batch. Prefill chunks are
    /// `bulk`.
    Rows rows = Rows::bulk;
    enum class Logits { none, last, all } logits = Logits::last;
    /// How the rows attend; null: to everything.
    const SequenceAttention* attention = nullptr;

    int64_t row_count() const { return static_cast<int64_t>(ids.size()); }
    /// The rows see keys of tokens before this one alone, whatever the sequence holds behind it.
    int64_t end_token() const { return first_token + row_count(); }
    int64_t logit_count() const { return logits == Logits::all ? row_count() : logits == Logits::last ? 1 : 0; }
};

/// Refuses ids outside a vocabulary.
Status check_ids(std::span<const int32_t> ids, int64_t vocabulary);

/// The rows of one step: which tokens, where their KV goes, what they may see; and their hidden states, so that a step
/// can stop at a layer and go on later. Capacity is fixed, so a warm step allocates nothing and device pointers stay.
///     clear → add… → prepare → Transformer::forward (by layer ranges) → Transformer::logits
/// In the last layer, once the KV of all rows is written, the batch may be narrowed to the rows whose logits are
/// wanted.
class Batch {
public:
    struct Limits {
        int64_t rows_max = 512;
        int sequences_max = 1;              ///< parts, that is
        int64_t context_tokens_max = 4096;  ///< of one sequence
    };

    static Result<Batch> create(Device& device, const ModelSpec& spec, const Limits& limits);

    void clear();
    /// Refuses what does not fit: rows, parts, context, or more blocks than the tables hold (of very short rounds).
    /// Refuses ids outside the vocabulary, and keys that the sequence has no room for or that another part writes.
    /// Nothing changes where it refuses. A sequence may have several parts. A part sees what those before its keys
    /// write.
    Status add(const BatchPart& part);
    /// Lays rows out (bulk parts first) and sends the tables to the device.
    Status prepare();
    /// From here on the batch's rows are its logit rows, in their order. The caller moves what it holds by row.
    void narrow();
    bool narrowed() const { return narrowed_; }

    int64_t rows() const { return rows_; }
    int64_t bulk_rows() const { return bulk_rows_; }
    int bulk_sequences() const { return bulk_sequences_; }
    int64_t logit_rows() const { return logit_rows_; }
    /// First of `part`'s rows in the logits, in the order in which parts were added.
    int64_t logits_of(size_t part) const { return logits_of_[part]; }
    /// Logit rows [0, bulk_logit_rows()) are computed in bulk, the others invariant.
    int64_t bulk_logit_rows() const { return bulk_logit_rows_; }

    // Device memory, valid after prepare().
    const int32_t* ids() const { return table(ids_); }
    const int32_t* positions() const { return table(positions_); }
    const int32_t* slots(LayerGroup group) const { return table(slots_[group]); }
    const int32_t* logit_row_indices() const { return table(logit_indices_); }
    /// Sequences [first, first + count) of the batch, with a group's blocks.
    SequenceTables sequences(LayerGroup group, int first, int count) const;
    int sequence_count() const { return static_cast<int>(parts_.size()); }
    /// What was added as the batch's sequence s, the first of its rows and their number.
    const BatchPart& part(int s) const { return parts_[static_cast<size_t>(order_[static_cast<size_t>(s)])]; }
    int64_t first_row(int s) const { return staging()[row_begin() + s]; }
    int64_t rows_of(int s) const { return first_row(s + 1) - first_row(s); }
    /// First keys of the sequence's blocks in a group as far as its rows see, and behind them the part's end.
    std::span<const int32_t> block_begin(LayerGroup group, int s) const;
    Tensor hidden() const { return Tensor::of(hidden_.data(), DType::f32, rows_, width_); }

private:
    Batch() = default;
    const int32_t* table(int64_t offset) const {
        return (tables_.data() != nullptr ? tables_ : staging_).as<int32_t>() + offset;
    }
    int32_t* staging() const { return staging_.as<int32_t>(); }
    int64_t row_begin() const { return narrowed_ ? logit_begin_ : row_begin_; }
    int64_t place_flat_tables();
    void place_block_tables();
    void write_tables();
    Status send_tables();
    Status check_keys(const BatchPart& part) const;
    void count_logits();
    void order_parts();
    void write_blocks(LayerGroup group, int sequence, const BatchPart& part);
    void write_part(int sequence, const BatchPart& part, int64_t row, int64_t& logit);

    Device* device_ = nullptr;
    Limits limits_;
    int64_t width_ = 0;
    int64_t vocabulary_ = 0;
    std::vector<BatchPart> parts_;
    std::vector<int> order_;  // parts_ indices, bulk first
    std::vector<int64_t> logits_of_;
    int64_t rows_ = 0, bulk_rows_ = 0, logit_rows_ = 0, bulk_logit_rows_ = 0;
    int bulk_sequences_ = 0;
    bool narrowed_ = false;

    // The tables, one behind the other, as the host writes them; and where the device does not read the host's memory,
    // its copy of them. Those by block end the run and are placed anew for each step, as long as its sequences ask for.
    Buffer staging_, tables_;
    Mark sent_;  // the host may write the tables again
    int64_t ids_ = 0, positions_ = 0, logit_indices_ = 0, row_begin_ = 0, logit_begin_ = 0;
    PerGroup<int64_t> slots_, kv_length_, block_count_, block_begin_, blocks_;
    int64_t blocks_stride_ = 0;
    int64_t flat_entries_ = 0, entries_ = 0;  // of the tables that are not by block; of all
    Buffer hidden_;                           // [rows_max, D] f32
};

}  // namespace rondo

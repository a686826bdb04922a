#include "model/batch.hpp"

#include <algorithm>
#include <string>

#include "config/checked.hpp"

namespace rondo {

namespace {

/// Blocks a sequence may hold. Each round begins one, however few tokens it has. Who serves conversations lets a prompt
/// in only if its known rounds take no more blocks than a full context. The same holds for its new rounds, and the
/// answer behind them may take nearly as many again. A sequence that does not fit is refused, and ends.
int64_t blocks_max(const Batch::Limits& limits) {
    return 3 * ceil_div<int64_t>(limits.context_tokens_max, kv_block_tokens) + 2;
}

}  // namespace

Status check_ids(std::span<const int32_t> ids, int64_t vocabulary) {
    for (const int32_t id : ids) {
        if (id >= 0 && id < vocabulary) continue;
        return make_error(ErrorCode::out_of_range,
                          "token id is " + std::to_string(id) + ", must be 0 to " + std::to_string(vocabulary - 1));
    }
    return Status::ok();
}

Result<Batch> Batch::create(Device& device, const ModelSpec& spec, const Limits& limits) {
    Batch batch;
    batch.device_ = &device;
    batch.limits_ = limits;
    batch.width_ = spec.width;
    batch.vocabulary_ = spec.vocabulary;
    const auto sequences = static_cast<size_t>(limits.sequences_max);
    batch.parts_.reserve(sequences);
    batch.order_.reserve(sequences);
    batch.logits_of_.reserve(sequences);
    const int64_t entries =
        batch.place_flat_tables() + 2 * std::ssize(layer_groups) * limits.sequences_max * (blocks_max(limits) + 1);
    const size_t bytes = static_cast<size_t>(entries) * sizeof(int32_t);
    RONDO_ASSIGN(batch.staging_, device.allocate_host(bytes));
    if (!device.computes_in_host_memory()) {
        RONDO_ASSIGN(batch.tables_, device.allocate(bytes));
    }
    RONDO_ASSIGN(batch.hidden_, device.allocate(static_cast<size_t>(limits.rows_max * spec.width) * sizeof(float)));
    return batch;
}

void Batch::clear() {
    parts_.clear();
    order_.clear();
    logits_of_.clear();
    rows_ = bulk_rows_ = logit_rows_ = bulk_logit_rows_ = 0;
    bulk_sequences_ = 0;
    narrowed_ = false;
}

Status Batch::add(const BatchPart& part) {
    if (part.kv == nullptr || part.ids.empty())
        return make_error(ErrorCode::invalid_argument, "a part of a batch must have a sequence and tokens");
    if (sequence_count() >= limits_.sequences_max || rows_ + part.row_count() > limits_.rows_max) {
        return make_error(ErrorCode::out_of_range, "a batch of " + std::to_string(sequence_count() + 1) +
                                                       " sequences and " + std::to_string(rows_ + part.row_count()) +
                                                       " rows, must be at most " +
                                                       std::to_string(limits_.sequences_max) + " sequences and " +
                                                       std::to_string(limits_.rows_max) + " rows");
    }
    if (part.end_token() > limits_.context_tokens_max) {
        return make_error(ErrorCode::out_of_range, "a sequence of " + std::to_string(part.end_token()) +
                                                       " tokens, must be at most the context of " +
                                                       std::to_string(limits_.context_tokens_max));
    }
    RONDO_TRY(check_keys(part));
    RONDO_TRY(check_ids(part.ids, vocabulary_));
    parts_.push_back(part);
    rows_ += part.row_count();
    return Status::ok();
}

Status Batch::check_keys(const BatchPart& part) const {
    if (part.first_token < part.kv->first_held() || part.end_token() > part.kv->tokens()) {
        return make_error(ErrorCode::invalid_argument, "rows of keys " + std::to_string(part.first_token) + " to " +
                                                           std::to_string(part.end_token() - 1) +
                                                           "; the sequence must have room for them, and holds " +
                                                           std::to_string(part.kv->first_held()) + " to " +
                                                           std::to_string(part.kv->tokens() - 1));
    }
    for (const BatchPart& other : parts_) {
        if (other.kv == part.kv && other.first_token < part.end_token() && part.first_token < other.end_token())
            return make_error(ErrorCode::invalid_argument, "keys that another part of the batch writes");
    }
    int64_t blocks = 0;
    for (const LayerGroup group : layer_groups) {
        if (part.kv->blocks(group).empty()) continue;
        blocks = std::max(blocks, std::ssize(part.kv->blocks(group)));
        if (part.kv->key_of(group, part.end_token()) - part.kv->key_of(group, part.first_token) < part.row_count())
            return make_error(ErrorCode::invalid_argument, "rows of a round that a layer group does not hold");
    }
    if (blocks <= blocks_max(limits_)) return Status::ok();
    return make_error(ErrorCode::out_of_range, "a sequence of " + std::to_string(blocks) +
                                                   " KV blocks; the batch holds " +
                                                   std::to_string(blocks_max(limits_)) + ", so rounds must be longer");
}

/// These have one place for good, sized by the limits.
int64_t Batch::place_flat_tables() {
    int64_t entries = 0;
    const auto place = [&](int64_t& table, int64_t count) {
        table = entries;
        entries += count;
    };
    place(ids_, limits_.rows_max);
    place(positions_, limits_.rows_max);
    for (int64_t& slots : slots_.values) place(slots, limits_.rows_max);
    place(logit_indices_, limits_.rows_max);
    place(row_begin_, limits_.sequences_max + 1);
    place(logit_begin_, limits_.sequences_max + 1);
    for (int64_t& lengths : kv_length_.values) place(lengths, limits_.sequences_max);
    for (int64_t& counts : block_count_.values) place(counts, limits_.sequences_max);
    flat_entries_ = entries;
    return entries;
}

/// As short as the sequence with the most blocks allows, so that one copy sends them all.
void Batch::place_block_tables() {
    blocks_stride_ = 0;
    for (const BatchPart& part : parts_)
        for (const LayerGroup group : layer_groups)
            blocks_stride_ = std::max(blocks_stride_, std::ssize(part.kv->block_begin(group)));
    entries_ = flat_entries_;
    for (const LayerGroup group : layer_groups) {
        for (int64_t* const table : {&block_begin_[group], &blocks_[group]}) {
            *table = entries_;
            entries_ += sequence_count() * blocks_stride_;
        }
    }
}

void Batch::count_logits() {
    logit_rows_ = 0;
    bulk_logit_rows_ = 0;
    bool many = false;  // the last rows of a few prompts are not worth a GEMM
    for (const BatchPart& part : parts_) {
        logit_rows_ += part.logit_count();
        if (part.rows == Rows::invariant) continue;
        bulk_logit_rows_ += part.logit_count();
        many = many || part.logits == BatchPart::Logits::all;
    }
    if (!many) bulk_logit_rows_ = 0;
}

void Batch::order_parts() {
    order_.clear();
    for (const Rows policy : {Rows::bulk, Rows::invariant}) {
        for (size_t i = 0; i < parts_.size(); ++i) {
            if (parts_[i].rows == policy) order_.push_back(static_cast<int>(i));
        }
        if (policy == Rows::bulk) bulk_sequences_ = static_cast<int>(order_.size());
    }
}

Status Batch::send_tables() {
    if (tables_.data() == nullptr) return Status::ok();
    const size_t bytes = static_cast<size_t>(entries_) * sizeof(int32_t);
    RONDO_TRY(device_->copy(tables_.data(), staging(), bytes, StreamId::compute));
    RONDO_ASSIGN(sent_, device_->record(StreamId::compute));
    return Status::ok();
}

/// Blocks as far as the part's rows see; where its last one has keys of a later part, its border is the part's end.
void Batch::write_blocks(LayerGroup group, int sequence, const BatchPart& part) {
    int32_t* const staging = this->staging();
    const auto blocks = part.kv->blocks(group), begins = part.kv->block_begin(group);
    const auto end = static_cast<int32_t>(part.kv->key_of(group, part.end_token()));
    const auto seen = std::lower_bound(begins.begin(), begins.end() - 1, end) - begins.begin();
    int32_t* const border =
        std::copy_n(begins.begin(), seen, staging + block_begin_[group] + sequence * blocks_stride_);
    *border = end;
    std::copy_n(blocks.begin(), seen, staging + blocks_[group] + sequence * blocks_stride_);
    staging[block_count_[group] + sequence] = static_cast<int32_t>(seen);
    staging[kv_length_[group] + sequence] = end;
}

void Batch::write_part(int sequence, const BatchPart& part, int64_t row, int64_t& logit) {
    int32_t* const staging = this->staging();
    const int64_t count = part.row_count();
    for (int64_t i = 0; i < count; ++i) {
        staging[ids_ + row + i] = part.ids[static_cast<size_t>(i)];
        staging[positions_ + row + i] = static_cast<int32_t>(part.first_token + i);
    }
    for (const LayerGroup group : layer_groups) {
        if (part.kv->blocks(group).empty()) continue;
        for (int64_t i = 0; i < count; ++i)
            staging[slots_[group] + row + i] = part.kv->slot(group, part.first_token + i);
        write_blocks(group, sequence, part);
    }
    staging[row_begin_ + sequence] = static_cast<int32_t>(row);
    staging[logit_begin_ + sequence] = static_cast<int32_t>(logit);
    for (int64_t i = count - part.logit_count(); i < count; ++i)
        staging[logit_indices_ + logit++] = static_cast<int32_t>(row + i);
}

Status Batch::prepare() {
    RONDO_TRY(device_->reach(sent_));
    count_logits();
    order_parts();
    place_block_tables();
    write_tables();
    return send_tables();
}

void Batch::write_tables() {
    logits_of_.assign(parts_.size(), 0);
    int64_t row = 0, logit = 0;
    bulk_rows_ = 0;
    for (size_t s = 0; s < order_.size(); ++s) {
        const auto part = static_cast<size_t>(order_[s]);
        logits_of_[part] = logit;
        write_part(static_cast<int>(s), parts_[part], row, logit);
        row += parts_[part].row_count();
        if (static_cast<int>(s) < bulk_sequences_) bulk_rows_ = row;
    }
    staging()[row_begin_ + sequence_count()] = static_cast<int32_t>(row);
    staging()[logit_begin_ + sequence_count()] = static_cast<int32_t>(logit);
}

std::span<const int32_t> Batch::block_begin(LayerGroup group, int s) const {
    const auto count = static_cast<size_t>(staging()[block_count_[group] + s]);
    return {staging() + block_begin_[group] + s * blocks_stride_, count + 1};
}

void Batch::narrow() {
    narrowed_ = true;
    rows_ = logit_rows_;
    bulk_rows_ = first_row(bulk_sequences_);
}

SequenceTables Batch::sequences(LayerGroup group, int first, int count) const {
    SequenceTables tables;
    tables.sequences = count;
    tables.blocks_stride = blocks_stride_;
    tables.row_begin = table(row_begin()) + first;
    tables.kv_length = table(kv_length_[group]) + first;
    tables.block_count = table(block_count_[group]) + first;
    tables.blocks = table(blocks_[group]) + first * blocks_stride_;
    tables.block_begin = table(block_begin_[group]) + first * blocks_stride_;
    for (int s = first; s < first + count; ++s) tables.rows += static_cast<int>(rows_of(s));
    return tables;
}

}  // namespace rondo

#include "model/attention/sparse_prefill.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "config/limits.hpp"
#include "config/method_rows.hpp"
#include "model/attention/policies/prefill_sparsity/line_sums.hpp"
#include "model/files/mapped_file.hpp"

namespace rondo {

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Share of the sampled rows' weights that lines hold.
double mass_held(const ChunkShape& chunk, const SampledRows& sampled, const Lines& lines) {
    double held = 0.0, total = 0.0;
    for (size_t r = 0; r < sampled.rows.size(); ++r) {
        const SampledRow row(chunk, sampled, r);
        const std::vector<uint8_t> attended = attended_keys(chunk, lines, sampled.rows[r]);
        for (size_t key = 0; key < attended.size(); ++key) {
            total += row.weights[key];
            held += static_cast<float>(attended[key]) * row.weights[key];
        }
    }
    return total > 0.0 ? held / total : 1.0;
}

SampledRows scored_rows(std::span<const int32_t> rows, const Tensor& weights, int layer, int head) {
    return {.rows = rows,
            .weights = {weights.row<const float>(0), static_cast<size_t>(weights.rows * weights.stride)},
            .stride = weights.stride,
            .layer = layer,
            .head = head};
}

}  // namespace

SparsePrefillStats& SparsePrefillStats::operator+=(const SparsePrefillStats& other) {
    covered += other.covered;
    causal += other.causal;
    mass += other.mass;
    masses += other.masses;
    score_seconds += other.score_seconds;
    select_seconds += other.select_seconds;
    attend_seconds += other.attend_seconds;
    return *this;
}

SparsePrefill::SparsePrefill(const ModelSpec& spec, Device& device, const PrefillAttention& settings,
                             HeadPatterns patterns)
    : spec_(spec),
      device_(device),
      settings_(settings),
      method_(make_prefill_sparsity(settings, std::move(patterns))),
      lines_(static_cast<size_t>(spec.heads)),
      notes_(static_cast<size_t>(spec.heads)) {}

Result<HeadPatterns> SparsePrefill::read_patterns(const ModelSpec& spec, const PrefillAttention& settings) {
    if (!heeds(row_of(settings.method), "patterns_file") || settings.patterns_file.empty()) return HeadPatterns();
    const std::string& file = settings.patterns_file;
    RONDO_ASSIGN(const std::string text, read_text_file(file, file, limits::config_bytes_max));
    return HeadPatterns::parse(text, file, spec.layers, spec.heads);
}

Result<std::unique_ptr<SparsePrefill>> SparsePrefill::create(const ModelSpec& spec, Device& device,
                                                             const PrefillAttention& settings) {
    RONDO_ASSIGN(HeadPatterns patterns, read_patterns(spec, settings));
    return create(spec, device, settings, std::move(patterns));
}

Result<std::unique_ptr<SparsePrefill>> SparsePrefill::create(const ModelSpec& spec, Device& device,
                                                             const PrefillAttention& settings, HeadPatterns patterns) {
    if (device.space().kind != DeviceKind::cpu)
        return make_error(ErrorCode::unsupported,
                          "choosing lines on a GPU: the method must be dense there; CPUs choose lines");
    std::unique_ptr<SparsePrefill> made(new SparsePrefill(spec, device, settings, std::move(patterns)));
    const PrefillSparsity::Sampling sampling = made->method_->sampling();
    const int64_t floats = int64_t{std::max(sampling.rows, sampling.all_up_to)} * spec.heads * spec.head_dim;
    if (floats > 0) {
        RONDO_ASSIGN(made->queries_, device.allocate(static_cast<size_t>(floats) * sizeof(float)));
    }
    const auto rows = static_cast<size_t>(std::max(sampling.rows, sampling.all_up_to));
    for (DeviceTable<int32_t>* table : {&made->take_, &made->row_keys_}) RONDO_TRY(table->reserve(device, rows));
    const auto borders = static_cast<size_t>(spec.heads) + 1;
    for (DeviceTable<int32_t>* table :
         {&made->column_begin_, &made->band_begin_, &made->block_begin_, &made->dense_rows_})
        RONDO_TRY(table->reserve(device, borders));
    return made;
}

bool SparsePrefill::wanted(int64_t rows, int64_t keys) const {
    return keys >= settings_.min_tokens && rows >= std::min(settings_.min_tokens / 4, 128);
}

void SparsePrefill::count_dense(int64_t rows, int64_t keys) {
    if (measure_every_ == 0 || attended_++ % measure_every_ != 0) return;
    const int64_t entries = spec_.heads * (rows * (keys - rows) + rows * (rows + 1) / 2);
    stats_.covered += entries;
    stats_.causal += entries;
}

void SparsePrefill::note(const ChunkShape& chunk, int head, const SampledRows& sampled) {
    const Lines& lines = lines_[static_cast<size_t>(head)];
    HeadNote& note = notes_[static_cast<size_t>(head)];
    note.coverage = coverage(chunk, lines);
    note.mass.reset();
    if (!sampled.rows.empty()) note.mass = mass_held(chunk, sampled, lines);
}

Status SparsePrefill::choose(int layer, const AttendArgs& args, const Tensor& q, const ChunkShape& chunk,
                             uint64_t seed) {
    const PrefillSparsity::Sampling sampling = method_->sampling();
    const auto choose_head = [&](int head, const SampledRows& sampled) {
        const double start = now();
        method_->select(chunk, sampled, lines_[static_cast<size_t>(head)]);
        notes_[static_cast<size_t>(head)].select_seconds = now() - start;
        if (measures_) note(chunk, head, sampled);
    };
    if (sampling.rows == 0) {
        device_.run_tasks(spec_.heads, [&](int64_t head) { choose_head(static_cast<int>(head), {}); });
        return Status::ok();
    }
    if (chunk.rows <= sampling.all_up_to) {
        sampled_.resize(static_cast<size_t>(chunk.rows));
        std::iota(sampled_.begin(), sampled_.end(), 0);
    } else if (sampling.spread) {
        sampled_ = sample_rows(chunk.rows, sampling.rows, seed);
    } else {
        sampled_.resize(static_cast<size_t>(std::min<int64_t>(sampling.rows, chunk.rows)));
        std::iota(sampled_.begin(), sampled_.end(), static_cast<int32_t>(chunk.rows - std::ssize(sampled_)));
    }
    RONDO_ASSIGN(const ScoreArgs score, rows_to_score(sampled_, queries_, args, q, chunk));
    if (sampling.blocks) RONDO_TRY(score_blocks(score, q, chunk));
    const size_t block_scores = block_scores_.size() / static_cast<size_t>(spec_.heads);
    return device_.ops().score_rows(score, [&](int head, const Tensor& weights) {
        SampledRows sampled = scored_rows(sampled_, weights, layer, head);
        sampled.block_scores =
            std::span<const float>(block_scores_).subspan(static_cast<size_t>(head) * block_scores, block_scores);
        choose_head(head, sampled);
    });
}

Result<ScoreArgs> SparsePrefill::rows_to_score(std::span<const int32_t> rows, const Buffer& queries,
                                               const AttendArgs& args, const Tensor& q, const ChunkShape& chunk) {
    take_.host().assign(rows.begin(), rows.end());
    row_keys_.host().assign(rows.begin(), rows.end());
    for (int32_t& key : row_keys_.host()) key += static_cast<int32_t>(chunk.first_row);
    RONDO_TRY(take_.send(device_));
    RONDO_TRY(row_keys_.send(device_));
    ScoreArgs score;
    score.q = Tensor::of(queries.data(), DType::f32, std::ssize(rows), q.columns);
    RONDO_TRY(device_.ops().take_rows(score.q, q, take_.data()));
    score.heads = args.heads;
    score.kv = args.kv;
    score.sequence = args.sequences;
    score.row_keys = row_keys_.data();
    score.keys = chunk.keys();
    score.scale = args.scale;
    return score;
}

Status SparsePrefill::show(PromptProbe& probe, int layer, const AttendArgs& args, const Tensor& q,
                           const ChunkShape& chunk) {
    probe.look_at_lines(layer, chunk, lines_);
    if (!probe.wants_rows()) return Status::ok();
    std::vector<int32_t> rows(static_cast<size_t>(chunk.rows));
    std::iota(rows.begin(), rows.end(), 0);
    RONDO_ASSIGN(const Buffer queries, device_.allocate(static_cast<size_t>(q.rows * q.columns) * sizeof(float)));
    RONDO_ASSIGN(const ScoreArgs score, rows_to_score(rows, queries, args, q, chunk));
    return device_.ops().score_rows(score, [&](int head, const Tensor& weights) {
        probe.look_at_rows(chunk, scored_rows(rows, weights, layer, head), sampled_, lines_[static_cast<size_t>(head)]);
    });
}

Status SparsePrefill::score_blocks(ScoreArgs args, const Tensor& q, const ChunkShape& chunk) {
    const int64_t row_blocks = chunk.blocks() - chunk.block_of(chunk.first_row);
    block_scores_.resize(static_cast<size_t>(spec_.heads * row_blocks * chunk.blocks()));
    args.q = q;
    return device_.ops().score_blocks(
        Tensor::of(block_scores_.data(), DType::f32, spec_.heads * row_blocks, chunk.blocks()), args);
}

Result<LineTables> SparsePrefill::tables() {
    for (DeviceTable<int32_t>* begin : {&column_begin_, &band_begin_, &block_begin_}) begin->host().assign(1, 0);
    for (DeviceTable<int32_t>* table : {&columns_, &bands_, &blocks_, &dense_rows_}) table->host().clear();
    const auto append = [](DeviceTable<int32_t>& begin, DeviceTable<int32_t>& table, const std::vector<int32_t>& more) {
        table.host().insert(table.host().end(), more.begin(), more.end());
        begin.host().push_back(static_cast<int32_t>(table.host().size()));
    };
    for (const Lines& lines : lines_) {
        append(column_begin_, columns_, lines.columns);
        append(band_begin_, bands_, lines.bands);
        for (const Lines::Block& block : lines.blocks)
            blocks_.host().insert(blocks_.host().end(), {block.row_block, block.key_block});
        block_begin_.host().push_back(static_cast<int32_t>(blocks_.host().size() / 2));
        dense_rows_.host().push_back(static_cast<int32_t>(lines.dense_rows));
    }
    for (DeviceTable<int32_t>* table :
         {&column_begin_, &columns_, &band_begin_, &bands_, &block_begin_, &blocks_, &dense_rows_})
        RONDO_TRY(table->send(device_));
    return LineTables{column_begin_.data(), columns_.data(), band_begin_.data(), bands_.data(),
                      block_begin_.data(),  blocks_.data(),  dense_rows_.data()};
}

Status SparsePrefill::attend(int layer, const AttendArgs& args, const Tensor& q, std::span<const int32_t> block_begin,
                             uint64_t seed, PromptProbe* probe) {
    const ChunkShape chunk{block_begin.back() - q.rows, q.rows, block_begin};
    const double start = now();
    measures_ = measure_every_ > 0 && attended_++ % measure_every_ == 0;
    RONDO_TRY(choose(layer, args, q, chunk, seed));
    if (probe != nullptr) RONDO_TRY(show(*probe, layer, args, q, chunk));
    RONDO_ASSIGN(const LineTables lines, tables());
    const double chosen = now();
    RONDO_TRY(device_.ops().attend_lines(args, lines));
    stats_.score_seconds += chosen - start;
    stats_.attend_seconds += now() - chosen;
    for (const HeadNote& note : notes_) {
        stats_.select_seconds += note.select_seconds;
        if (!measures_) continue;
        stats_.covered += note.coverage.covered;
        stats_.causal += note.coverage.causal;
        if (!note.mass) continue;
        stats_.mass += *note.mass;
        ++stats_.masses;
    }
    return Status::ok();
}

}  // namespace rondo

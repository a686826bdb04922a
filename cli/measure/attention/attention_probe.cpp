#include "cli/measure/attention/attention_probe.hpp"

#include <algorithm>
#include <numeric>

#include "config/checked.hpp"
#include "model/attention/policies/prefill_sparsity/line_sums.hpp"

namespace rondo::cli::attention {

namespace {

constexpr int compared_rows_max = 256;

double sum_between(const float* weights, int64_t begin, int64_t end) {
    return end > begin ? std::accumulate(weights + begin, weights + end, 0.0) : 0.0;
}

}  // namespace

AttentionProbe::AttentionProbe(const Shape& shape, const DialogueTokens& dialogue)
    : shape_(shape),
      dialogue_(dialogue),
      prompt_(static_cast<int64_t>(dialogue.prompt)),
      edge_(std::max<int64_t>(1, prompt_ / 10)),
      compared_(sample_rows(prompt_, compared_rows_max, dialogue.prompt)),
      kept_(static_cast<size_t>(shape.heads)),
      heads_(static_cast<size_t>(shape.layers * shape.heads)),
      distances_(shape.layers, shape.heads) {
    for (OfHead& head : heads_) {
        for (Masses* const masses : {&head.question, &head.answer, &head.last_row})
            masses->assign(dialogue.past_rounds(), 0.0);
    }
}

void AttentionProbe::begin_chunk(int64_t begin, int64_t end) {
    const auto first = std::ranges::lower_bound(compared_, begin), last = std::ranges::lower_bound(compared_, end);
    first_compared_ = static_cast<size_t>(first - compared_.begin());
    compared_count_ = static_cast<size_t>(last - first);
    columns_ = static_cast<size_t>(ceil_div(end, shape_.key_pool));
    for (std::vector<float>& kept : kept_)
        kept.assign(static_cast<size_t>(shape_.layers) * compared_count_ * columns_, 0.0F);
}

void AttentionProbe::end_chunk(Device& device) {
    if (compared_count_ == 0) return;
    device.run_tasks(shape_.heads,
                     [&](int64_t head) { distances_.add(static_cast<int>(head), kept_[static_cast<size_t>(head)]); });
}

void AttentionProbe::keep_row(int layer, int head, size_t index, const float* weights, int64_t key) {
    const size_t row = static_cast<size_t>(layer) * compared_count_ + index;
    float* const to = kept_[static_cast<size_t>(head)].data() + row * columns_;
    for (int64_t at = 0; at <= key; ++at) to[at / shape_.key_pool] += weights[at];
}

void AttentionProbe::add_to_rounds(const float* weights, int64_t key, Masses& masses) const {
    for (size_t round = 0; round < masses.size(); ++round) {
        const auto begin = static_cast<int64_t>(dialogue_.round_begins[round]);
        const auto end = static_cast<int64_t>(dialogue_.round_begins[round + 1]);
        masses[round] += sum_between(weights, begin, std::min(end, key + 1));
    }
}

void AttentionProbe::look_at_rows(const ChunkShape& chunk, const SampledRows& all, std::span<const int32_t>,
                                  const Lines&) {
    OfHead& head = of(all.layer, all.head);
    const auto question = static_cast<int64_t>(dialogue_.question_begin);
    size_t next = first_compared_;
    for (size_t r = 0; r < all.rows.size(); ++r) {
        const SampledRow row(chunk, all, r);
        if (row.key >= prompt_) {
            add_to_rounds(row.weights, row.key, head.answer);
            continue;
        }
        if (row.key >= question) add_to_rounds(row.weights, row.key, head.question);
        if (row.key + 1 == prompt_) add_to_rounds(row.weights, row.key, head.last_row);
        if (row.key >= prompt_ - edge_) {
            const int64_t recent = std::max(edge_, prompt_ - edge_);
            head.edges += sum_between(row.weights, 0, edge_) + sum_between(row.weights, recent, row.key + 1);
        }
        if (next < first_compared_ + compared_count_ && compared_[next] == row.key) {
            keep_row(all.layer, all.head, next - first_compared_, row.weights, row.key);
            ++next;
        }
    }
    if (!std::ranges::binary_search(dialogue_.turn_ends, static_cast<size_t>(chunk.keys()))) return;
    TopLines lines = top_lines(chunk, all);
    head.line_share += lines.share;
    ++head.turns;
    if (head.lines) {
        if (const auto both = overlap(*head.lines, lines)) {
            head.line_overlap += *both;
            ++head.overlaps;
        }
    }
    head.lines = std::move(lines);
}

std::vector<LayerFigures> AttentionProbe::layers() const {
    const auto heads = static_cast<double>(shape_.heads);
    const auto question_rows = static_cast<double>(dialogue_.prompt - dialogue_.question_begin);
    const auto answer_rows = static_cast<double>(dialogue_.ids.size() - dialogue_.prompt);
    std::vector<LayerFigures> layers(static_cast<size_t>(shape_.layers));
    for (size_t layer = 0; layer < layers.size(); ++layer) {
        LayerFigures& figures = layers[layer];
        const auto own =
            std::span(heads_).subspan(layer * static_cast<size_t>(shape_.heads), static_cast<size_t>(shape_.heads));
        const auto mean = [&](Masses OfHead::*part, double rows, Masses& into) {
            if (rows == 0.0) return;
            into.assign(dialogue_.past_rounds(), 0.0);
            for (const OfHead& head : own) {
                for (size_t round = 0; round < into.size(); ++round)
                    into[round] += (head.*part)[round] / (heads * rows);
            }
        };
        mean(&OfHead::question, question_rows, figures.question);
        mean(&OfHead::answer, answer_rows, figures.answer);
        mean(&OfHead::last_row, 1.0, figures.last_row);
        double turns = 0.0, overlaps = 0.0, overlap_sum = 0.0;
        for (const OfHead& head : own) {
            figures.initial_recent += head.edges / (heads * static_cast<double>(edge_));
            figures.line_share += head.line_share;
            overlap_sum += head.line_overlap;
            turns += head.turns;
            overlaps += head.overlaps;
        }
        if (turns > 0.0) figures.line_share /= turns;
        if (overlaps > 0.0) figures.line_overlap = overlap_sum / overlaps;
    }
    return layers;
}

}  // namespace rondo::cli::attention

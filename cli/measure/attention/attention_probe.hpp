#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/measure/attention/dialogue.hpp"
#include "cli/measure/attention/layer_pairs.hpp"
#include "cli/measure/attention/round_figures.hpp"
#include "cli/measure/attention/top_lines.hpp"
#include "kernels/device.hpp"
#include "model/attention/prompt_probe.hpp"

namespace rondo::cli::attention {

/// What a layer's attention is in one dialogue. Masses are shares of the attention of a row, by past round, mean over
/// heads and rows.
struct LayerFigures {
    double initial_recent =
        0.0;                  ///< I-R score: of the prompt's last tenth of rows, on its first and last tenth of keys
    Masses question, answer;  ///< of the last question's rows, and its answer's; none where there is no answer
    Masses last_row;          ///< of the prompt's last row alone
    double line_share = 0.0;  ///< that a tenth of the lines holds; mean over turns and heads
    std::optional<double> line_overlap;  ///< of a turn's lines with those of the turn before, likewise
};

/// Looks at all rows of a dialogue as its chunks go by, and keeps sums: by round, by head, by line of one turn. Of
/// the rows that layers are compared by it keeps a chunk's, until `end_chunk`. Calls may come from any thread, but each
/// head of a layer comes once a chunk, so nothing is shared.
class AttentionProbe : public PromptProbe {
public:
    struct Shape {
        int layers = 0, heads = 0;
        int64_t key_pool = 1;  ///< so many keys are summed to one number before layers are compared
    };
    /// `dialogue` must outlive it.
    AttentionProbe(const Shape& shape, const DialogueTokens& dialogue);

    void look_at_lines(int, const ChunkShape&, std::span<const Lines>) override {}
    bool wants_rows() const override { return true; }
    void look_at_rows(const ChunkShape& chunk, const SampledRows& all, std::span<const int32_t> sampled,
                      const Lines& lines) override;

    /// Keys [begin, end) are the next chunk's rows.
    void begin_chunk(int64_t begin, int64_t end);
    /// All layers have seen it.
    void end_chunk(Device& device);

    std::vector<LayerFigures> layers() const;
    std::vector<double> distances() const { return distances_.means(); }

private:
    struct OfHead {
        double edges = 0.0;
        Masses question, answer, last_row;
        std::optional<TopLines> lines;  // of the turn before
        double line_share = 0.0, line_overlap = 0.0;
        int turns = 0, overlaps = 0;
    };

    OfHead& of(int layer, int head) { return heads_[static_cast<size_t>(layer * shape_.heads + head)]; }
    void add_to_rounds(const float* weights, int64_t key, Masses& masses) const;
    void keep_row(int layer, int head, size_t index, const float* weights, int64_t key);

    const Shape shape_;
    const DialogueTokens& dialogue_;
    const int64_t prompt_, edge_;           // tokens; of them a tenth
    std::vector<int32_t> compared_;         // rows by which layers are compared, ascending
    size_t first_compared_ = 0;             // of the chunk
    size_t compared_count_ = 0;             // likewise
    size_t columns_ = 0;                    // of a row that is kept
    std::vector<std::vector<float>> kept_;  // by head: [layers, rows, columns]
    std::vector<OfHead> heads_;             // [layers, heads]
    LayerDistances distances_;
};

}  // namespace rondo::cli::attention

#include "cli/measure/eval/deviations.hpp"

#include <algorithm>
#include <array>

namespace rondo::cli::eval {

namespace {

struct Deviation {
    std::string_view method, says;
};

// Read beside the code: SnapKV (FasterDecoding/SnapKV), AdaKV (FFY0/AdaKV), kvpress (NVIDIA), H2O (FMInference/H2O),
// StreamingLLM (mit-han-lab/streaming-llm), Quest (mit-han-lab/Quest), MInference, A-shape and Tri-shape
// (microsoft/MInference), FlexPrefill (ByteDance-Seed/FlexPrefill).
constexpr std::array deviations = {
    Deviation{
        "snapkv",
        "the heads of a group share one set of keys, by their mean weights (authors: a set for each query head); the "
        "window shrinks to a quarter of budgets below 128 keys"},
    Deviation{"adakv",
              "as the authors' path for grouped heads with a safeguard of 0.2; the window shrinks to a quarter of "
              "budgets below "
              "128 keys"},
    Deviation{
        "h2o",
        "weights are averaged over a group's heads (authors: models without groups); without @printed the first choice "
        "sums the last 32 queries' weights and not all of the prompt's"},
    Deviation{
        "streaming_llm",
        "prompts are dense (authors: windowed too); without @printed keys keep the positions they were written at"},
    Deviation{
        "quest",
        "a group's heads share their pages, by the mean of the bounds (authors: pages for each query head); the newest "
        "page is always in; a round begins a page; the question itself is computed densely"},
    Deviation{"a_shape",
              "first and near keys are scaled to a density (authors: 128 and 3968); edges are whole blocks of 16"},
    Deviation{"tri_shape",
              "as a_shape; the last rows of every chunk are dense, scaled likewise (authors: the prompt's last 100)"},
    Deviation{"minference",
              "lines are scaled to a density (authors: 1000 columns and 6096 diagonals, or a search's); diagonals are "
              "ranked as "
              "bands of 16 (authors: one by one, computed 64 wide); every chunk chooses anew"},
    Deviation{"flexprefill",
              "single columns and bands of 16 that hold the share (authors: as many blocks of 128 as such lines would "
              "fill); no "
              "least budget beyond the first block and the nearest; every chunk chooses anew"},
};

}  // namespace

std::string_view deviation_of(std::string_view method) {
    const auto* const row = std::ranges::find(deviations, method, &Deviation::method);
    return row == deviations.end() ? std::string_view() : row->says;
}

}  // namespace rondo::cli::eval

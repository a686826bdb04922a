#include <algorithm>
#include <cmath>

#include "cli/measure/attention/attention_report.hpp"
#include "cli/measure/eval/markdown_table.hpp"

namespace rondo::cli::attention {

namespace {

using eval::number;
using eval::table_text;
using eval::TableLine;

constexpr size_t matrix_layers_max = 16, listed_max = 16;  // what is more fills no terminal; --json has it

std::string text_of(const Spread& spread, int decimals = 2) {
    return spread.is_known() ? number(spread.mean, decimals) : "–";
}

std::string with_deviation(const Spread& spread) {
    return spread.is_known() ? number(spread.mean, 2) + " ± " + number(spread.deviation, 2) : "–";
}

std::string text_of(const Strategy& strategy) {
    std::string text;
    for (const LayerPair& pair : strategy)
        text += (text.empty() ? "" : ", ") + std::to_string(pair.lower + 1) + "–" + std::to_string(pair.upper + 1);
    return text.empty() ? "none" : text;
}

std::string layer_table(const Summary& summary) {
    std::vector<TableLine> lines = {{"layer", "I-R", "often", "D ± spread", "question on past", "answer on past",
                                     "rank correlation", "top 10% of rounds", "evidence found", "10% of lines",
                                     "lines again"}};
    for (size_t i = 0; i < summary.layers.size(); ++i) {
        const LayerSummary& layer = summary.layers[i];
        lines.push_back({std::to_string(i + 1), text_of(layer.initial_recent), number(layer.initial_recent_often, 2),
                         with_deviation(layer.divergence), text_of(layer.question_past), text_of(layer.answer_past),
                         text_of(layer.rank_correlation), text_of(layer.top_share), text_of(layer.evidence_found),
                         text_of(layer.line_share), text_of(layer.line_overlap)});
    }
    return table_text(lines);
}

std::string watershed_text(const Summary& summary) {
    if (!summary.watershed) return "Watershed layer L_w: unknown, for no dialogue has three rounds.\n";
    return "Watershed layer L_w: " + std::to_string(summary.watershed->layer) +
           (summary.watershed->is_minimum ? ", the first local minimum of D near the least.\n"
                                          : ", the least D of the first half: no layer is a local minimum near the "
                                            "least.\n");
}

std::string strategy_text(const Summary& summary, const PairChoice& choice) {
    std::string text = "\nPairs that would share KV (γ " + number(choice.gamma, 2) + ", " +
                       number(100.0 * choice.layer_ratio, 0) + "% of the layers); two dialogues differ in " +
                       number(100.0 * summary.strategies_differ, 0) + "% of cases.\n\n";
    std::vector<TableLine> lines = {{"pairs", "dialogues"}};
    for (const StrategyUse& use : summary.strategies) {
        if (lines.size() > listed_max) break;
        lines.push_back({text_of(use.pairs), std::to_string(use.conversations)});
    }
    text += table_text(lines);
    if (summary.strategies.size() > listed_max)
        text += "\nand " + std::to_string(summary.strategies.size() - listed_max) + " strategies more\n";
    return text;
}

std::string distance_matrix(const Summary& summary) {
    const size_t layers = summary.layers.size();
    std::vector<TableLine> lines = {{"layer"}};
    for (size_t j = 1; j < layers; ++j) lines[0].push_back(std::to_string(j + 1));
    for (size_t i = 0; i + 1 < layers; ++i) {
        TableLine line = {std::to_string(i + 1)};
        for (size_t j = 1; j < layers; ++j) line.push_back(j > i ? number(summary.distances[i * layers + j], 2) : "");
        lines.push_back(std::move(line));
    }
    return "\nDistance by layer pair\n\n" + table_text(lines);
}

std::string closest_pairs(const Summary& summary) {
    const size_t layers = summary.layers.size();
    std::vector<std::pair<double, LayerPair>> all;
    for (size_t i = 0; i < layers; ++i) {
        for (size_t j = i + 1; j < layers; ++j)
            all.push_back({summary.distances[i * layers + j], {static_cast<int>(i), static_cast<int>(j)}});
    }
    std::ranges::sort(all);
    std::vector<TableLine> lines = {{"layers", "distance"}};
    for (const auto& [distance, pair] : std::span(all).first(std::min(all.size(), listed_max)))
        lines.push_back({text_of(Strategy{pair}), number(distance, 2)});
    return "\nThe closest layers\n\n" + table_text(lines);
}

}  // namespace

std::string to_text(const AttentionFacts& facts, const std::vector<Conversation>& conversations,
                    const Summary& summary) {
    size_t tokens = 0;
    for (const Conversation& each : conversations) tokens += each.tokens;
    std::string text = facts.model + " on " + facts.device + "; KV " + facts.kv + "; " + facts.dialogues +
                       "; dialogues: " + std::to_string(conversations.size()) + ", with prompts of " +
                       std::to_string(tokens / conversations.size()) + " tokens on average.\n\n" + layer_table(summary);
    if (summary.evidence_by_chance.is_known())
        text += "\nEvidence found by chance: " + number(summary.evidence_by_chance.mean, 2) + ".\n";
    else
        text += "\nNo dialogue names evidence among at least two past rounds.\n";
    text += watershed_text(summary);
    if (summary.layers.size() < 2) return text;
    text += strategy_text(summary, facts.choice);
    return text + (summary.layers.size() <= matrix_layers_max ? distance_matrix(summary) : closest_pairs(summary));
}

}  // namespace rondo::cli::attention

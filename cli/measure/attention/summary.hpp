#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/measure/attention/layer_pairs.hpp"
#include "cli/measure/attention/measure_dialogue.hpp"
#include "cli/measure/attention/round_figures.hpp"

namespace rondo::cli::attention {

/// Values of several dialogues: their mean and how far they spread (standard deviation; 0 of a single one).
struct Spread {
    double mean = 0.0, deviation = 0.0;
    int dialogues = 0;  ///< that have such a value; 0: nobody has

    bool is_known() const { return dialogues > 0; }
};
Spread spread_of(const std::vector<double>& values);

/// One dialogue's figures. Those of rounds need two past rounds: of one alone there is nothing to choose.
struct Conversation {
    std::string name;
    size_t tokens = 0, rounds = 0;  ///< of the prompt
    std::vector<size_t> evidence;
    std::vector<LayerFigures> layers;
    std::vector<double> distances;    ///< [layers, layers]
    std::vector<double> divergences;  ///< D_i, of each layer but the last; none where rounds are too few
    Strategy pairs;

    bool compares_rounds() const { return rounds > 2; }
};

struct PairChoice {
    double gamma = 0.5, layer_ratio = 0.5;
};
Conversation conversation_of(const DialogueTokens& dialogue, DialogueFigures figures, const PairChoice& choice);

/// A layer in all dialogues.
struct LayerSummary {
    Spread initial_recent;
    double initial_recent_often = 0.0;  ///< share of dialogues in which the layer is I-R
    Spread divergence;                  ///< none of the last layer
    Spread question_past, answer_past;  ///< share of attention on past rounds
    Spread rank_correlation;            ///< of question's and answer's masses
    Spread top_share, evidence_found;   ///< by the question's masses
    Spread line_share, line_overlap;
};

struct Summary {
    std::vector<LayerSummary> layers;
    std::vector<double> distances;  ///< [layers, layers], means
    std::vector<StrategyUse> strategies;
    double strategies_differ = 0.0;
    std::optional<Watershed> watershed;
    Spread evidence_by_chance;  ///< the share of evidence that a tenth of the rounds finds, whichever they are
};
Summary summarise(const std::vector<Conversation>& conversations, const PairChoice& choice);

}  // namespace rondo::cli::attention

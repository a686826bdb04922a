#include "cli/measure/attention/summary.hpp"

#include <cmath>
#include <functional>
#include <numeric>

namespace rondo::cli::attention {

namespace {

double past_share(const Masses& masses) {
    return std::accumulate(masses.begin(), masses.end(), 0.0);
}

/// A layer's figure in one dialogue, where the dialogue has it.
using Figure = std::function<std::optional<double>(const Conversation&, const LayerFigures&)>;

Spread over(const std::vector<Conversation>& conversations, size_t layer, const Figure& figure) {
    std::vector<double> values;
    for (const Conversation& conversation : conversations) {
        if (const auto value = figure(conversation, conversation.layers[layer])) values.push_back(*value);
    }
    return spread_of(values);
}

std::optional<double> where(bool is_there, double value) {
    return is_there ? std::optional(value) : std::nullopt;
}

LayerSummary summarise_layer(const std::vector<Conversation>& conversations, size_t layer, double gamma) {
    const auto over_all = [&](const Figure& figure) { return over(conversations, layer, figure); };
    LayerSummary summary;
    summary.initial_recent = over_all([](const auto&, const auto& own) { return own.initial_recent; });
    summary.initial_recent_often =
        over_all([&](const auto&, const auto& own) { return own.initial_recent >= gamma ? 1.0 : 0.0; }).mean;
    summary.divergence = over_all([&](const auto& dialogue, const auto&) {
        const bool is_there = layer < dialogue.divergences.size();
        return where(is_there, is_there ? dialogue.divergences[layer] : 0.0);
    });
    summary.question_past = over_all(
        [](const auto& dialogue, const auto& own) { return where(dialogue.rounds > 1, past_share(own.question)); });
    summary.answer_past = over_all([](const auto& dialogue, const auto& own) {
        return where(dialogue.rounds > 1 && !own.answer.empty(), past_share(own.answer));
    });
    summary.rank_correlation = over_all([](const auto& dialogue, const auto& own) {
        return dialogue.compares_rounds() && !own.answer.empty() ? rank_correlation(own.question, own.answer)
                                                                 : std::nullopt;
    });
    summary.top_share = over_all([](const auto& dialogue, const auto& own) {
        return where(dialogue.compares_rounds(), top_share(own.question));
    });
    summary.evidence_found = over_all([](const auto& dialogue, const auto& own) {
        return where(dialogue.compares_rounds() && !dialogue.evidence.empty(),
                     evidence_found(own.question, dialogue.evidence));
    });
    summary.line_share = over_all([](const auto&, const auto& own) { return own.line_share; });
    summary.line_overlap = over_all([](const auto&, const auto& own) { return own.line_overlap; });
    return summary;
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
    Spread spread;
    spread.dialogues = static_cast<int>(values.size());
    if (values.empty()) return spread;
    const auto count = static_cast<double>(values.size());
    spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0.0;
    for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
    if (values.size() > 1) spread.deviation = std::sqrt(squares / (count - 1.0));
    return spread;
}

Conversation conversation_of(const DialogueTokens& dialogue, DialogueFigures figures, const PairChoice& choice) {
    Conversation conversation;
    conversation.name = dialogue.name;
    conversation.tokens = dialogue.prompt;
    conversation.rounds = dialogue.round_begins.size();
    conversation.evidence = dialogue.evidence;
    conversation.layers = std::move(figures.layers);
    conversation.distances = std::move(figures.distances);
    std::vector<double> scores;
    std::vector<Masses> last_rows;
    for (const LayerFigures& layer : conversation.layers) {
        scores.push_back(layer.initial_recent);
        last_rows.push_back(layer.last_row);
    }
    conversation.pairs = choose_pairs(scores, conversation.distances, choice.gamma, choice.layer_ratio);
    if (conversation.compares_rounds()) conversation.divergences = divergences(last_rows);
    return conversation;
}

Summary summarise(const std::vector<Conversation>& conversations, const PairChoice& choice) {
    Summary summary;
    const Conversation& first = conversations.front();
    summary.distances.assign(first.distances.size(), 0.0);
    std::vector<Strategy> chosen;
    std::vector<double> chances;
    for (const Conversation& each : conversations) {
        for (size_t i = 0; i < summary.distances.size(); ++i)
            summary.distances[i] += each.distances[i] / static_cast<double>(conversations.size());
        chosen.push_back(each.pairs);
        const size_t past = each.rounds - 1;
        if (each.compares_rounds() && !each.evidence.empty())
            chances.push_back(static_cast<double>(tenth_of(past)) / static_cast<double>(past));
    }
    summary.strategies = count_strategies(chosen);
    summary.strategies_differ = share_that_differs(summary.strategies);
    summary.evidence_by_chance = spread_of(chances);
    std::vector<double> means;
    for (size_t layer = 0; layer < first.layers.size(); ++layer) {
        summary.layers.push_back(summarise_layer(conversations, layer, choice.gamma));
        const Spread& own = summary.layers.back().divergence;
        if (own.is_known()) means.push_back(own.mean);
    }
    summary.watershed = find_watershed(means);
    return summary;
}

}  // namespace rondo::cli::attention

#include "cli/measure/attention/attention_report.hpp"

namespace rondo::cli::attention {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Spread& spread) {
    if (!spread.is_known()) return nullptr;
    return {{"mean", spread.mean}, {"deviation", spread.deviation}, {"dialogues", spread.dialogues}};
}

Json json_of(const Strategy& strategy) {
    Json pairs = Json::array();
    for (const LayerPair& pair : strategy) pairs.push_back({pair.lower + 1, pair.upper + 1});
    return pairs;
}

Json matrix_of(const std::vector<double>& distances, size_t layers) {
    Json rows = Json::array();
    for (size_t i = 0; i < layers; ++i)
        rows.push_back(std::vector<double>(distances.begin() + static_cast<std::ptrdiff_t>(i * layers),
                                           distances.begin() + static_cast<std::ptrdiff_t>((i + 1) * layers)));
    return rows;
}

Json json_of(const Conversation& conversation) {
    Json out = {{"dialogue", conversation.name}, {"tokens", conversation.tokens}, {"rounds", conversation.rounds}};
    Json evidence = Json::array(), layers = Json::array();
    for (const size_t round : conversation.evidence) evidence.push_back(round + 1);
    for (const LayerFigures& layer : conversation.layers) {
        layers.push_back({{"initial_recent", layer.initial_recent},
                          {"question_masses", layer.question},
                          {"answer_masses", layer.answer},
                          {"last_row_masses", layer.last_row},
                          {"line_share", layer.line_share},
                          {"line_overlap", layer.line_overlap ? Json(*layer.line_overlap) : Json()}});
    }
    out["evidence"] = std::move(evidence);
    out["pairs"] = json_of(conversation.pairs);
    out["divergences"] = conversation.divergences;
    out["layers"] = std::move(layers);
    return out;
}

}  // namespace

Json to_json(const AttentionFacts& facts, const std::vector<Conversation>& conversations, const Summary& summary) {
    Json out = {
        {"model", facts.model},         {"device", facts.device},      {"kv", facts.kv},
        {"dialogues", facts.dialogues}, {"gamma", facts.choice.gamma}, {"layer_ratio", facts.choice.layer_ratio}};
    Json layers = Json::array();
    for (size_t i = 0; i < summary.layers.size(); ++i) {
        const LayerSummary& layer = summary.layers[i];
        layers.push_back({{"layer", i + 1},
                          {"initial_recent", json_of(layer.initial_recent)},
                          {"initial_recent_often", layer.initial_recent_often},
                          {"divergence", json_of(layer.divergence)},
                          {"question_past", json_of(layer.question_past)},
                          {"answer_past", json_of(layer.answer_past)},
                          {"rank_correlation", json_of(layer.rank_correlation)},
                          {"top_share", json_of(layer.top_share)},
                          {"evidence_found", json_of(layer.evidence_found)},
                          {"line_share", json_of(layer.line_share)},
                          {"line_overlap", json_of(layer.line_overlap)}});
    }
    out["layers"] = std::move(layers);
    out["watershed"] = nullptr;
    if (summary.watershed)
        out["watershed"] = {{"layer", summary.watershed->layer}, {"is_minimum", summary.watershed->is_minimum}};
    out["evidence_by_chance"] = json_of(summary.evidence_by_chance);
    out["distances"] = matrix_of(summary.distances, summary.layers.size());
    Json strategies = Json::array();
    for (const StrategyUse& use : summary.strategies)
        strategies.push_back({{"pairs", json_of(use.pairs)}, {"dialogues", use.conversations}});
    out["strategies"] = std::move(strategies);
    out["strategies_differ"] = summary.strategies_differ;
    Json each = Json::array();
    for (const Conversation& conversation : conversations) each.push_back(json_of(conversation));
    out["each"] = std::move(each);
    return out;
}

}  // namespace rondo::cli::attention

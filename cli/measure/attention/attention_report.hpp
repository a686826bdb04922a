#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/measure/attention/summary.hpp"

namespace rondo::cli::attention {

/// What a run was, beside its figures.
struct AttentionFacts {
    std::string model, device, kv;
    std::string dialogues;  ///< what they are, in words
    PairChoice choice;
};

/// For people: tables in Markdown.
std::string to_text(const AttentionFacts& facts, const std::vector<Conversation>& conversations,
                    const Summary& summary);
/// For programs: every figure, down to each dialogue. Layers and rounds are counted from 1.
nlohmann::ordered_json to_json(const AttentionFacts& facts, const std::vector<Conversation>& conversations,
                               const Summary& summary);

/// A drawing and the name of its file.
struct Drawing {
    std::string file, svg;
};
std::vector<Drawing> draw_attention(const AttentionFacts& facts, const std::vector<Conversation>& conversations,
                                    const Summary& summary);

}  // namespace rondo::cli::attention

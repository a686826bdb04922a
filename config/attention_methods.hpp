#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "config/settings.hpp"

namespace rondo {

/// How a turn attends: its prompt, its answer, and to which rounds. Named, so that a turn can ask for it.
struct AttentionMethod {
    std::string name;
    PrefillAttention prefill;
    DecodeAttention decode;
    RoundSettings rounds;

    bool is_dense() const {
        return prefill.method == PrefillAttention::Method::dense && decode.method == DecodeAttention::Method::dense &&
               !chooses_rounds();
    }
    bool chooses_rounds() const { return rounds.method != RoundSettings::Method::none; }
};

/// The setting that a method's name fills: a preset, or one phase's method. An error says which names there are.
Result<std::string> method_key(std::string_view method);

/// A method's name as settings (a.b=c) of all phases: what it does not name is dense.
Result<std::vector<std::string>> method_settings(std::string_view method);

/// Whether answers attend to a number of keys that can be chosen.
bool has_budget(const DecodeAttention& decode);

/// What turns may ask for: first what is configured, then dense, then `methods`, each with the configured keys of its
/// phase.
std::vector<AttentionMethod> attention_methods(const PipelineSettings& pipeline);

}  // namespace rondo

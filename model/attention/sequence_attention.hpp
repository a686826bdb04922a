#pragma once

#include "model/attention/mass_probe.hpp"
#include "model/attention/prompt_probe.hpp"
#include "model/attention/round_attention.hpp"
#include "model/attention/sparse_prefill.hpp"
#include "model/attention/step_attention.hpp"

namespace rondo {

/// How a sequence attends where that is not to everything: its prompts by lines, its answers step by step, both to
/// chosen rounds. Any may be absent.
struct SequenceAttention {
    SparsePrefill* prefill = nullptr;     ///< shared by the sequences of a device
    StepAttention* decode = nullptr;      ///< this sequence's own
    PromptProbe* prompt_probe = nullptr;  ///< an evaluation's, that looks at what `prefill` does
    MassProbe* step_probe = nullptr;      ///< likewise `decode`
    RoundAttention* rounds = nullptr;     ///< this sequence's own: which rounds its upper layers attend to
};

}  // namespace rondo

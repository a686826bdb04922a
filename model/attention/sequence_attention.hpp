#pragma once

#include "model/attention/selective_decode.hpp"
#include "model/attention/sparse_prefill.hpp"

namespace rondo {

/// How a sequence attends where that is not to everything: its prompts by lines, its answers by chosen keys. Either may
/// be absent.
struct SequenceAttention {
    SparsePrefill* prefill = nullptr;   ///< shared by the sequences of a device
    SelectiveDecode* decode = nullptr;  ///< this sequence's own
};

}  // namespace rondo

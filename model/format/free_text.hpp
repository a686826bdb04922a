#pragma once

#include <string_view>

#include "model/format/byte_grammar.hpp"

namespace rondo {

/// Any bytes, up to where `cue` stands for the first time. What follows the cue is `behind`, whose end is that of the
/// text; ByteGrammar::never: the cue may not come. `may_end`: the text may also end before it.
ByteGrammar::Node free_text(ByteGrammar& grammar, std::string_view cue, ByteGrammar::Node behind, bool may_end,
                            ByteGrammar::Node next);

/// The same where the cue counts at the text's beginning only; behind another beginning there may be anything.
ByteGrammar::Node text_or_cued(ByteGrammar& grammar, std::string_view cue, ByteGrammar::Node behind,
                               ByteGrammar::Node next);

}  // namespace rondo

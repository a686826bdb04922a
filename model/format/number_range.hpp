#pragma once

#include <optional>

#include "model/format/byte_grammar.hpp"

namespace rondo {

struct NumberBound {
    double value;
    bool excluded = false;
};

struct NumberBounds {
    std::optional<NumberBound> least, most;

    bool none() const { return !least && !most; }
    /// Keep the narrower of two bounds.
    void raise(double value, bool excluded);
    void lower(double value, bool excluded);
};

/// A number within bounds, digit by digit and without an exponent; a whole one unless `fractions` are allowed. Bounds
/// lie between -1e15 and 1e15. `never` when there is none.
ByteGrammar::Node number_between(ByteGrammar& grammar, const NumberBounds& bounds, bool fractions,
                                 ByteGrammar::Node next);

}  // namespace rondo

#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "model/format/answer_format.hpp"
#include "model/format/grammar_states.hpp"

/// Formats and the texts that they allow. What should not fail throws, so that tests stay short.
namespace rondo::testing {

using Format = std::shared_ptr<const AnswerFormat>;

inline Format format_of(std::string_view schema) {
    auto made = AnswerFormat::json_schema(schema, "schema");
    if (!made) throw std::runtime_error(made.error().message);
    return *std::move(made);
}

/// The error of a schema that must be refused.
inline std::string schema_error(std::string_view schema) {
    const auto made = AnswerFormat::json_schema(schema, "schema");
    return made ? "(taken)" : made.error().message;
}

enum class Allowed { no, as_beginning, whole };

inline Allowed allowed(const Format& format, std::string_view text,
                       AnswerFormat::Begins begins = AnswerFormat::Begins::with_answer) {
    GrammarStates states(format->grammar());
    GrammarStates::State state = states.begin(format->begin(begins));
    for (const char byte : text) {
        if (state == GrammarStates::dead) return Allowed::no;
        state = states.next(state, static_cast<uint8_t>(byte));
    }
    if (state == GrammarStates::dead) return Allowed::no;
    return states.may_end(state) ? Allowed::whole : Allowed::as_beginning;
}

}  // namespace rondo::testing

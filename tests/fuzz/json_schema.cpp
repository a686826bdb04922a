#include <cstdint>
#include <string_view>

#include "model/format/answer_format.hpp"
#include "model/format/grammar_states.hpp"

/// Any bytes as a schema, and behind a zero byte as a text that may be of it: both end, within config/limits.hpp.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const size_t schema_end = input.find('\0');
    const auto format = rondo::AnswerFormat::json_schema(input.substr(0, schema_end), "fuzz");
    if (!format || schema_end == std::string_view::npos) return 0;
    rondo::GrammarStates states((*format)->grammar());
    auto state = states.begin((*format)->begin(rondo::AnswerFormat::Begins::maybe_with_thought));
    for (const char byte : input.substr(schema_end + 1)) {
        if (state == rondo::GrammarStates::dead) return 0;
        state = states.next(state, static_cast<uint8_t>(byte));
        if (states.count() > 64) state = states.keep_only(state);
    }
    return 0;
}

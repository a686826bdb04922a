#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/format/json_parts.hpp"
#include "model/text/chat_template.hpp"

namespace rondo {

/// How a model's chat template writes calls of tools, which is how the model writes them itself: texts around a name
/// and its arguments, which are a JSON object, and maybe an id.
struct CallStyle {
    std::string begin;      ///< before the name of the first call
    std::string between;    ///< a name and its arguments
    std::string before_id;  ///< between arguments and their id; "": ids are not written
    std::string next;       ///< between one call and the name of the next; "": an answer has one call
    std::string behind;     ///< the last call
    JsonSpelling spelling = JsonSpelling::spaced;

    /// The part of `begin` that tells a call from a text, once white space was left out.
    std::string_view cue() const;
    /// The cue may also be the beginning of a text; so it counts where an answer begins with it.
    bool only_first() const;
    /// Characters of an id.
    static constexpr int64_t id_characters = 9;
};

/// Looks how the template writes some calls. Nothing where it has no word for tools, or writes calls in another way.
std::optional<CallStyle> find_call_style(const ChatTemplate& chat_template);

}  // namespace rondo

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/tools/call_style.hpp"
#include "model/tools/tool_use.hpp"

namespace rondo {

/// Parts the calls of tools in an answer from its text. Whatever pieces the answer comes in, the parts add up to the
/// same. White space before calls belongs to neither part. What may still become a call is held back.
class CalledTools {
public:
    struct Parts {
        std::string text;
        std::vector<ToolCallPiece> calls;
    };

    /// `new_id` names calls where the model does not. The style outlives this.
    CalledTools(const CallStyle& style, std::function<std::string()> new_id)
        : style_(&style), new_id_(std::move(new_id)) {}

    Parts push(std::string_view answer);
    /// What was held back, when nothing comes after it. A call that has no name yet is left out.
    Parts finish();
    /// There are calls, and the last one's arguments are complete.
    bool are_whole() const { return are_whole_; }

private:
    /// Where the next byte stands: in a text; in `begin` of the style, a name, and so on.
    enum class State { start, text, begin, name, arguments, before_id, id, behind, over };

    bool advance(Parts& parts);
    bool advance_text(Parts& parts);
    size_t text_before(size_t at) const;
    bool advance_literal(std::string_view literal, State then);
    bool advance_name(Parts& parts);
    bool advance_arguments(Parts& parts);
    bool advance_id(Parts& parts);
    void give_text(size_t bytes, Parts& parts);
    void begin_call(Parts& parts, std::string id);
    ToolCallPiece& piece(Parts& parts) const;

    const CallStyle* style_;
    std::function<std::string()> new_id_;
    State state_ = State::start;
    std::string held_;
    std::string name_;       // of the call that is being read
    std::string arguments_;  // of one whose id stands behind them
    int calls_ = 0;
    int depth_ = 0;  // of brackets in the arguments
    bool in_string_ = false, escaped_ = false;
    bool are_whole_ = false;
};

}  // namespace rondo

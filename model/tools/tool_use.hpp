#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/result.hpp"
#include "model/format/answer_format.hpp"

namespace rondo {

class ChatTemplate;
struct CallStyle;

/// Whether an answer calls tools, and which.
struct ToolChoice {
    enum class Kind : uint8_t {
        automatic,  ///< a text, calls, or calls behind a text
        none,       ///< a text
        required    ///< calls
    };
    Kind kind = Kind::automatic;
    std::string name;                               ///< with `required`: the only one that may be called; "": any
    bool several = true;                            ///< an answer may have more than one call
    std::shared_ptr<const AnswerFormat> text = {};  ///< what an answer that is a text must be; null: any text
};

/// A piece of a call, as an answer grows. The first of each call has its id and name, the others more of the arguments.
struct ToolCallPiece {
    int index = 0;  ///< of the call in its answer
    std::string id;
    std::string name;
    std::string arguments;  ///< of a JSON object's text
};

/// Adds pieces, as they come one after another, to calls.
inline void add_calls(std::vector<ToolCallPiece>& pieces, std::vector<ToolCallPiece>& calls) {
    for (ToolCallPiece& piece : pieces) {
        if (!piece.id.empty())
            calls.push_back(std::move(piece));
        else if (!calls.empty())
            calls.back().arguments += piece.arguments;
    }
}

/// Tools that a model is told of, and what its answers may be then. Immutable, shared by all turns that have them.
class ToolUse {
public:
    ~ToolUse();
    /// `tools` is a JSON list in OpenAI's form, of functions; `where` stands before what is wrong with it. `style` is
    /// how the model writes calls, null where it is known to write none: then the choice must be `none`.
    static Result<std::shared_ptr<const ToolUse>> make(std::string_view tools, const ToolChoice& choice,
                                                       const CallStyle* style, const std::string& where);

    /// The same for a model with this template, which may have no word for tools; null: it has no template.
    static Result<std::shared_ptr<const ToolUse>> make_for(const ChatTemplate* chat_template, const CallStyle* style,
                                                           std::string_view tools, const ToolChoice& choice,
                                                           const std::string& where);

    /// The list, for a chat template.
    const std::string& json() const { return json_; }
    /// What an answer must be; null: any text.
    const std::shared_ptr<const AnswerFormat>& format() const { return format_; }
    /// How an answer writes its calls; null where it has none.
    const CallStyle* style() const { return style_.get(); }

private:
    ToolUse();

    std::string json_;
    std::shared_ptr<const AnswerFormat> format_;
    std::unique_ptr<const CallStyle> style_;
};

}  // namespace rondo

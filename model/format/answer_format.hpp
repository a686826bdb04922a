#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "config/result.hpp"

namespace rondo {

class ByteGrammar;

/// What an answer's text must be. Immutable, and shared by all answers that must be the same.
class AnswerFormat {
public:
    ~AnswerFormat();
    /// A JSON object.
    static std::shared_ptr<const AnswerFormat> json_object();
    /// JSON that a schema describes, given as JSON itself. `where` stands before what is wrong with it.
    static Result<std::shared_ptr<const AnswerFormat>> json_schema(std::string_view schema, const std::string& where);

    /// What `build` makes of a new grammar: the node that all answers begin with. Null when there was no room for it.
    static std::shared_ptr<const AnswerFormat> built_by(const std::function<int32_t(ByteGrammar&)>& build);
    /// The same within another grammar: the node before `next`.
    int32_t put_into(ByteGrammar& grammar, int32_t next) const;
    /// There is no such answer.
    bool is_empty() const;

    /// Where the model's text begins. What it thinks before its answer may be anything.
    enum class Begins : uint8_t { with_answer, maybe_with_thought, within_thought };

    const ByteGrammar& grammar() const { return *grammar_; }
    /// The node of the grammar that it begins with. `spaced`: a space before all is none of the text.
    int32_t begin(Begins begins, bool spaced = false) const {
        return begins_[spaced ? 1 : 0][static_cast<size_t>(begins)];
    }

private:
    AnswerFormat();

    std::unique_ptr<ByteGrammar> grammar_;
    int32_t answer_;        // a rule, defined last
    int32_t begins_[2][3];  // without and with a space
};

}  // namespace rondo

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo {

/// Parts what a model thinks from what it answers: a thought stands between <think> and </think> at the answer's
/// beginning. Line breaks beside the tags belong to neither part. Whatever pieces the text comes in, the parts are the
/// same. So what may still become a tag is held back, and so are line breaks that may be the last of a thought.
class Thoughts {
public:
    static constexpr std::string_view begin_tag = "<think>";
    static constexpr std::string_view end_tag = "</think>";

    struct Parts {
        std::string thought;
        std::string answer;
    };

    /// `begun`: the prompt ends within a thought already.
    explicit Thoughts(bool begun) : state_(begun ? State::begins : State::unknown) {}

    Parts push(std::string_view text);
    /// What was held back, when nothing comes after it.
    Parts finish();
    /// Whether what comes next is thought, as far as one knows.
    bool inside() const { return state_ == State::begins || state_ == State::inside; }

private:
    enum class State { unknown, begins, inside, after, answer };

    bool advance(Parts& parts, bool all);

    State state_;
    std::string held_;
    size_t spaces_ = 0;  // that `held_` begins with, as far as one has looked; they are not looked at again
};

/// Whether a prompt that ends with this text leaves the answer within a thought.
bool begins_thought(std::string_view prompt_end);

}  // namespace rondo

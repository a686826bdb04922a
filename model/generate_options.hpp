#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "model/sampling_params.hpp"

namespace rondo {

class AnswerFormat;
struct Model;

/// How an answer is made, and where it ends.
struct GenerateOptions {
    int64_t tokens_max = 256;
    int64_t tokens_min = 0;  ///< before so many nothing ends the answer but `tokens_max`
    SamplingParams sampling = {};
    std::vector<std::string> stops = {};
    std::vector<int32_t> stop_ids = {};  ///< end the answer as an end token does, also where those are ignored
    bool ignore_eos = false;
    bool special_text = false;  ///< special tokens are part of the text, but for the one that ends the answer
    /// What the answer must be; null: any text. It ends where that is complete, and no end token or stop id before.
    std::shared_ptr<const AnswerFormat> format = {};
    bool thinks_first = false;    ///< before that it may think; an engine sets this from Ask::thoughts_apart
    bool continues_text = false;  ///< the answer goes on with the prompt's text; behind Ask::ids it does

    /// Every field in its range; else an error that names field and range.
    Status check(int64_t vocabulary) const;
    /// Also what needs more than the vocabulary: stop strings need a tokenizer.
    Status check(const Model& model) const;
};

}  // namespace rondo

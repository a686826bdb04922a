#pragma once

#include <cstdint>
#include <string>

#include "actors/gateway/bodies/body_fields.hpp"
#include "model/answer.hpp"

namespace rondo {

/// What a request for an answer says beside its prompt, whichever way the prompt is given. Checked: `options` pass
/// GenerateOptions::check for the vocabulary that was given.
struct AnswerRequest {
    std::string model;  ///< "": the one that is served
    GenerateOptions options;
    bool tokens_max_given = false;  ///< else options.tokens_max is only the API's default
    bool seed_given = false;        ///< else whoever runs it draws one, or all answers to one prompt are equal
    int n = 1;
    bool stream = false;
    bool include_usage = false;
    std::string conversation;   ///< "": none named
    bool goes_on = false;       ///< it must be there already
    int priority = 0;           ///< −10 to 10; the larger goes first
    double deadline_s = 0.0;    ///< 0: the server's own
    std::string method;         ///< "": the server's own
    int64_t budget_tokens = 0;  ///< 0: the method's own
};

/// Sets what absent fields mean by OpenAI's API: temperature 1.
void read_answer_fields(BodyFields& fields, int64_t vocabulary, AnswerRequest& into);
/// Comes when `tokens_max` is known.
void read_tokens_min(BodyFields& fields, AnswerRequest& into);

}  // namespace rondo

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "actors/gateway/bodies/answer_request.hpp"
#include "actors/gateway/bodies/template_fields.hpp"
#include "actors/gateway/bodies/tools.hpp"
#include "model/text/chat_template.hpp"

namespace rondo {

/// The body of POST /v1/chat/completions, checked. README.md lists the fields.
struct ChatRequest : AnswerRequest {
    std::vector<ChatMessage> messages;  ///< at least one
    TemplateFields for_template;
    ToolFields tools;
};

/// Fields that by OpenAI's own words change no answer: labels, and hints for billing, abuse and caching.
void read_labels(BodyFields& fields);

ApiResult<ChatRequest> parse_chat_request(std::string_view body, int64_t vocabulary);

}  // namespace rondo

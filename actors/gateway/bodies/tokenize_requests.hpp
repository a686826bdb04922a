#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/gateway/bodies/api_error.hpp"
#include "actors/gateway/bodies/template_fields.hpp"
#include "actors/gateway/bodies/tools.hpp"
#include "model/text/chat_template.hpp"

namespace rondo {

/// POST /tokenize: a text, or messages to be rendered by the model's chat template.
struct TokenizeRequest {
    std::string text;
    bool add_special = true;            ///< of a text: with the tokens the model wants around a prompt
    std::vector<ChatMessage> messages;  ///< empty: it is a text
    TemplateFields for_template;
    ToolFields tools;
};

/// POST /detokenize
struct DetokenizeRequest {
    std::vector<int32_t> ids;
};

ApiResult<TokenizeRequest> parse_tokenize(std::string_view body);
ApiResult<DetokenizeRequest> parse_detokenize(std::string_view body, int64_t vocabulary);

}  // namespace rondo

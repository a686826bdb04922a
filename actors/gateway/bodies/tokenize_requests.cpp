#include "actors/gateway/bodies/tokenize_requests.hpp"

#include "actors/gateway/bodies/body_fields.hpp"
#include "actors/gateway/bodies/chat_messages.hpp"
#include "config/limits.hpp"

namespace rondo {

ApiResult<TokenizeRequest> parse_tokenize(std::string_view body) {
    return read_body<TokenizeRequest>(body, [body](BodyFields& fields, TokenizeRequest& request) {
        const bool has_text = fields.find("text") != nullptr;
        fields.text("text", limits::prompt_bytes_max, request.text);
        read_messages(fields, "messages", request.messages);
        if (has_text && !request.messages.empty()) fields.wrong("messages", "there beside text", "one of the two");
        if (!has_text && request.messages.empty()) fields.missing("text", "a string, or messages,");
        if (!request.messages.empty()) {
            read_template_fields(fields, request.for_template);
            read_tool_fields(fields, body, request.tools);
        }
        if (!request.messages.empty() && fields.find("add_special") != nullptr) {
            fields.wrong("add_special", "there beside messages, whose template writes its own", "left out");
        }
        fields.flag("add_special", request.add_special);
    });
}

ApiResult<DetokenizeRequest> parse_detokenize(std::string_view body, int64_t vocabulary) {
    return read_body<DetokenizeRequest>(body, [vocabulary](BodyFields& fields, DetokenizeRequest& request) {
        if (fields.find("ids") == nullptr) fields.missing("ids", "a list of token ids");
        fields.token_ids("ids", vocabulary, request.ids);
    });
}

}  // namespace rondo

#include "actors/gateway/bodies/chat_request.hpp"
#include "actors/gateway/bodies/completion_request.hpp"
#include "actors/gateway/bodies/response_format.hpp"
#include "tests/actors/api_request_rows.hpp"
#include "tests/model/formats.hpp"

namespace rondo {
namespace {

using testing::allowed;
using testing::Allowed;

ApiResult<ChatRequest> parse(const std::string& member) {
    return parse_chat_request(R"({"messages":[{"role":"user","content":"Hi"}],)" + member + "}", vocabulary);
}

TEST(ResponseFormat, IsTextJsonOrJsonOfASchema) {
    EXPECT_EQ(accepted(parse(R"("response_format":{"type":"text"})")).options.format, nullptr);
    EXPECT_EQ(accepted(parse(R"("response_format":null)")).options.format, nullptr);
    EXPECT_EQ(accepted(parse(R"("response_format":{"type":"json_object"})")).options.format,
              AnswerFormat::json_object());
    const auto format = accepted(parse(R"("response_format":{"type":"json_schema","json_schema":{"name":"n",
        "description":"d","strict":true,"schema":{"properties":{"z":{"type":"null"},"a":{"type":"null"}},
        "required":["z","a"]}}})"))
                            .options.format;
    ASSERT_NE(format, nullptr);
    EXPECT_EQ(allowed(format, R"({"z":null,"a":null})"), Allowed::whole);  // as they stand in the schema
    EXPECT_EQ(allowed(format, R"({"a":null,"z":null})"), Allowed::no);
    EXPECT_EQ(
        accepted(parse_completion_request(R"({"prompt":"Hi","response_format":{"type":"json_object"}})", vocabulary))
            .options.format,
        AnswerFormat::json_object());
}

TEST(ResponseFormat, WhatIsWrongIsNamed) {
    expect_refused(
        {{R"("response_format":"json")", "response_format", "must be"},
         {R"("response_format":{})", "response_format.type", "text, json_object or json_schema"},
         {R"("response_format":{"type":"xml"})", "response_format.type", "text, json_object or json_schema"},
         {R"("response_format":{"type":1})", "response_format.type", "a string"},
         {R"("response_format":{"type":"text","strict":true})", "response_format.strict", "left out"},
         {R"("response_format":{"type":"json_object","json_schema":{"schema":{}}})", "response_format.json_schema",
          "left out"},
         {R"("response_format":{"type":"json_schema"})", "response_format.json_schema", "missing"},
         {R"("response_format":{"type":"json_schema","json_schema":1})", "response_format.json_schema", "must be"},
         {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format.json_schema.schema",
          "missing"},
         {R"("response_format":{"type":"json_schema","json_schema":{"schema":null}})",
          "response_format.json_schema.schema", "missing"},
         {R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"name":"a b"}})",
          "response_format.json_schema.name", "letters"},
         {R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"strict":1}})",
          "response_format.json_schema.strict", "true or false"},
         {R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"more":1}})",
          "response_format.json_schema.more", "left out"},
         {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"items":{"not":{"type":"null"}}}}})",
          "response_format.json_schema.schema", "response_format.json_schema.schema.items.not must be left out"},
         {R"("min_tokens":1,"response_format":{"type":"json_object"})", "min_tokens", "0"}},
        parse);
}

}  // namespace
}  // namespace rondo

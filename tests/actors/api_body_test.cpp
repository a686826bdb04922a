#include <gtest/gtest.h>

#include "actors/gateway/bodies/body_fields.hpp"
#include "actors/gateway/bodies/chat_request.hpp"
#include "actors/gateway/bodies/conversation_id.hpp"
#include "config/limits.hpp"

namespace rondo {
namespace {

void expect_no_json(const std::string& body, const std::string& message_part) {
    const auto json = parse_body(body);
    ASSERT_FALSE(json.is_ok()) << body.substr(0, 80);
    EXPECT_EQ(json.error().status, 400);
    EXPECT_EQ(json.error().code, "invalid_json");
    EXPECT_EQ(json.error().param, "");
    EXPECT_NE(json.error().message.find(message_part), std::string::npos) << json.error().message;
    EXPECT_LT(json.error().message.size(), 200U);
}

TEST(ApiBody, RefusesWhatIsNotOneStrictJsonObject) {
    expect_no_json("", "not valid JSON");
    expect_no_json("[1]", "not a JSON object");
    expect_no_json("null", "not a JSON object");
    expect_no_json(R"({"a":1)", "not valid JSON");
    expect_no_json(R"({"a":1} {})", "not valid JSON");
    expect_no_json(R"({"a":1}x)", "not valid JSON");
    expect_no_json(R"({"a":1,})", "not valid JSON");
    expect_no_json(R"({"a":1,"a":1})", "key 'a' is there twice");
    expect_no_json(R"({"a":NaN})", "not valid JSON");
    expect_no_json(R"({"a":Infinity})", "not valid JSON");
    expect_no_json(R"({"a":1e400})", "not valid JSON");
    expect_no_json(std::string("{}\0", 3), "zero byte");
    expect_no_json(R"({/* a */})", "not valid JSON");
}

TEST(ApiBody, RefusesTextThatIsNotUnicode) {
    for (const char* string : {R"(\ud800)", R"(\udc00)", R"(\ud800\ud800)", R"(\ud800x)", "\xff", "\xc0\xaf",
                               "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\n", "\x01"}) {
        expect_no_json(std::string(R"({"a":")") + string + "\"}", "not valid JSON");
    }
    EXPECT_EQ(parse_body(R"({"a":"\ud83d\ude42"})")->at("a"), "\xF0\x9F\x99\x82");
}

TEST(ApiBody, IsBoundedInDepthAndInValues) {
    constexpr size_t million = 1'000'000;
    expect_no_json(R"({"a":)" + std::string(million, '['), "nested deeper than");
    expect_no_json(R"({"a":)" + std::string(million, '[') + std::string(million, ']') + "}", "nested deeper than");
    std::string objects;
    for (size_t i = 0; i < million / 10; ++i) objects += R"({"a":)";
    expect_no_json(objects, "nested deeper than");
    std::string zeros = "{\"a\":[0";
    for (size_t i = 0; i < limits::request_values_max; ++i) zeros += ",0";
    expect_no_json(zeros + "]}", "JSON values");
}

TEST(ApiBody, NamesAnUnknownFieldWithoutRepeatingControls) {
    const auto request =
        parse_chat_request("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"a\\u001b\\nb\":1}", 10);
    ASSERT_FALSE(request.is_ok());
    EXPECT_EQ(request.error().code, "unknown_parameter");
    EXPECT_EQ(request.error().param, "a??b");
    EXPECT_EQ(request.error().message, "'a??b' is not a field of this request and must be left out");
}

TEST(ConversationId, IsPrintableUtf8OfOneTo256Bytes) {
    for (const std::string& id : {std::string("a"), std::string("chat 1"), std::string("日本 🙂"),
                                  std::string("../a%2e"), std::string(256, 'x')}) {
        EXPECT_TRUE(is_conversation_id(id)) << id;
    }
    for (const std::string& id :
         {std::string(), std::string(257, 'x'), std::string("a\0b", 3), std::string("a\nb"), std::string("\x1b[31m"),
          std::string("\x7f"), std::string("\xff"), std::string("\xe2\x82"), std::string("\xC2\x9B"),
          std::string("\xE2\x80\xAE"), std::string("\xE2\x80\xA8"), std::string("\xEF\xBB\xBF")}) {
        EXPECT_FALSE(is_conversation_id(id)) << id;
    }
}

}  // namespace
}  // namespace rondo

// Answers that must be JSON: whole, as a stream, several at once, in a conversation, cut.

#include "tests/actors/gateway_fixture.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class GatewayFormats : public testing::GatewayFixture {
protected:
    /// Members stand in the order of this text, not of their names.
    static std::string with_schema(json body, const std::string& schema) {
        const std::string text = body.dump();
        return text.substr(0, text.size() - 1) +
               R"(,"response_format":{"type":"json_schema","json_schema":{"name":"code","strict":true,"schema":)" +
               schema + "}}}";
    }
    static HttpResponse post(const std::string& path, const std::string& body) {
        HttpClient asking = client();
        return must(asking.request("POST", path, headers("ann"), body, soon()));
    }
    static json answer_of(const std::string& body) {
        const HttpResponse response = post("/v1/chat/completions", body);
        EXPECT_EQ(response.status, 200) << response.body;
        return json::parse(response.body);
    }
    static void expect_code(const std::string& text) {
        EXPECT_LT(text.find("\"sure\""), text.find("\"code\"")) << text;
        const json made = json::parse(text);
        EXPECT_EQ(made.size(), 2U) << text;
        EXPECT_TRUE(made.at("sure").is_boolean());
        EXPECT_GE(made.at("code").get<int>(), 1000);
        EXPECT_LE(made.at("code").get<int>(), 9999);
    }
    static constexpr const char* code = R"({"type":"object","properties":{"sure":{"type":"boolean"},
        "code":{"type":"integer","minimum":1000,"maximum":9999}},"required":["sure","code"],
        "additionalProperties":false})";
};

TEST_F(GatewayFormats, AnAnswerIsOfItsSchema) {
    const json reply = answer_of(with_schema(chat(testing::question), code));
    expect_code(text_of(reply));
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(reply["usage"]["completion_tokens"].get<int>() + reply["usage"]["prompt_tokens"].get<int>(),
              reply["usage"]["total_tokens"].get<int>());
    json body = chat(testing::question);
    body["n"] = 3;
    body["temperature"] = 1.5;
    const json several = answer_of(with_schema(body, code));
    EXPECT_EQ(several["choices"].size(), 3U);
    for (const json& choice : several["choices"]) expect_code(choice["message"]["content"]);
}

TEST_F(GatewayFormats, AStreamIsTheSameText) {
    json body = chat(testing::question);
    const std::string whole = text_of(answer_of(with_schema(body, code)));
    body["stream"] = true;
    const HttpResponse response = post("/v1/chat/completions", with_schema(body, code));
    std::string text;
    for (size_t at = 0; (at = response.body.find("data: {", at)) != std::string::npos; ++at) {
        const json chunk = json::parse(response.body.substr(at + 6, response.body.find("\n\n", at) - at - 6));
        text += chunk["choices"][0]["delta"].value("content", "");
    }
    EXPECT_EQ(text, whole);
}

TEST_F(GatewayFormats, AConversationGoesOnBehindOne) {
    json body = chat(testing::question, "formats");
    expect_code(text_of(answer_of(with_schema(body, code))));
    body = chat("And the code?", "formats");
    body["response_format"] = {{"type", "json_object"}};
    body["max_tokens"] = 60;
    const json reply = answer(body);
    EXPECT_TRUE(text_of(reply).starts_with('{')) << text_of(reply);
    EXPECT_EQ(reply["choices"][0]["finish_reason"] == "stop", json::accept(text_of(reply)));
    EXPECT_EQ(call("DELETE", "/v1/sessions/formats").status / 100, 2);
}

TEST_F(GatewayFormats, ACutAnswerSaysSo) {
    json body = chat(testing::question);
    body["max_tokens"] = 3;
    const json reply = answer_of(with_schema(body, code));
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
    EXPECT_FALSE(json::accept(text_of(reply)));
}

TEST_F(GatewayFormats, CompletionsHaveThemToo) {
    const HttpResponse response =
        post("/v1/completions", with_schema({{"prompt", "Code:"}, {"max_tokens", 100}, {"temperature", 1}}, code));
    ASSERT_EQ(response.status, 200) << response.body;
    expect_code(json::parse(response.body)["choices"][0]["text"]);
}

TEST_F(GatewayFormats, ASchemaThatIsNotKeptIsRefused) {
    const HttpResponse response =
        post("/v1/chat/completions", with_schema(chat("Hi"), R"({"type":"string","pattern":"[a"})"));
    EXPECT_EQ(response.status, 400);
    EXPECT_THAT(response.body, HasSubstr("response_format.json_schema.schema.pattern must be a regular expression"));
}

}  // namespace
}  // namespace rondo

// Answers that call tools: whole, as a stream, several at once, chosen, cut, in conversations, and over many turns.

#include "tests/actors/model_server.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using testing::chats;
using ::testing::HasSubstr;
using testing::ModelServer;
using testing::must;

const json weather = json::parse(R"({"type":"function","function":{"name":"weather","description":"Tells it.",
    "parameters":{"type":"object","properties":{"city":{"enum":["Oslo","Rome"]},"days":{"type":"integer","maximum":9,
    "minimum":1}},"required":["city","days"],"additionalProperties":false}}})");
const json clock_tool = json::parse(R"({"type":"function","function":{"name":"clock"}})");

class GatewayTools : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        const std::string calling =
            testing::read_file(std::string(RONDO_SOURCE_DIR) + "/tests/fixtures/demo_tools.jinja");
        server =
            std::make_unique<ModelServer>("tools_model", ModelServer::Words{}, std::vector<std::string>{}, calling);
    }
    static void TearDownTestSuite() { server.reset(); }

    static json asking(const json& choice = nullptr) {
        json body{{"messages", {{{"role", "user"}, {"content", "What is the code of the red box?"}}}},
                  {"tools", {weather, clock_tool}},
                  {"temperature", 0},
                  {"max_tokens", 300}};
        if (!choice.is_null()) body["tool_choice"] = choice;
        return body;
    }
    static json named(const char* name) { return {{"type", "function"}, {"function", {{"name", name}}}}; }
    static void expect_weather(const json& call) {
        EXPECT_EQ(call["type"], "function");
        EXPECT_EQ(call["function"]["name"], "weather");
        const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
        EXPECT_TRUE(arguments["city"] == "Oslo" || arguments["city"] == "Rome") << arguments;
        EXPECT_GE(arguments["days"].get<int>(), 1);
        EXPECT_LE(arguments["days"].get<int>(), 9);
    }
    static inline std::unique_ptr<ModelServer> server;
};

TEST_F(GatewayTools, ANamedOneIsCalledWithArgumentsOfItsSchema) {
    const json reply = server->answer(chats, asking(named("weather")));
    const json choice = reply["choices"][0], message = choice["message"];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_TRUE(message["content"].is_null());
    ASSERT_EQ(message["tool_calls"].size(), 1U) << message;
    expect_weather(message["tool_calls"][0]);
    EXPECT_THAT(message["tool_calls"][0]["id"].get<std::string>(), ::testing::StartsWith("call_"));
    EXPECT_FALSE(message["tool_calls"][0].contains("index"));
}

TEST_F(GatewayTools, AStreamTellsTheSameCallInPieces) {
    const json whole = server->answer(chats, asking(named("weather")))["choices"][0]["message"]["tool_calls"][0];
    std::string arguments, id;
    int begun = 0, pieces = 0;
    json reason;
    for (const json& chunk : server->chunks(chats, asking(named("weather")))) {
        const json& choice = chunk["choices"][0];
        if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
        EXPECT_EQ(choice["delta"].value("content", ""), "");
        for (const json& call : choice["delta"].value("tool_calls", json::array())) {
            ++pieces;
            EXPECT_EQ(call["index"], 0);
            arguments += call["function"]["arguments"].get<std::string>();
            if (!call.contains("id")) continue;
            ++begun;
            id = call["id"];
            EXPECT_EQ(call["function"]["name"], "weather");
            EXPECT_EQ(call["type"], "function");
        }
    }
    EXPECT_EQ(begun, 1);
    EXPECT_GT(pieces, 2) << "they come as they are made";
    EXPECT_EQ(arguments, whole["function"]["arguments"]);
    EXPECT_NE(id, whole["id"]) << "each call has its own";
    EXPECT_EQ(reason, "tool_calls");
}

TEST_F(GatewayTools, ARequiredCallIsOfAnyOfThem) {
    json body = asking("required");
    body["n"] = 4;
    body["temperature"] = 2;
    body["parallel_tool_calls"] = false;
    const json reply = server->answer(chats, body);
    ASSERT_EQ(reply["choices"].size(), 4U);
    for (const json& choice : reply["choices"]) {
        ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << choice;
        const json& call = choice["message"]["tool_calls"][0];
        EXPECT_EQ(choice["finish_reason"], "tool_calls");
        if (call["function"]["name"] == "weather") {
            expect_weather(call);
        } else {
            EXPECT_EQ(call["function"]["name"], "clock");
            EXPECT_EQ(call["function"]["arguments"], "{}");
        }
    }
}

TEST_F(GatewayTools, WhereItMayCallItMayAlsoSayATextWithoutOneNeverCalls) {
    // The demo model has learned no calls, so it says its text.
    for (const json& choice : {json("auto"), json("none"), json(nullptr)}) {
        const json said = server->answer(chats, asking(choice))["choices"][0];
        EXPECT_EQ(said["message"].contains("tool_calls"), false) << said;
        EXPECT_NE(said["message"]["content"], "");
    }
}

TEST_F(GatewayTools, ACutCallSaysSo) {
    json body = asking(named("weather"));
    const json whole = server->answer(chats, body)["choices"][0]["message"]["tool_calls"][0];
    for (const int most : {1, 3, 12, 20, 25}) {
        body["max_tokens"] = most;
        const json choice = server->answer(chats, body)["choices"][0];
        if (choice["finish_reason"] == "tool_calls") continue;
        EXPECT_EQ(choice["finish_reason"], "length");
        const json calls = choice["message"].value("tool_calls", json::array());
        EXPECT_EQ(choice["message"]["content"].is_null(), !calls.empty()) << choice;
        if (calls.empty()) continue;
        const std::string part = calls[0]["function"]["arguments"], all = whole["function"]["arguments"];
        EXPECT_TRUE(all.starts_with(part)) << part;
    }
}

/// A client that keeps the history itself. The text of the call is the same again (ToolUse's tests); how much of its KV
/// is found depends on how the model cut it into tokens, and this one has learned no JSON.
TEST_F(GatewayTools, ACallIsAnsweredByItsTool) {
    json body = asking(named("weather"));
    const json first = server->answer(chats, body);
    body["messages"].push_back(first["choices"][0]["message"]);
    body["messages"].push_back({{"role", "tool"},
                                {"tool_call_id", first["choices"][0]["message"]["tool_calls"][0]["id"]},
                                {"content", "wet"}});
    body["tool_choice"] = "none";
    const json second = server->answer(chats, body);
    EXPECT_FALSE(second["choices"][0]["message"].contains("tool_calls"));
    EXPECT_NE(second["choices"][0]["message"]["content"], "");
    const int full_blocks = first["usage"]["prompt_tokens"].get<int>() / kv_block_tokens * kv_block_tokens;
    EXPECT_GE(second["usage"]["prompt_tokens_details"]["cached_tokens"], full_blocks) << second;
}

TEST_F(GatewayTools, AConversationGoesOnBehindACall) {
    json body = asking(named("weather"));
    body["conversation"] = "tools";
    const json first = server->answer(chats, body);
    expect_weather(first["choices"][0]["message"]["tool_calls"][0]);
    body["messages"] = {{{"role", "tool"}, {"tool_call_id", "x"}, {"content", "wet"}}};
    body["tool_choice"] = "auto";
    const json second = server->answer(chats, body);
    const auto known = first["usage"]["prompt_tokens"].get<int>() + first["usage"]["completion_tokens"].get<int>();
    EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(), known - 1) << second;
    const json rounds = json::parse(server->call("GET", "/v1/sessions/tools").body)["rounds"];
    ASSERT_EQ(rounds.size(), 2U);
    EXPECT_THAT(rounds[0]["assistant"].get<std::string>(), HasSubstr("<tool_call>\n{\"name\": \"weather\""));
    EXPECT_EQ(server->call("DELETE", "/v1/sessions/tools").status / 100, 2);
}

TEST_F(GatewayTools, AnAnswersFormatStandsBesideThem) {
    json body = asking("auto");
    body["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", "n"}, {"schema", {{"enum", {"red", "blue"}}}}}}};
    const json choice = server->answer(chats, body)["choices"][0];
    if (choice["message"].contains("tool_calls")) {
        EXPECT_EQ(choice["finish_reason"], "tool_calls");
    } else {
        EXPECT_THAT(choice["message"]["content"].get<std::string>(), ::testing::AnyOf("\"red\"", "\"blue\""));
    }
    body["tool_choice"] = "none";
    const json none = server->answer(chats, body)["choices"][0];
    EXPECT_THAT(none["message"]["content"].get<std::string>(), ::testing::AnyOf("\"red\"", "\"blue\""));
    body["tool_choice"] = named("clock");
    EXPECT_EQ(server->answer(chats, body)["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "clock");
}

TEST_F(GatewayTools, TheirTextIsPartOfThePrompt) {
    json body = asking();
    const int with = server->answer("/tokenize", {{"messages", body["messages"]}, {"tools", body["tools"]}})["count"];
    const int without = server->answer("/tokenize", {{"messages", body["messages"]}})["count"];
    EXPECT_GT(with, without + 50);
    body["max_tokens"] = 1;
    EXPECT_EQ(server->answer(chats, body)["usage"]["prompt_tokens"], with);
}

TEST_F(GatewayTools, WrongOnesAreRefusedByTheirPlace) {
    json body = asking(named("date"));
    EXPECT_THAT(server->error(chats, body)["message"].get<std::string>(), HasSubstr("none of tools"));
    body = asking();
    body["tools"][0]["function"]["name"] = "two words";
    EXPECT_THAT(server->error(chats, body)["message"].get<std::string>(), HasSubstr("tools[0].function.name"));
    body["tools"][0] = clock_tool;
    EXPECT_THAT(server->error(chats, body)["message"].get<std::string>(), HasSubstr("tools[1].function.name"));
    EXPECT_EQ(server->error("/tokenize", {{"messages", body["messages"]}, {"tools", body["tools"]}})["param"], "tools");
    body = asking();
    body["min_tokens"] = 5;
    EXPECT_THAT(server->error(chats, body)["message"].get<std::string>(), HasSubstr("min_tokens"));
}

/// The cue of its calls is a special token, as Mistral's is; their ids are the model's own.
TEST(GatewayCuedTools, AreToldByTheirToken) {
    constexpr const char* cued =
        R"({% if tools %}{{ tools | tojson }}{% endif %}{% set ns = namespace(ids=[]) %}{% for m in messages %})"
        R"({% for c in m.tool_calls or [] %}{% set ns.ids = ns.ids + [c.id] %}{% endfor %})"
        R"({% if m.role == 'tool' and m.tool_call_id not in ns.ids %}{{ raise_exception('whose call is this?') }})"
        R"({% endif %}{{ '<|' + m.role + '|>' }})"
        R"({{ m.content if not m.tool_calls }})"
        R"({% if m.tool_calls %}{{ '<|system|>[' }}{% for c in m.tool_calls %}{{ (c.function | tojson)[:-1] }})"
        R"({{ ', "id": "' + c.id + '"}' + (', ' if not loop.last else ']') }}{% endfor %}{% endif %}{{ '<|end|>' }})"
        R"({% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %})";
    ModelServer server("cued_tools", ModelServer::Words{}, {}, cued);
    json body{{"messages", {{{"role", "user"}, {"content", "Rain?"}}}},
              {"tools", {weather}},
              {"tool_choice", "required"},
              {"parallel_tool_calls", false},
              {"temperature", 0}};
    const json first = server.answer(chats, body);
    const json message = first["choices"][0]["message"];
    ASSERT_EQ(message["tool_calls"].size(), 1U) << message;
    EXPECT_TRUE(message["content"].is_null()) << message;
    const std::string id = message["tool_calls"][0]["id"];
    EXPECT_EQ(id.size(), 9U) << id;
    body["messages"].push_back(message);
    body["messages"].push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", "wet"}});
    body["tool_choice"] = "none";
    const json second = server.answer(chats, body);
    EXPECT_NE(second["choices"][0]["message"]["content"], "");
    constexpr int block = 16;
    EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(),
              first["usage"]["prompt_tokens"].get<int>() - block)
        << second;
    // In a conversation the template is told of the call as a client would tell it: it wants the id of its result.
    json turn = body;
    turn["conversation"] = "c";
    turn["tool_choice"] = "required";
    turn["messages"] = {body["messages"][0]};
    EXPECT_EQ(server.answer(chats, turn)["choices"][0]["message"]["tool_calls"][0]["id"], id);
    turn["tool_choice"] = "none";
    turn["messages"] = {body["messages"][2]};
    EXPECT_NE(server.answer(chats, turn)["choices"][0]["message"]["content"], "");
    turn["messages"][0]["tool_call_id"] = "another";
    EXPECT_THAT(server.error(chats, turn)["message"].get<std::string>(), HasSubstr("whose call is this?"));
    EXPECT_EQ(server.call("DELETE", "/v1/sessions/c").status / 100, 2);
    // Where it may call or not, its first token says which; where it must not call, that token does not come.
    const json cue = server.answer("/tokenize", {{"text", "<|system|>"}, {"add_special", false}})["ids"];
    ASSERT_EQ(cue.size(), 1U);
    body = {{"messages", {{{"role", "user"}, {"content", "Rain?"}}}},
            {"tools", {weather}},
            {"parallel_tool_calls", false},
            {"temperature", 0},
            {"max_tokens", 200},
            {"logit_bias", {{std::to_string(cue[0].get<int>()), 100}}}};
    const json called = server.answer(chats, body)["choices"][0];
    EXPECT_EQ(called["finish_reason"], "tool_calls");
    EXPECT_EQ(called["message"]["tool_calls"].size(), 1U) << called;
    body["tool_choice"] = "none";
    const json said = server.answer(chats, body)["choices"][0]["message"];
    EXPECT_FALSE(said.contains("tool_calls"));
    EXPECT_EQ(said["content"].get<std::string>().find("<|system|>"), std::string::npos) << said;
}

TEST(GatewayWithoutTools, SaysThatItsTemplateKnowsNone) {
    ModelServer server("no_tools", ModelServer::Words{});
    json body{{"messages", {{{"role", "user"}, {"content", "Rain?"}}}}, {"tools", {weather}}};
    const json refused = server.error(chats, body);
    EXPECT_EQ(refused["param"], "tools");
    EXPECT_EQ(refused["code"], "unsupported_value");
    EXPECT_THAT(refused["message"].get<std::string>(), HasSubstr("has no word for them"));
    body["tool_choice"] = "none";
    EXPECT_EQ(server.call("POST", chats, body).status, 200);
    body["tools"] = {"f"};
    EXPECT_EQ(server.error(chats, body)["param"], "tools");
}

}  // namespace
}  // namespace rondo

// OpenAI's Responses API: alone, in chains that part, as streams, with tools, and what is left of them.

#include <future>

#include "tests/actors/model_server.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::ModelServer;

constexpr const char* responses = "/v1/responses";
constexpr const char* told_fact = "The code of the red box is 4817.";
constexpr const char* asked_again = "What is the code of the red box?";
constexpr const char* remembered = "The code of the red box is 4817.";

class GatewayResponses : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        server = std::make_unique<ModelServer>(
            "responses", ModelServer::Words{}, std::vector<std::string>{},
            testing::read_file(std::string(RONDO_SOURCE_DIR) + "/tests/fixtures/demo_tools.jinja"));
    }
    static void TearDownTestSuite() { server.reset(); }

    static json asking(const std::string& input, const json& more = json::object()) {
        json body{{"input", input}, {"temperature", 0}};
        body.update(more);
        return body;
    }
    static json respond(const json& body) { return server->answer(responses, body); }
    static std::string text_of(const json& response) {
        std::string text;
        for (const json& item : response["output"])
            for (const json& part : item.value("content", json::array())) text += part["text"];
        return text;
    }
    static std::vector<json> events(json body) {
        body["stream"] = true;
        const HttpResponse response = server->call("POST", responses, body);
        std::vector<json> all;
        for (size_t at = 0; (at = response.body.find("data: {", at)) != std::string::npos; ++at)
            all.push_back(json::parse(response.body.substr(at + 6, response.body.find("\n\n", at) - at - 6)));
        EXPECT_THAT(response.body, ::testing::Not(HasSubstr("[DONE]")));
        return all;
    }
    static std::set<std::string> kept() {
        std::set<std::string> ids;
        const json list = json::parse(server->call("GET", "/v1/sessions?limit=100").body);
        for (const json& one : list["data"]) ids.insert(one["id"]);
        return ids;
    }
    static inline std::unique_ptr<ModelServer> server;
};

TEST_F(GatewayResponses, AnswersATextAndWhatStandsBefore) {
    const json alone = respond(asking(std::string(told_fact) + " " + asked_again));
    EXPECT_EQ(text_of(alone), remembered);
    EXPECT_EQ(alone["status"], "completed");
    EXPECT_EQ(alone["usage"]["input_tokens"].get<int>() + alone["usage"]["output_tokens"].get<int>(),
              alone["usage"]["total_tokens"].get<int>());
    json body{{"input",
               {{{"role", "user"}, {"content", told_fact}},
                {{"role", "assistant"}, {"content", "OK."}},
                {{"role", "user"}, {"content", asked_again}}}},
              {"store", false},
              {"temperature", 0}};
    EXPECT_EQ(text_of(respond(body)), remembered);
}

TEST_F(GatewayResponses, AChainRemembersAndMayPart) {
    const json first = respond(asking(told_fact));
    const std::string id = first["id"];
    const json second = respond(asking(asked_again, {{"previous_response_id", id}}));
    EXPECT_EQ(text_of(second), remembered);
    const auto known = first["usage"]["total_tokens"].get<int>();
    EXPECT_GE(second["usage"]["input_tokens_details"]["cached_tokens"].get<int>(), known - 1) << "its KV is found";
    // Others go on with the same one, at once, and none hears of another.
    std::vector<std::future<json>> several;
    for (int i = 0; i < 4; ++i)
        several.push_back(std::async(std::launch::async, [&, i] {
            const std::string color = i % 2 == 0 ? "blue" : "green";
            return respond(asking("The code of the " + color + " box is 12" + std::to_string(30 + i) + ".",
                                  {{"previous_response_id", id}}));
        }));
    std::set<std::string> ids;
    for (auto& one : several) {
        const json made = one.get();
        ids.insert(made["id"]);

        const json rounds = json::parse(server->call("GET", "/v1/sessions/" + made["id"].get<std::string>()).body);
        EXPECT_EQ(rounds["rounds"].size(), 2U) << rounds;
    }
    EXPECT_EQ(ids.size(), 4U);
    EXPECT_EQ(json::parse(server->call("GET", "/v1/sessions/" + id).body)["rounds"].size(), 1U);
    EXPECT_EQ(text_of(respond(asking(asked_again, {{"previous_response_id", *ids.begin()}}))), remembered);
}

TEST_F(GatewayResponses, AStreamTellsTheSame) {
    const json body = asking(std::string(told_fact) + " " + asked_again);
    const json whole = respond(body);
    std::string text;
    const std::vector<json> all = events(body);
    for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i]["sequence_number"], i);
        if (all[i]["type"] == "response.output_text.delta") text += all[i]["delta"];
    }
    EXPECT_EQ(text, remembered);
    EXPECT_EQ(all.front()["type"], "response.created");
    EXPECT_EQ(all.back()["type"], "response.completed");
    const json& told = all.back()["response"];
    EXPECT_EQ(text_of(told), text_of(whole));
    EXPECT_EQ(told["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
    EXPECT_EQ(text_of(respond(asking(asked_again, {{"previous_response_id", told["id"]}}))), remembered);
    json cut = body;
    cut["max_output_tokens"] = 3;
    EXPECT_EQ(events(cut).back()["type"], "response.incomplete");
    EXPECT_EQ(respond(cut)["incomplete_details"]["reason"], "max_output_tokens");
}

TEST_F(GatewayResponses, CallsToolsAndTakesTheirOutput) {
    const json tools = json::parse(R"([{"type":"function","name":"clock","parameters":{"type":"object","properties":
        {"zone":{"enum":["CET","UTC"]}},"required":["zone"],"additionalProperties":false}}])");
    const json more{{"tools", tools}, {"tool_choice", {{"type", "function"}, {"name", "clock"}}}};
    const json first = respond(asking("Time?", more));
    ASSERT_EQ(first["output"].size(), 1U) << first;
    const json call = first["output"][0];
    EXPECT_EQ(call["type"], "function_call");
    EXPECT_EQ(call["name"], "clock");
    EXPECT_TRUE(json::parse(call["arguments"].get<std::string>())["zone"].is_string());
    const json output{{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "noon"}};
    json body{{"previous_response_id", first["id"]}, {"input", {output}}, {"tools", tools}, {"temperature", 0}};
    const json second = respond(body);
    EXPECT_NE(text_of(second), "");
    EXPECT_GE(second["usage"]["input_tokens_details"]["cached_tokens"].get<int>(),
              first["usage"]["total_tokens"].get<int>() - 1);
    // The same by a client that keeps the history.
    body = {{"input", {{{"role", "user"}, {"content", "Time?"}}, call, output}},
            {"tools", tools},
            {"store", false},
            {"temperature", 0}};
    EXPECT_NE(text_of(respond(body)), "");
    std::string arguments;
    for (const json& event : events(asking("Time?", more)))
        if (event["type"] == "response.function_call_arguments.delta") arguments += event["delta"];
    EXPECT_EQ(arguments, call["arguments"]);
    body = asking("x", {{"tools", {{{"type", "function"}, {"name", "two words"}}}}});
    EXPECT_THAT(server->error(responses, body)["message"].get<std::string>(),
                HasSubstr("tools[0].name is not allowed"));
}

TEST_F(GatewayResponses, KeepsWhatIsStoredAndNothingElse) {
    const std::set<std::string> before = kept();
    const json stored = respond(asking(told_fact));
    std::set<std::string> wanted = before;
    wanted.insert(stored["id"]);
    EXPECT_EQ(kept(), wanted);
    EXPECT_EQ(text_of(respond(asking(asked_again, {{"previous_response_id", stored["id"]}, {"store", false}}))),
              remembered);
    respond(asking("Hello", {{"store", false}}));
    const auto all_gone = [&] {
        for (int i = 0; i < 200 && kept() != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return kept() == wanted;
    };
    EXPECT_TRUE(all_gone()) << "what is not stored leaves when it is answered";
    // One that fails leaves nothing either: no context holds so much.
    const std::string much(200'000, 'a');
    for (const json& previous : {json(nullptr), stored["id"]})
        EXPECT_EQ(server->call("POST", responses, asking(much, {{"previous_response_id", previous}})).status, 400);
    EXPECT_TRUE(all_gone());
    const std::string path = std::string(responses) + "/" + stored["id"].get<std::string>();
    EXPECT_EQ(json::parse(server->call("DELETE", path).body),
              json({{"id", stored["id"]}, {"object", "response"}, {"deleted", true}}));
    EXPECT_EQ(server->call("DELETE", path).status, 404);
    EXPECT_EQ(server->call("GET", path).status, 405);
    const json gone = server->error(responses, asking(asked_again, {{"previous_response_id", stored["id"]}}), 404);
    EXPECT_EQ(gone["code"], "previous_response_not_found");
    EXPECT_EQ(gone["param"], "previous_response_id");
    EXPECT_EQ(kept(), before);
}

TEST_F(GatewayResponses, OnlyOneThatHasEndedIsGoneOnWith) {
    json body = asking("qzx", {{"conversation", "busy"}, {"ignore_eos", true}, {"max_output_tokens", 1000}});
    auto under_way = std::async(std::launch::async, [&] { return respond(body); });
    json refused = json::object();
    for (int i = 0; i < 500 && refused.value("code", "") != "invalid_value"; ++i) {
        const HttpResponse response =
            server->call("POST", responses, asking("y", {{"previous_response_id", "busy"}, {"max_output_tokens", 1}}));
        if (response.status == 400) refused = json::parse(response.body)["error"];
        if (response.status == 200) break;  // it was over before we came
    }
    EXPECT_EQ(refused["param"], "previous_response_id") << "a history that lacks its end";
    EXPECT_EQ(under_way.get()["status"], "incomplete");
    EXPECT_EQ(respond(asking("y", {{"previous_response_id", "busy"}, {"max_output_tokens", 1}}))["status"],
              "incomplete");
    EXPECT_EQ(server->call("DELETE", "/v1/sessions/busy").status / 100, 2);
}

TEST_F(GatewayResponses, AConversationOfItsOwnIsGoneOnWith) {
    respond(asking(told_fact, {{"conversation", "mine"}}));
    EXPECT_EQ(text_of(respond(asking(asked_again, {{"conversation", "mine"}}))), remembered);
    EXPECT_EQ(json::parse(server->call("GET", "/v1/sessions/mine").body)["rounds"].size(), 2U);
    EXPECT_EQ(server->call("DELETE", "/v1/sessions/mine").status / 100, 2);
}

TEST_F(GatewayResponses, AnErrorOfAStreamIsOneEvent) {
    json body = asking("x", {{"deadline_s", 1e-6}, {"stream", true}});
    const HttpResponse late = server->call("POST", responses, body);
    EXPECT_TRUE(late.status == 504 || late.body.find("response.failed") != std::string::npos) << late.body;
    EXPECT_EQ(server->call("POST", responses, json::object()).status, 400);
    EXPECT_EQ(server->call("GET", responses).status, 405);
}

}  // namespace
}  // namespace rondo

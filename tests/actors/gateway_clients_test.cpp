// What OpenAI's and vLLM's clients send beyond the plain request.

#include <map>

#include "tests/actors/model_server.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using testing::chats;
using testing::completions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModelServer;
using testing::must;
using testing::question;

constexpr const char* right = "The code of the red box is 4817.";

json chat(const json& messages) {
    return {{"messages", messages}, {"temperature", 0}};
}

json said(const std::string& text) {
    return chat(json::array({{{"role", "user"}, {"content", text}}}));
}

class PlainModel : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        server = std::make_unique<ModelServer>(
            "plain_model", ModelServer::Words{},
            std::vector<std::string>{"server.served_model_names=[org/demo, gpt-4o]",
                                     "pipeline.methods=[snapkv, a_shape]", "pipeline.decode.attention.budget_tokens=24",
                                     "pipeline.budget_tokens_max=64"});
    }
    static void TearDownTestSuite() { server.reset(); }
    static inline std::unique_ptr<ModelServer> server;
};

TEST_F(PlainModel, IsServedByItsNames) {
    std::vector<std::string> names;
    const json models = json::parse(server->call("GET", "/v1/models").body);
    for (const json& one : models["data"]) names.push_back(one["id"]);
    EXPECT_THAT(names, ElementsAre("org/demo", "gpt-4o"));
    for (const char* path : {"/v1/models/org/demo", "/v1/models/org%2Fdemo", "/v1/models/org%2fdemo"})
        EXPECT_EQ(json::parse(server->call("GET", path).body)["id"], "org/demo") << path;
    EXPECT_EQ(json::parse(server->call("GET", "/v1/models/gpt-4o").body)["id"], "gpt-4o");
    EXPECT_EQ(server->call("GET", "/v1/models/plain_model").status, 404) << "its folder's name is no name of it";
    json body = said(question);
    for (const char* name : {"", "org/demo", "gpt-4o"}) {
        if (*name != '\0') body["model"] = name;
        EXPECT_EQ(server->answer(chats, body)["model"], "org/demo");
    }
    body["model"] = "plain_model";
    EXPECT_THAT(server->error(chats, body, 404)["message"].get<std::string>(), HasSubstr("'org/demo' or 'gpt-4o'"));
    EXPECT_THAT(server->call("GET", "/metrics").body, HasSubstr("model_name=\"org/demo\""));
}

TEST_F(PlainModel, AnswersAListOfPrompts) {
    const auto text_of = [&](const json& prompt) {
        return server->answer(completions, {{"prompt", prompt}, {"temperature", 0}})["choices"][0]["text"];
    };
    const json first = "The code of the red box is", second = "Hello!";
    const json both = server->answer(completions, {{"prompt", {first, second}}, {"n", 2}, {"temperature", 0}});
    ASSERT_EQ(both["choices"].size(), 4U);
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(both["choices"][i]["index"], i);
        EXPECT_EQ(both["choices"][i]["text"], text_of(i < 2 ? first : second)) << i;
    }
    int64_t prompts = 0, answers = 0;
    json ids = json::array();
    for (const json& prompt : {first, second}) {
        ids.push_back(server->answer("/tokenize", {{"text", prompt}})["ids"]);
        prompts += static_cast<int64_t>(ids.back().size());
        answers +=
            2 * server->answer(completions, {{"prompt", prompt}, {"temperature", 0}})["usage"]["completion_tokens"]
                    .get<int64_t>();
    }
    EXPECT_EQ(both["usage"]["prompt_tokens"], prompts);
    EXPECT_EQ(both["usage"]["completion_tokens"], answers);
    const json by_ids = server->answer(completions, {{"prompt", ids}, {"temperature", 0}});
    ASSERT_EQ(by_ids["choices"].size(), 2U);
    EXPECT_EQ(by_ids["choices"][1]["text"], both["choices"][2]["text"]);

    std::map<int, std::string> streamed;
    for (const json& chunk : server->chunks(completions, {{"prompt", {first, second}}, {"temperature", 0}}))
        for (const json& choice : chunk["choices"]) streamed[choice["index"]] += choice["text"].get<std::string>();
    EXPECT_EQ(streamed[0], both["choices"][0]["text"]);
    EXPECT_EQ(streamed[1], both["choices"][2]["text"]);
    // One that cannot be had fails them all.
    EXPECT_THAT(server->error(completions, {{"prompt", {first, std::string(9000, 'x')}}})["message"].get<std::string>(),
                HasSubstr("context"));
}

TEST_F(PlainModel, EchoesPrompts) {
    const std::string prompt = "The code of the red box is";
    const auto text_of = [&](const json& body) { return server->answer(completions, body)["choices"][0]["text"]; };
    const std::string answer = text_of({{"prompt", prompt}, {"temperature", 0}});
    EXPECT_EQ(text_of({{"prompt", prompt}, {"temperature", 0}, {"echo", true}}), prompt + answer);
    const json ids = server->answer("/tokenize", {{"text", prompt}})["ids"];
    EXPECT_EQ(text_of({{"prompt", ids}, {"temperature", 0}, {"echo", true}}), prompt + answer);
    std::string streamed;
    for (const json& chunk : server->chunks(completions, {{"prompt", prompt}, {"temperature", 0}, {"echo", true}}))
        for (const json& choice : chunk["choices"]) streamed += choice["text"].get<std::string>();
    EXPECT_EQ(streamed, prompt + answer);
    EXPECT_EQ(server->error(completions, {{"prompt", prompt}, {"echo", true}, {"logprobs", 1}})["param"], "echo");
}

TEST_F(PlainModel, AnswersAtLeastSoMuchAndWithItsSpecialTokens) {
    json body = said(question);
    body["min_tokens"] = 30;
    body["max_tokens"] = 40;
    EXPECT_GE(server->answer(chats, body)["usage"]["completion_tokens"], 30);
    body["ignore_eos"] = true;
    body["min_tokens"] = 0;
    body["skip_special_tokens"] = false;
    EXPECT_THAT(server->answer(chats, body)["choices"][0]["message"]["content"].get<std::string>(),
                HasSubstr("4817.<|end|>"));
}

TEST_F(PlainModel, AttendsByTheBudgetThatIsAskedFor) {
    json body = said(question + " The sky was grey over the harbour and nobody went out that day.");
    body["max_tokens"] = 24;
    body["ignore_eos"] = true;
    body["method"] = "snapkv";
    EXPECT_EQ(server->answer(chats, body)["attention"]["budget_tokens"], 24);
    body["method"] = {{"name", "snapkv"}, {"budget_tokens", 12}};
    const json less = server->answer(chats, body)["attention"];
    EXPECT_EQ(less["budget_tokens"], 12);
    body["method"]["budget_tokens"] = 64;
    const json more = server->answer(chats, body)["attention"];
    EXPECT_EQ(more["budget_tokens"], 64);
    EXPECT_LT(less["answer_density"].get<double>(), more["answer_density"].get<double>());
    for (const int wrong : {7, 65, 1 << 24}) {
        body["method"]["budget_tokens"] = wrong;
        const json refused = server->error(chats, body);
        EXPECT_EQ(refused["param"], "method.budget_tokens");
        EXPECT_THAT(refused["message"].get<std::string>(), HasSubstr("must be 8 to 64"));
    }
    for (const char* without : {"dense", "a_shape"}) {
        body["method"] = {{"name", without}, {"budget_tokens", 24}};
        EXPECT_EQ(server->error(chats, body)["param"], "method.budget_tokens") << without;
    }
    EXPECT_EQ(json::parse(server->call("GET", "/v1/models").body)["data"][0]["budget_tokens_max"], 64);
}

TEST_F(PlainModel, TakesWhatChangesNothing) {
    json body = said(question);
    body.update({{"store", true},
                 {"verbosity", "medium"},
                 {"reasoning_effort", "medium"},
                 {"parallel_tool_calls", true},
                 {"tool_choice", "none"},
                 {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}},
                 {"chat_template_kwargs", {{"enable_thinking", false}}}});
    body["messages"][0]["name"] = "Ann";
    const json message = server->answer(chats, body)["choices"][0]["message"];
    EXPECT_EQ(message, json({{"role", "assistant"}, {"content", right}}));
}

TEST_F(PlainModel, SaysWhatItsTemplateCannotSay) {
    json body = chat(json::array(
        {{{"role", "user"}, {"content", "x"}},
         {{"role", "assistant"}, {"tool_calls", {{{"id", "1"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}}}}},
         {{"role", "tool"}, {"content", "y"}, {"tool_call_id", "1"}}}));
    EXPECT_EQ(server->error(chats, body)["param"], "messages[1].tool_calls");
    body = said("x");
    body["chat_template_kwargs"] = {{"enable_thinking", true}};
    EXPECT_EQ(server->error(chats, body)["param"], "chat_template_kwargs.enable_thinking");
    body.erase("chat_template_kwargs");
    body["reasoning_effort"] = "high";
    EXPECT_EQ(server->error(chats, body)["param"], "reasoning_effort");
}

TEST(ModelWithTools, SaysWhichWereCalledAndByWhom) {
    // A template of Qwen3's kind, in the demo model's words.
    const std::string source =
        "{% for m in messages %}{{ '<|' + m.role + '|>' + (m.name + ': ' if m.name else '') + m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments | tojson }}{% endfor %}"
        "{{ '<|end|>' }}{% endfor %}{{ '<|assistant|>' }}{{ mood }}";
    json config = json::parse(testing::read_file(demo_model_path() / "tokenizer_config.json"));
    const std::string escaped = json(source).dump(), old = json(config["chat_template"]).dump();
    ModelServer server("model_with_tools", {{old, escaped}});
    json body = {
        {"messages", json::array({{{"role", "user"}, {"content", "a"}, {"name", "Ann"}},
                                  {{"role", "assistant"},
                                   {"content", nullptr},
                                   {"tool_calls",
                                    {{{"id", "1"},
                                      {"type", "function"},
                                      {"function", {{"name", "f"}, {"arguments", R"({"z": 1, "a": "b"})"}}}}}}},
                                  {{"role", "tool"}, {"content", "t"}, {"tool_call_id", "1"}}})},
        {"chat_template_kwargs", {{"mood", "Well: "}}}};
    const json ids = server.answer("/tokenize", body)["ids"];
    const json text =
        server.answer("/tokenize", {{"text", R"(<|user|>Ann: a<|end|><|assistant|>f{"z": 1, "a": "b"}<|end|>)"
                                             R"(<|tool|>t<|end|><|assistant|>Well: )"},
                                    {"add_special", false}});
    EXPECT_EQ(ids, text["ids"]);
    body["max_tokens"] = 4;
    EXPECT_EQ(server.answer(chats, body)["usage"]["prompt_tokens"], ids.size());
}

/// Its prompt ends with <think>, and what ends its answers is </think>: as special tokens, and as plain ones.
class ThinkingModel : public ::testing::TestWithParam<bool> {
protected:
    static ModelServer::Words words(bool special) {
        ModelServer::Words words{
            {"<|assistant|>", "<think>"},
            {"<|end|>", "</think>"},
            {"'<|' + m['role'] + '|>'", "('<think>' if m['role'] == 'assistant' else '<|' + m['role'] + '|>')"}};
        if (special) return words;
        for (const char* word : {"<think>", "</think>"})
            for (const char* space : {" ", ""})
                words.emplace_back(std::string(R"("content":)") + space + "\"" + word + "\"," + space +
                                       R"("special":)" + space + "true",
                                   std::string(R"("content":)") + "\"" + word + R"(","special":false)");
        return words;
    }
    static json thinking() {
        json body = said(question);
        body["ignore_eos"] = true;
        body["max_tokens"] = 40;
        return body;
    }
};

INSTANTIATE_TEST_SUITE_P(Tags, ThinkingModel, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Special" : "Plain"; });

TEST_P(ThinkingModel, TellsItsThoughtsApart) {
    ModelServer server(GetParam() ? "thinking_special" : "thinking_plain", words(GetParam()));
    const json whole = server.answer(chats, thinking());
    const json message = whole["choices"][0]["message"];
    EXPECT_EQ(message["reasoning_content"], right);
    EXPECT_NE(message["content"], "");
    EXPECT_GT(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 5);
    EXPECT_LT(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], whole["usage"]["completion_tokens"]);
    std::string thought, content;
    for (const json& chunk : server.chunks(chats, thinking())) {
        const json& delta = chunk["choices"][0]["delta"];
        thought += delta.value("reasoning_content", "");
        content += delta.value("content", "");
        if (delta.contains("reasoning_content")) {
            EXPECT_EQ(content, "") << "thoughts come first";
        }
    }
    EXPECT_EQ(thought, message["reasoning_content"]);
    EXPECT_EQ(content, message["content"]);
    // An answer that ends within its thought is nothing but that.
    json body = thinking();
    body["max_tokens"] = 4;
    const json cut = server.answer(chats, body)["choices"][0]["message"];
    EXPECT_TRUE(std::string(right).starts_with(cut["reasoning_content"].get<std::string>())) << cut;
    EXPECT_EQ(cut["content"], "");
    // A plain text has no thoughts.
    EXPECT_FALSE(server.answer(completions, {{"prompt", "Hello"}})["choices"][0].contains("reasoning_content"));
}

TEST_P(ThinkingModel, HasAFormatBehindThem) {
    ModelServer server(GetParam() ? "thinking_format" : "thinking_format_plain", words(GetParam()));
    json body = thinking();
    body["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", "n"}, {"schema", {{"enum", {"red", "blue"}}}}}}};
    const json choice = server.answer(chats, body)["choices"][0];
    EXPECT_EQ(choice["message"]["reasoning_content"], right);
    EXPECT_THAT(choice["message"]["content"].get<std::string>(), ::testing::AnyOf("\"red\"", "\"blue\""));
    EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST_P(ThinkingModel, LeavesThemInTheTextWhereThatIsSet) {
    ModelServer server(GetParam() ? "thinking_off" : "thinking_off_plain", words(GetParam()), {"server.reasoning=off"});
    const json message = server.answer(chats, thinking())["choices"][0]["message"];
    EXPECT_FALSE(message.contains("reasoning_content"));
    EXPECT_TRUE(message["content"].get<std::string>().starts_with(right)) << message;
}

/// What a server keeps of a conversation is what was said, thoughts included: what becomes of them is the template's.
TEST_P(ThinkingModel, KeepsConversationsWhole) {
    ModelServer server(GetParam() ? "thinking_kept" : "thinking_kept_plain", words(GetParam()));
    json body = said(question);
    body["conversation"] = "c";
    EXPECT_EQ(server.answer(chats, body)["choices"][0]["message"]["reasoning_content"], right);
    body = said("What is the code of the red box?");
    body["conversation"] = "c";
    const json second = server.answer(chats, body);
    EXPECT_EQ(second["choices"][0]["message"]["reasoning_content"], right);
    EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"], 10);
}

}  // namespace
}  // namespace rondo

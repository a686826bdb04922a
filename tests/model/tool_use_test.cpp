#include "model/tools/tool_use.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "config/limits.hpp"
#include "model/answer.hpp"
#include "tests/model/called_tools.hpp"
#include "tests/model/formats.hpp"

namespace rondo {
namespace {

using testing::allowed;
using testing::Allowed;
using testing::style_of_template;
using testing::template_of;
using testing::tools_of;
using Kind = ToolChoice::Kind;

const std::string weather = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
const std::string clock_call = "<tool_call>\n{\"name\": \"clock\", \"arguments\": {}}\n</tool_call>";

std::string error_of(std::string_view tools, const ToolChoice& choice = {}, const char* style = "qwen-3") {
    const CallStyle known = style_of_template(style);
    const auto made = ToolUse::make(tools, choice, &known, "tools");
    return made ? "(taken)" : made.error().message;
}

TEST(ToolUse, AnAnswerIsATextOrCalls) {
    const auto format = tools_of(style_of_template("qwen-3"))->format();
    for (const std::string& text :
         {std::string(), std::string("Hello <tool> {\"a\"} \xFF"), weather, "Well.\n" + weather,
          weather + "\n" + clock_call, std::string("<tool_cal"), clock_call + "\n" + clock_call + "\n" + weather})
        EXPECT_EQ(allowed(format, text), Allowed::whole) << text;
    for (const std::string& text : {std::string("<tool_call>"), std::string("a<tool_call>\n{\"name\": \"w"),
                                    weather.substr(0, weather.size() - 1), weather + "\n"})
        EXPECT_EQ(allowed(format, text), Allowed::as_beginning) << text;
    for (const std::string& text :
         {std::string("<tool_call>x"), std::string("<tool_call>\n{\"name\": \"other"), weather + "x", weather + "\nand",
          std::string("<tool_call>\n{\"name\": \"weather\", \"arguments\": {}"),
          std::string("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\":\"Oslo\""),
          std::string("<tool_call>\n{\"name\": \"clock\", \"arguments\": {\"a")})
        EXPECT_EQ(allowed(format, text), Allowed::no) << text;
}

TEST(ToolUse, AnAnswerHasABoundedNumberOfCalls) {
    const auto format = tools_of(style_of_template("qwen-3"))->format();
    std::string text = clock_call;
    for (size_t i = 1; i < limits::answer_calls_max; ++i) {
        EXPECT_EQ(allowed(format, text + "\n<tool_call>"), Allowed::as_beginning) << i;
        text += "\n" + clock_call;
    }
    EXPECT_EQ(allowed(format, text), Allowed::whole);
    EXPECT_EQ(allowed(format, text + "\n"), Allowed::no);
}

TEST(ToolUse, AChoiceLeavesWhatItSays) {
    const CallStyle style = style_of_template("qwen-3");
    const auto required = tools_of(style, {.kind = Kind::required})->format();
    EXPECT_EQ(allowed(required, weather + "\n" + clock_call), Allowed::whole);
    EXPECT_EQ(allowed(required, "W"), Allowed::no);
    EXPECT_EQ(allowed(required, ""), Allowed::as_beginning);
    const auto named = tools_of(style, {.kind = Kind::required, .name = "clock"})->format();
    EXPECT_EQ(allowed(named, clock_call), Allowed::whole);
    EXPECT_EQ(allowed(named, clock_call + "\n"), Allowed::no) << "it is called once";
    EXPECT_EQ(allowed(named, weather), Allowed::no);
    const auto single = tools_of(style, {.several = false})->format();
    EXPECT_EQ(allowed(single, "x" + weather), Allowed::whole);
    EXPECT_EQ(allowed(single, weather + "\n"), Allowed::no);
    const auto none = tools_of(style, {.kind = Kind::none});
    EXPECT_EQ(none->style(), nullptr);
    EXPECT_EQ(allowed(none->format(), "<tool_cal"), Allowed::whole);
    EXPECT_EQ(allowed(none->format(), "Hm <tool_call>"), Allowed::no);
    EXPECT_EQ(error_of(testing::two_tools, {.kind = Kind::required, .name = "date"}),
              "the tool that is to be called is none of tools, must be one of them");
}

TEST(ToolUse, ATextHasItsFormatBesideCalls) {
    const ToolChoice choice{.text = AnswerFormat::json_object()};
    const auto format = tools_of(style_of_template("qwen-3"), choice)->format();
    EXPECT_EQ(allowed(format, "{\"a\": 1}"), Allowed::whole);
    EXPECT_EQ(allowed(format, weather), Allowed::whole);
    EXPECT_EQ(allowed(format, "Hello"), Allowed::no);
    EXPECT_EQ(allowed(format, "{}" + weather), Allowed::no);
    ToolChoice none = choice;
    none.kind = Kind::none;
    EXPECT_EQ(tools_of(style_of_template("qwen-3"), none)->format(), choice.text);
    EXPECT_NE(error_of(testing::two_tools, choice, "llama-3.2").find("begin as JSON does"), std::string::npos);
}

TEST(ToolUse, CallsThatBeginAsJsonCountAtTheBeginning) {
    const auto format = tools_of(style_of_template("llama-3.2"))->format();
    for (const char* text : {"", "Hello", "{\"code\": 1}", "{\"name", "So {\"name\": \"x",
                             "{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\"}}"})
        EXPECT_EQ(allowed(format, text), Allowed::whole) << text;
    EXPECT_EQ(allowed(format, "{\"name\": \"x"), Allowed::no);
    EXPECT_EQ(allowed(format, "{\"name\": \"clock\", \"parameters\": {}} "), Allowed::no);
}

std::string one_tool(const std::string& function) {
    return R"([{"type":"function","function":)" + function + "}]";
}

TEST(ToolUse, ASchemaIsKeptWhereItCanBe) {
    const CallStyle style = style_of_template("qwen-3");
    const std::string odd = R"("parameters":{"type":"object","properties":{"a":{"type":"integer","multipleOf":3}}})";
    EXPECT_EQ(error_of(one_tool(R"({"name":"f","strict":true,)" + odd + "}")),
              "tools[0].function.parameters.properties.a.multipleOf must be left out; it is not supported");
    const auto format = tools_of(style, {}, one_tool(R"({"name":"f",)" + odd + "}"))->format();
    const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": ";
    EXPECT_EQ(allowed(format, call + "{\"x\": [1, {}], \"y\": \"a\\nb\"}}\n</tool_call>"), Allowed::whole);
    EXPECT_EQ(allowed(format, call + "[]"), Allowed::no);
    const auto untyped =
        tools_of(style, {}, one_tool(R"({"name":"f","parameters":{"properties":{"a":{}}}})"))->format();
    EXPECT_EQ(allowed(untyped, call + "{\"a\": 1}}"), Allowed::as_beginning);
    EXPECT_EQ(allowed(untyped, call + "1"), Allowed::no);
    // Too much to keep all of it: those who insist come first.
    const std::string wide = R"("parameters":{"type":"object","properties":{"a":{"type":"string","maxLength":9000}}})";
    std::string many = "[";
    for (int i = 0; i < 8; ++i)
        many += (i == 0 ? "" : ",") + (R"({"type":"function","function":{"name":"f)" + std::to_string(i) +
                                       R"(","strict":)" + (i == 0 ? "true" : "false") + "," + wide + "}}");
    many += "]";
    const auto kept = tools_of(style, {}, many)->format();
    const std::string first = "<tool_call>\n{\"name\": \"f0\", \"arguments\": ";
    EXPECT_EQ(allowed(kept, first + "{\"b"), Allowed::no);
    EXPECT_EQ(allowed(kept, "<tool_call>\n{\"name\": \"f1\", \"arguments\": {\"b"), Allowed::as_beginning);
}

TEST(ToolUse, WrongListsAreRefusedByTheirPlace) {
    const std::vector<std::pair<std::string, std::string>> rows{
        {"[]", "tools is a list of 0, must be a list of 1 to 128 tools"},
        {"{}", "tools is of another type"},
        {"[1]", "tools[0] is of another type"},
        {R"([{"function":{"name":"f"}}])", "tools[0].type is missing, must be function"},
        {R"([{"type":"custom"}])", "tools[0].type is unknown"},
        {R"([{"type":"function"}])", "tools[0].function is missing"},
        {one_tool("[]"), "tools[0].function is of another type"},
        {one_tool("{}"), "tools[0].function.name is missing"},
        {one_tool(R"({"name":""})"), "tools[0].function.name is not allowed"},
        {one_tool(R"({"name":"a b"})"), "tools[0].function.name is not allowed, must be 1 to 64 letters"},
        {one_tool(R"({"name":")" + std::string(65, 'a') + "\"}"), "tools[0].function.name"},
        {one_tool(R"({"name":"f","description":1})"), "tools[0].function.description"},
        {one_tool(R"({"name":"f","strict":"yes"})"), "tools[0].function.strict"},
        {one_tool(R"({"name":"f","returns":1})"), "tools[0].function is with"},
        {one_tool(R"({"name":"f","parameters":[]})"), "tools[0].function.parameters is no object"},
        {one_tool(R"({"name":"f","parameters":{"type":"string"}})"), "tools[0].function.parameters.type"},
        {one_tool(R"({"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"enum":[]}}}})"),
         "tools[0].function.parameters.properties.a.enum"},
        {R"([{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}])",
         "tools[1].function.name is that of another tool"},
        {"[", "tools"}};
    for (const auto& [list, message] : rows) EXPECT_TRUE(error_of(list).starts_with(message)) << error_of(list);
    EXPECT_EQ(error_of(one_tool(R"({"name":"f.g-1_","description":null,"parameters":null,"strict":null})")), "(taken)");
    const auto unknown = ToolUse::make(testing::two_tools, {}, nullptr, "tools");
    EXPECT_EQ(unknown.error().code, ErrorCode::unsupported);
    ASSERT_TRUE(ToolUse::make(testing::two_tools, {.kind = Kind::none}, nullptr, "tools"));
}

/// What a model calls is found again when the client sends it back: the template writes it with the same bytes.
TEST(ToolUse, ATemplateWritesCallsAsTheyWereMade) {
    auto loaded = load_model_text(demo_model_path());
    ASSERT_TRUE(loaded);
    const Model model = *std::move(loaded);
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    std::vector<float> logits(static_cast<size_t>(model.spec.vocabulary));
    for (const char* name : {"qwen-2.5", "qwen-3", "llama-3.1", "llama-3.2", "mistral-v3"}) {
        const CallStyle style = style_of_template(name);
        const auto tools = tools_of(style, {.kind = Kind::required});
        int complete = 0;
        for (int round = 0; round < 12; ++round) {
            GenerateOptions options;
            options.tokens_max = 400;
            options.sampling.temperature = 1.0F;
            options.sampling.seed = random();
            options.format = tools->format();
            Answer answer(model, options, {});
            CalledTools calls(style, [] { return "unused000"; });
            std::string text;
            std::vector<ToolCallPiece> called;
            for (bool over = false; !over;) {
                for (float& logit : logits) logit = normal(random);
                for (const std::string_view end : {"\"", "}", "]"})
                    if (const int32_t id = model.tokenizer->find(end); text.size() > 150 && id >= 0)
                        logits[static_cast<size_t>(id)] += 12.0F;
                for (const int32_t end : model.spec.eos_ids) logits[static_cast<size_t>(end)] += 8.0F;
                const AnswerPiece piece = answer.next(logits);
                over = piece.over;
                text += piece.text;
                auto parts = calls.push(piece.text);
                EXPECT_EQ(parts.text, "");
                add_calls(parts.calls, called);
            }
            if (answer.reason() != FinishReason::stop) continue;
            ++complete;
            EXPECT_TRUE(calls.are_whole()) << text;
            std::string list;
            for (const ToolCallPiece& call : called) {
                ASSERT_TRUE(nlohmann::json::accept(call.arguments)) << call.arguments;
                if (call.name == "weather") {
                    EXPECT_TRUE(nlohmann::json::parse(call.arguments).contains("city"));
                }
                list += (list.empty() ? "" : ",") + (R"({"id":")" + call.id + R"(","function":{"name":")" + call.name +
                                                     R"(","arguments":)" + call.arguments + "}}");
            }
            ChatTemplateInput input;
            input.messages = {{"user", "a"}, {"assistant", "", R"({"content":null,"tool_calls":[)" + list + "]}"}};
            input.bos_token = "<s>";
            input.eos_token = "</s>";
            const auto written = template_of(name).render(input);
            ASSERT_TRUE(written) << written.error().message;
            EXPECT_NE(written->find(text), std::string::npos) << text << "\nwas written " << *written;
        }
        EXPECT_GT(complete, 6) << name;
    }
}

}  // namespace
}  // namespace rondo

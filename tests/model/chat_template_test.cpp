#include "model/text/chat_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace rondo {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

std::string read_file(const std::string& path) {
    std::ifstream file(RONDO_SOURCE_DIR "/" + path, std::ios::binary);
    EXPECT_TRUE(file.good()) << path;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

ordered_json read_json(const std::string& path) {
    return ordered_json::parse(read_file(path));
}

ChatTemplateInput input_of(const ordered_json& golden) {
    ChatTemplateInput input;
    for (const auto& message : golden.at("messages"))
        input.messages.push_back(ChatMessage{message.at("role"), message.at("content")});
    input.add_generation_prompt = golden.value("add_generation_prompt", true);
    input.bos_token = golden.value("bos_token", "");
    input.eos_token = golden.value("eos_token", "");
    if (golden.contains("extra")) input.extra_json = golden.at("extra").dump();
    return input;
}

ChatTemplateInput said(std::vector<ChatMessage> messages) {
    ChatTemplateInput input;
    input.messages = std::move(messages);
    return input;
}

Result<std::string> render(const std::string& source, const ChatTemplateInput& input = {}) {
    auto program = ChatTemplate::parse(source, "test");
    if (!program) return program.error();
    return program->render(input);
}

std::string template_error(const std::string& source, const ChatTemplateInput& input = {}) {
    const auto text = render(source, input);
    return text ? "rendered: " + text->substr(0, 200) : text.error().message;
}

std::string parse_error(const std::string& source) {
    const auto program = ChatTemplate::parse(source, "test");
    return program ? "parsed" : program.error().message;
}

TEST(ChatTemplate, RendersTheTemplatesOfModelsAsPythonDoes) {
    size_t refused = 0, rendered = 0;
    for (const auto& golden : read_json("tests/fixtures/templates/goldens.json")) {
        const std::string name = golden.at("template");
        SCOPED_TRACE(name + ": " + std::string(golden.at("name")));
        auto program = ChatTemplate::parse(read_file("tests/fixtures/templates/" + name), name);
        ASSERT_TRUE(program) << program.error().message;
        const auto text = program->render(input_of(golden));
        if (golden.contains("error")) {
            ++refused;
            EXPECT_FALSE(text);
        } else {
            ++rendered;
            ASSERT_TRUE(text) << text.error().message;
            EXPECT_EQ(*text, golden.at("text").get<std::string>());
        }
    }
    EXPECT_GT(refused, 10u);
    EXPECT_GT(rendered, 150u);
}

TEST(ChatTemplate, RendersSnippetsOfEachFeatureAsPythonDoes) {
    const auto goldens = read_json("tests/fixtures/templates/snippets.json");
    ChatTemplateInput input;
    input.extra_json = goldens.at("values").dump();
    ASSERT_GT(goldens.at("snippets").size(), 50U);
    for (const auto& snippet : goldens.at("snippets")) {
        SCOPED_TRACE(std::string(snippet.at("source")));
        const auto text = render(snippet.at("source"), input);
        ASSERT_TRUE(text) << text.error().message;
        EXPECT_EQ(*text, snippet.at("text").get<std::string>());
    }
}

TEST(ChatTemplate, RendersTheTemplateOfTheDemoModel) {
    const auto config = read_json("examples/demo_model/tokenizer_config.json");
    EXPECT_EQ(*render(config.at("chat_template"), said({{"user", "Hi"}})), "<|user|>Hi<|end|><|assistant|>");
}

TEST(ChatTemplate, NamesAnUnsupportedConstructAndItsLineWhenParsing) {
    EXPECT_EQ(parse_error("a\n{% include 'x' %}"), "test:2: the chat template tag 'include' is not supported");
    EXPECT_EQ(parse_error("{{ x | wordwrap(3) }}"), "test:1: the chat template filter 'wordwrap' is not supported");
    EXPECT_EQ(parse_error("\n\n{{ x is escaped }}"), "test:3: the chat template test 'escaped' is not supported");
    EXPECT_EQ(parse_error("{{ x.zfill(3) }}"), "test:1: the chat template method 'zfill' is not supported");
    EXPECT_EQ(parse_error("{{ lipsum() }}"), "test:1: the chat template function 'lipsum' is not supported");
    EXPECT_THAT(parse_error("{{ x | int(base=16) }}"), HasSubstr("'int' takes no argument 'base' here"));
    EXPECT_THAT(parse_error("{{ x | map('wordcount') }}"), HasSubstr("filter 'wordcount' is not supported"));
    EXPECT_THAT(parse_error("{{ x | selectattr('a', 'sameas', 1) }}"), HasSubstr("test 'sameas' is not supported"));
    EXPECT_THAT(parse_error("{{ range(*x) }}"), HasSubstr("'*' is not supported"));
    EXPECT_THAT(parse_error("{% for x in y recursive %}{% endfor %}"), HasSubstr("recursive loops"));
    EXPECT_THAT(parse_error("{% macro m() %}{{ caller }}{% endmacro %}"), HasSubstr("'caller'"));
    EXPECT_THAT(parse_error("{{ x.__class__ }}"), HasSubstr("'__class__' is not allowed"));
    EXPECT_THAT(parse_error("{{ 0x10 }}"), HasSubstr("base 2, 8 or 16"));
}

TEST(ChatTemplate, SafeIsRefusedWhereMarkupWouldEscapeWhatItIsJoinedTo) {
    EXPECT_EQ(*render("{{ '<' | safe }}"), "<");
    EXPECT_THAT(parse_error("{{ 'a' + ('<' | safe) }}"), HasSubstr("'safe' is supported only at the end"));
    EXPECT_THAT(parse_error("{% set x = '<' | safe %}"), HasSubstr("'safe' is supported only at the end"));
}

TEST(ChatTemplate, RefusesBadSyntaxWithItsLine) {
    EXPECT_EQ(parse_error("{% if x %}\n{{ x"),
              "test:2: the chat template expected '}}', found the end of the template");
    EXPECT_THAT(parse_error("{% if x %}\n"), HasSubstr("expected {% endif %}"));
    EXPECT_THAT(parse_error("{# open"), HasSubstr("comment is not closed"));
    EXPECT_THAT(parse_error("{% raw %} {% end %}"), HasSubstr("raw block is not closed"));
    EXPECT_THAT(parse_error("{{ 'open }}"), HasSubstr("string is not closed"));
    EXPECT_THAT(parse_error("{{ (1] }}"), HasSubstr("unexpected ']'"));
    EXPECT_THAT(parse_error("{{ '\\ud83d' }}"), HasSubstr("no character"));
    EXPECT_THAT(parse_error("{% break %}"), HasSubstr("outside of a loop"));
    EXPECT_THAT(parse_error("{% for x in y %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}"),
                HasSubstr("outside of a loop"));
    EXPECT_THAT(parse_error("{% for loop in y %}{% endfor %}"), HasSubstr("cannot assign to 'loop'"));
    EXPECT_THAT(parse_error("{{ 99999999999999999999 }}"), HasSubstr("64 bits"));
    EXPECT_THAT(parse_error("\xff"), HasSubstr("UTF-8"));
}

TEST(ChatTemplate, RaiseExceptionIsAnErrorOfRenderOnOneLine) {
    EXPECT_EQ(template_error("a\n{{ raise_exception('no\nway') }}"),
              "the model's template:2: the chat template the template refuses: no way");
}

TEST(ChatTemplate, UndefinedPrintsEmptyButItsAttributesAreErrors) {
    EXPECT_EQ(*render("[{{ x }}{{ x ~ 1 }}{% for y in x %}{% endfor %}]"), "[1]");
    EXPECT_EQ(template_error("{{ x.y }}"), "the model's template:1: the chat template uses 'x', which is undefined");
    EXPECT_THAT(template_error("{{ messages[3].role }}"), HasSubstr("an item that is not there, which is undefined"));
    EXPECT_THAT(template_error("{{ x + 1 }}"), HasSubstr("uses 'x'"));
    EXPECT_THAT(template_error("{{ x[1:] }}"), HasSubstr("uses 'x'"));
    EXPECT_THAT(template_error("{{ x < 1 }}"), HasSubstr("uses 'x'"));
}

TEST(ChatTemplate, WhatPythonWouldRefuseOrPrintOtherwiseIsAnErrorOfRender) {
    EXPECT_THAT(template_error("{{ 'a' + 1 }}"), HasSubstr("'+' does not work between string and int"));
    EXPECT_THAT(template_error("{{ 'a' < 1 }}"), HasSubstr("an order does not work between string and int"));
    EXPECT_THAT(template_error("{{ 1 // 0 }}"), HasSubstr("division by zero"));
    EXPECT_THAT(template_error("{{ 'a%s' % 1 }}"), HasSubstr("formatting a string with %"));
    EXPECT_THAT(template_error("{{ 9223372036854775807 + 1 }}"), HasSubstr("64 bits"));
    EXPECT_THAT(template_error("{{ 3 ** 99 }}"), HasSubstr("64 bits"));
    EXPECT_THAT(template_error("{{ 9007199254740993 / 3 }}"), HasSubstr("2^53"));
    EXPECT_THAT(template_error("{% for x in 3 %}{% endfor %}"), HasSubstr("a int cannot be iterated over"));
    EXPECT_THAT(template_error("{% for x, y in [[1]] %}{% endfor %}"), HasSubstr("unpacks 1 values into 2 names"));
    EXPECT_THAT(template_error("{{ [1] | map('string') }}"), HasSubstr("lazy sequence has no text"));
    EXPECT_THAT(template_error("{% set x = [1] | map('string') %}{{ x | list }}{{ x | list }}"),
                HasSubstr("second time"));
    EXPECT_THAT(template_error("{{ 'a'.isdigit }}"), HasSubstr("attribute 'isdigit' of a string is not supported"));
    EXPECT_THAT(template_error("{% set x = {} %}{{ x.update is defined }}"), HasSubstr("'update' of a dict"));
    EXPECT_THAT(template_error("{% set x = {} %}{% set x.y = 1 %}"), HasSubstr("'x' is not a namespace"));
    EXPECT_THAT(template_error("{% set ns = namespace() %}{% set ns.me = ns %}"),
                HasSubstr("a namespace cannot be stored"));
    EXPECT_THAT(template_error("{{ {[1]: 2} }}"), HasSubstr("cannot be the key of a dict"));
    EXPECT_THAT(template_error("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"), HasSubstr("no more than 1 arguments"));
    EXPECT_THAT(template_error("{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}"), HasSubstr("'a' twice"));
}

TEST(ChatTemplate, SpecialTokensTheModelLacksAreNotDefined) {
    const std::string source = "{{ bos_token is defined }} {{ eos_token is defined }} {{ tools is none }}";
    ChatTemplateInput input;
    input.eos_token = "</s>";
    EXPECT_EQ(*render(source, input), "False True True");
}

TEST(ChatTemplate, TakesFurtherVariablesFromJson) {
    ChatTemplateInput input;
    input.extra_json = R"({"enable_thinking": false, "n": 1.0, "order": {"b": 1, "a": 2, "b": 3}})";
    EXPECT_EQ(*render("{{ enable_thinking }} {{ n }} {{ order }}", input), "False 1.0 {'b': 3, 'a': 2}");
    const std::pair<std::string, std::string> bad[] = {
        {"[1]", "as a JSON object"},
        {"{", "not valid JSON at byte"},
        {R"({"messages": []})", "has 'messages' among its further variables"},
        {R"({"n": 18446744073709551615})", "beyond 64 bits"},
        {R"({"n": 100000000000000000000})", "beyond 64 bits"},
        {R"({"n": )" + std::string(100, '[') + std::string(100, ']') + "}", "nested deeper than"},
    };
    for (const auto& [json, message] : bad) {
        input.extra_json = json;
        EXPECT_THAT(template_error("x", input), HasSubstr(message)) << json;
    }
}

TEST(ChatTemplate, StrftimeNowFormatsTheLocalDate) {
    auto today = [] {
        const std::time_t now = std::time(nullptr);
        std::tm local{};
        localtime_r(&now, &local);
        char buffer[64];
        return std::string(buffer, std::strftime(buffer, sizeof buffer, "%d %b %Y", &local));
    };
    const std::string before = today();
    const std::string text = *render("{{ strftime_now('%d %b %Y') }}");
    EXPECT_TRUE(text == before || text == today()) << text;  // midnight may pass in between
    EXPECT_EQ(*render("{{ strftime_now('') }}{{ strftime_now('a%%') }}"), "a%");
}

TEST(ChatTemplate, HostileTemplatesEndWithAnErrorBeforeTheyTakeTimeOrMemory) {
    const std::pair<std::string, std::string> hostile[] = {
        {"{{ 'x' * 9999999999 }}", "MiB of text"},
        {"{{ [1] * 9223372036854775807 }}", "MiB of text"},
        {"{{ range(100001) | list }}", "a range is longer"},
        {"{% set r = range(999) %}{% for a in range(99999) %}{% for b in r %}{% endfor %}{% endfor %}", "steps"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recurses deeper"},
        {"{% macro m(n) %}{{ m(n) if n else m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}", "recurses deeper"},
        {"{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
         "MiB of text"},
        {"{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}",
         "nests lists deeper"},
        {"{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == "
         "ns.x[0] }}"
         "{{ ns.x | string | length }}",
         "steps"},
        {"{{ ('a\n' * 1000000) | indent(1000000) }}", "MiB of text"},
        {"{{ ('a' * 1000000).replace('', 'b' * 1000000) }}", "MiB of text"},
        {"{{ ('a' * 1000000).join('b' * 100000) }}", "MiB of text"},
        {"{{ [[[]]] | tojson(indent='x' * 9999999999) }}", "MiB of text"},
        {"{{ ('a,' * 40000000).split(',') | length }}", "MiB of text"},
        {"{% for i in range(99) %}{{ 'x' * 1000000 }}{% endfor %}", "prints more than"},
        {"{{ 7 | round(999999999) }}", "a precision of 0 to 15"},
        {"{{ strftime_now('%c' * 1000) }}", "has 2000 bytes, must be at most 256"},
    };
    for (const auto& [source, message] : hostile) EXPECT_THAT(template_error(source), HasSubstr(message)) << source;
}

TEST(ChatTemplate, DeepSourceIsRefusedNotOverflown) {
    auto repeat = [](const std::string& piece, size_t count) {
        std::string out;
        for (size_t i = 0; i < count; ++i) out += piece;
        return out;
    };
    const size_t many = 100'000;
    for (const std::string& source :
         {"{{ " + repeat("(", many), "{{ " + repeat("[", many), "{{ " + repeat("-", many) + "1 }}",
          "{{ " + repeat("not ", many) + "1 }}", "{{ 1" + repeat("+1", many) + " }}",
          "{{ x" + repeat(".x", many) + " }}", "{{ x" + repeat("|d", many) + " }}",
          "{{ x" + repeat(" or x", many) + " }}", "{{ 1" + repeat(" if 1 else 1", many / 2) + " }}",
          repeat("{% if 1 %}", many / 2)}) {
        EXPECT_THAT(parse_error(source), ::testing::AnyOf(HasSubstr("nests deeper"), HasSubstr("levels")));
    }
    EXPECT_THAT(parse_error(std::string((size_t{1} << 20) + 1, 'x')),
                HasSubstr("has 1048577 bytes, must be at most 1048576"));
    EXPECT_EQ(
        *render("{{ 0" + repeat("+1", 150) + " }}{% if 0 %}" + repeat("{% elif 0 %}", 5000) + "{% else %}x{% endif %}"),
        "150x");
}

TEST(ChatTemplate, LongConversationsStayWithinTheBounds) {
    ChatTemplateInput input;
    for (int i = 0; i < 5000; ++i)
        input.messages.push_back({i % 2 == 0 ? "user" : "assistant", std::string(1000, 'x')});
    const auto text = render(read_file("tests/fixtures/templates/qwen-3.jinja"), input);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_GT(text->size(), 5'000'000u);
}

TEST(ChatTemplate, BytesThatAreNotTextPassThrough) {
    EXPECT_EQ(*render("{{ messages[0].content | trim | upper }}", said({{"user", " a\xff\xc3 "}})), "A\xff\xc3");
}

TEST(ChatTemplate, OneTemplateRendersOnSeveralThreads) {
    auto program = ChatTemplate::parse(
        "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
        "{{ m.content ~ ns.n }}{% endfor %}",
        "test");
    ASSERT_TRUE(program);
    std::vector<std::thread> threads;
    std::vector<std::string> texts(4);
    for (size_t i = 0; i < texts.size(); ++i)
        threads.emplace_back([&, i] {
            const std::string name(1, static_cast<char>('a' + i));
            for (int turn = 0; turn < 100; ++turn)
                texts[i] = *program->render(said({{"user", name}, {"assistant", name}}));
        });
    for (auto& thread : threads) thread.join();
    EXPECT_THAT(texts, ::testing::ElementsAre("a1a2", "b1b2", "c1c2", "d1d2"));
}

TEST(ChatTemplate, StopsWhenItIsAskedToOnAnotherThread) {
    const auto program = ChatTemplate::parse("{% for i in range(100000) %}{{ '' }}{% endfor %}done", "test");
    ASSERT_TRUE(program);
    std::stop_source stop;
    EXPECT_EQ(*program->render({}, stop.get_token()), "done");
    std::thread stopping([&] { stop.request_stop(); });
    Result<std::string> text = std::string();
    while (text) text = program->render({}, stop.get_token());
    stopping.join();
    EXPECT_EQ(text.error().code, ErrorCode::cancelled);
    EXPECT_EQ(program->render({}, stop.get_token()).error().code, ErrorCode::cancelled);
    EXPECT_EQ(*program->render({}), "done");
}

TEST(ChatTemplate, GivesMessagesTheirFurtherMembers) {
    const std::string source =
        "{% for m in messages %}{{ m.role }}:{{ m.content }}:{{ m.name is defined }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %};{% "
        "endfor %}";
    ChatTemplateInput input = said({{"user", "a", R"({"name": "Ann", "role": "system", "content": "no"})"},
                                    {"assistant", "", R"({"tool_calls": [{"function": {"name": "f", "arguments":
                                     {"z": 1, "a": [true, null]}}}]})"}});
    EXPECT_EQ(*render(source, input), R"(user:a:True;assistant::Falsef{"z": 1, "a": [true, null]};)");
    for (const char* wrong : {"[1]", "{", "1", "null"}) {
        input.messages[0].more_json = wrong;
        EXPECT_THAT(template_error(source, input), HasSubstr("a message's further members")) << wrong;
    }
}

/// A template may write a call only where there is no content; others append it.
TEST(ChatTemplate, NoContentIsNoneForWhoAsksForIt) {
    ChatTemplateInput input = said({{"assistant", "", R"({"content": null})"}, {"assistant", ""}});
    EXPECT_EQ(*render("{% for m in messages %}{{ m.content is none }},{% endfor %}", input), "True,False,");
    EXPECT_EQ(*render("{% for m in messages %}{{ 'a' + m.content }},{% endfor %}", input), "a,a,");
    EXPECT_EQ(*render("{% for m in messages %}{{ m['content'] is not none }},{% endfor %}", input), "False,True,");
    // The first template of Qwen3 asks for thoughts, and takes the content for a text.
    const std::string qwen3 =
        "{% for m in messages %}{% if m.reasoning_content is defined and m.reasoning_content is "
        "not none %}{% elif '</think>' in m.content %}{% endif %}{{ 'a' + m.content }},{% endfor %}";
    EXPECT_EQ(*render(qwen3, input), "a,a,");
    input.messages[0].content = "x";
    EXPECT_EQ(*render("{% for m in messages %}{{ m.content is not none }},{% endfor %}", input), "True,True,");
}

TEST(ChatTemplate, FiltersABlock) {
    EXPECT_EQ(*render("a{% filter trim %}  b {{ 1 + 1 }}  {% endfilter %}c"), "ab 2c");
    EXPECT_EQ(*render("{% filter trim | upper %} b {% filter lower %}C{% endfilter %} {% endfilter %}"), "B C");
    EXPECT_EQ(*render("{% set x = 1 %}{% filter upper %}{% set x = 2 %}{{ x }}a{% endfilter %}{{ x }}"), "2A1");
    EXPECT_THAT(parse_error("{% filter nothing %}{% endfilter %}"), HasSubstr("filter 'nothing' is not supported"));
    EXPECT_THAT(parse_error("{% filter trim %}a"), HasSubstr("endfilter"));
}

TEST(ChatTemplate, TakesAnObjectOfManyMembers) {
    std::string members;
    for (int i = 0; i < 20'000; ++i) members += "\"k" + std::to_string(i) + "\": " + std::to_string(i) + ", ";
    const ChatTemplateInput input =
        said({{"tool", "a", "{\"arguments\": {" + members + "\"k7\": \"the last one counts\"}}"}});
    EXPECT_EQ(*render("{{ messages[0].arguments | length }} {{ messages[0].arguments.k7 }}", input),
              "20000 the last one counts");
}

TEST(ChatTemplate, TellsWhichWordsItHas) {
    const auto made = ChatTemplate::parse(
        "</think>{# comment #}{% if message['tool_calls'] %}{{ enable_thinking }}{{ m.name }}{% endif %}", "test");
    ASSERT_TRUE(made.is_ok());
    for (const char* word : {"tool_calls", "enable_thinking", "name", "message"})
        EXPECT_TRUE(made->names(word)) << word;
    for (const char* word : {"comment", "think", "tool", "", "nam"}) EXPECT_FALSE(made->names(word)) << word;
    EXPECT_TRUE(made->mentions("</think>"));
    EXPECT_FALSE(made->mentions("<think>"));
}

/// Its steps and memory are counted with what it was given, too.
TEST(ChatTemplate, KeepsThePathOfItsModelToItself) {
    const auto program = ChatTemplate::parse("{{ raise_exception('no') }}", "/home/somebody/model: chat template");
    EXPECT_EQ(program->render({}).error().message,
              "the model's template:1: the chat template the template refuses: no");
}

TEST(ChatTemplate, VariablesCountAmongItsSteps) {
    ChatTemplateInput input;
    std::string many = "[0";
    for (int i = 1; i < 500; ++i) many += ",0";
    input.extra_json = "{\"a\": " + many + "]}";
    EXPECT_THAT(
        template_error("{% for x in a %}{% for y in a %}{% for z in a %}{% endfor %}{% endfor %}{% endfor %}", input),
        HasSubstr("steps"));
}

}  // namespace
}  // namespace rondo

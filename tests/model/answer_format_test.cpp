#include "model/format/answer_format.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/model/formats.hpp"

namespace rondo {
namespace {

using testing::allowed;
using testing::Allowed;
using testing::format_of;
using testing::schema_error;
using Begins = AnswerFormat::Begins;
using Texts = std::vector<std::string>;

void expect(const testing::Format& format, const Texts& whole, const Texts& not_whole) {
    for (const std::string& text : whole) EXPECT_EQ(allowed(format, text), Allowed::whole) << text;
    for (const std::string& text : not_whole) EXPECT_NE(allowed(format, text), Allowed::whole) << text;
}

TEST(AnswerFormat, AJsonObjectIsOneOfRfc8259) {
    expect(AnswerFormat::json_object(),
           {"{}", "{ }", R"({"a":1})", "{\n  \"a\": 1\n}", "{\n\t\"a\": [],\n\t\"b\": {}\n}",
            R"({"a": [1, -2.5, 3e8, 0.1E-2, 1e+9, "x", true, false, null, {"b": [[]]}], "": ""})",
            R"({"\"\\\/\b\f\n\r\t": "\u00e9\uD83D\uDE00\ud7ff"})", "{\"h\xC3\xA9\": \"\xF0\x9F\x98\x80\xEF\xBF\xBF\"}"},
           {"",
            "[]",
            "1",
            "null",
            "{",
            R"({"a"})",
            R"({"a":})",
            R"({"a":1,})",
            "{,}",
            R"({a:1})",
            R"({"a":01})",
            R"({"a":.5})",
            R"({"a":1.})",
            R"({"a":+1})",
            R"({"a":1e})",
            R"({"a":NaN})",
            R"({'a':1})",
            R"({"a":1} )",
            R"({"a":1}})",
            "{}\n",
            R"({"a":"\x41"})",
            " {}",
            R"({"a":"\uD83D"})",
            R"({"a":"\uDE00"})",
            R"({"a":"\uD83D\u0041"})",
            "{\"a\":\"\n\"}",
            "{\"a\":\"\x1F\"}",
            "{\"a\":\"\xC3\"}",
            "{\"a\":\"\xC0\x80\"}",
            "{\"a\":\"\xED\xA0\x80\"}",
            "{\"a\":\"\xF5\x80\x80\x80\"}",
            "{\"a\":\"\xFF\"}",
            "{  \"a\":1}"});
}

TEST(AnswerFormat, MembersStandInTheSchemasOrder) {
    const auto format = format_of(R"({"type":"object","properties":{
        "b":{"type":"string"},"a":{"type":"integer"},"c":{"type":"boolean"}},"required":["b","c"]})");
    expect(format, {R"({"b":"","a":-3,"c":true})", R"({"b":"x","c":false})", "{\n \"b\": \"x\",\n \"c\": false\n}"},
           {"{}", R"({"a":1,"b":"","c":true})", R"({"b":""})", R"({"b":"","c":true,"d":1})", R"({"b":1,"c":true})",
            R"({"b":"","a":1.5,"c":true})", R"({"b":"","a":-0,"c":true})", R"({"b":"","b":"","c":true})"});
    const auto optional = format_of(R"({"properties":{"a":{"type":"null"},"b":{"type":"null"}}})");
    expect(optional, {"{}", R"({"a":null})", R"({"b":null})", R"({"a":null,"b":null})"},
           {R"({,"b":null})", R"({"a":null,})", R"({"b":null,"a":null})"});
}

TEST(AnswerFormat, OtherMembersHaveOtherNames) {
    const auto format = format_of(R"({"type":"object","properties":{"ab":{"type":"integer"},"a\u00e9":{"type":"null"}},
        "additionalProperties":{"type":"string"}})");
    expect(format,
           {"{}", R"({"ab":1})", R"({"ab":1,"x":"y"})", R"({"a":"y","abc":"y"})", R"({"":"y","b\u0061":"y"})",
            "{\"a\xC3\xA8\":\"\"}", R"({"x":"1","y":"2","z":"3"})"},
           {R"({"ab":"y"})", R"({"x":"y","ab":""})", R"({"\u0061b":"y"})", R"({"a\u0062":"y"})",
            "{\"a\xC3\xA9\":\"y\"}", R"({"x":1})", R"({"ab":1,"ab":2})"});
    expect(format_of(R"({"additionalProperties":false})"), {"{}"}, {R"({"a":1})"});
    expect(format_of(R"({"type":"object"})"), {"{}", R"({"a":[1]})"}, {"[]"});
    expect(format_of(R"({"required":["a"]})"), {R"({"a":[1]})", R"({"a":1,"b":2})"}, {"{}", R"({"b":2})"});
    expect(format_of(R"({"required":["a"],"additionalProperties":{"type":"null"}})"), {R"({"a":null})"},
           {R"({"a":1})"});
}

TEST(AnswerFormat, ListsHaveTheirItemsAndCounts) {
    expect(format_of(R"({"type":"array"})"), {"[]", "[ ]", "[1, \"a\", []]", "[\n1,\n2\n]"},
           {"[1,]", "[,]", "[1 2]", "{}"});
    expect(format_of(R"({"items":{"type":"integer"},"minItems":2,"maxItems":3})"), {"[1,2]", "[1, 2, 3]"},
           {"[]", "[1]", "[1,2,3,4]", "[1,\"a\"]"});
    expect(format_of(R"({"items":{"type":"null"},"minItems":2})"), {"[null,null]", "[null,null,null,null]"},
           {"[null]"});
    expect(format_of(R"({"items":{"type":"null"},"maxItems":0})"), {"[]"}, {"[null]"});
    expect(format_of(R"({"prefixItems":[{"type":"null"},{"type":"boolean"}],"items":{"type":"integer"}})"),
           {"[]", "[null]", "[null,true]", "[null,true,1,2]"}, {"[true]", "[null,1]", "[null,true,null]"});
    expect(format_of(R"({"prefixItems":[{"type":"null"}],"minItems":1})"), {"[null]"}, {"[]", "[null,1]"});
    expect(format_of(R"({"prefixItems":[{"type":"null"}],"items":false})"), {"[]", "[null]"}, {"[null,null]"});
    expect(format_of(R"({"type":"array","items":[{"type":"null"},{"type":"boolean"}],"minItems":2,"maxItems":2})"),
           {"[null,true]"}, {"[null]", "[null,true,1]"});
    expect(format_of(R"({"items":[{"type":"null"}],"additionalItems":{"type":"boolean"}})"), {"[]", "[null,true,true]"},
           {"[true]", "[null,null]"});
    expect(format_of(R"({"items":{"type":"null"},"minItems":1,"maxItems":1})"), {"[null]"}, {"[]", "[null,null]"});
}

TEST(AnswerFormat, StringsHaveTheirLengthInCharacters) {
    expect(format_of(R"({"minLength":2,"maxLength":3})"),
           {R"("ab")", R"("abc")", "\"\xC3\xA9\xF0\x9F\x98\x80\"", R"("\n\u00e9\uD83D\uDE00")"},
           {R"("")", R"("a")", R"("abcd")", "\"\xC3\xA9\"", R"("\uD83D\uDE00")"});
    expect(format_of(R"({"type":"string","minLength":1})"), {R"("a")", R"("aaaaaaaaaaaaaaaaa")"}, {R"("")"});
    expect(format_of(R"({"type":"string","maxLength":0})"), {R"("")"}, {R"("a")"});
}

TEST(AnswerFormat, ChoicesAreWhatTheyList) {
    expect(format_of(R"({"enum":["a","ab","b c",1,null,{"x":[1,2]}]})"),
           {R"("a")", R"("ab")", R"("b c")", "1", "null", R"({"x":[1,2]})"},
           {R"("abc")", R"("b")", "11", R"({"x": [1,2]})"});
    expect(format_of(R"({"type":"string","enum":["a",1]})"), {R"("a")"}, {"1"});
    expect(format_of(R"({"const":"\"\u00e9\n"})"), {"\"\\\"\xC3\xA9\\n\""}, {R"("x")"});
    expect(format_of(R"({"type":["string","null"],"maxLength":1})"), {"null", R"("a")"}, {R"("ab")", "1"});
    expect(format_of(R"({"anyOf":[{"type":"integer"},{"properties":{"a":{"const":1}},"required":["a"]}]})"),
           {"5", R"({"a":1})"}, {"{}", "5.5"});
    expect(format_of(R"({"allOf":[{"type":"boolean"}],"title":"T","default":true})"), {"true"}, {"1"});
    expect(format_of(R"({"anyOf":[{"anyOf":[{"not":{}},{"const":"x"}]},{"type":"null"}]})"), {R"("x")", "null"}, {"1"});
    expect(format_of("true"), {"1", "[]", R"("a")"}, {"a"});
    expect(format_of("{}"), {"1", "[]", R"("a")", "null", "-0.5e1"}, {"a", "1 "});
}

TEST(AnswerFormat, SchemasReferToPartsOfThemselves) {
    const auto tree = format_of(R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","description":"of a tree",
        "properties":{"v":{"type":"integer"},"next":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["v"]}}})");
    expect(tree, {R"({"v":1})", R"({"v":1,"next":[{"v":2,"next":[{"v":3},{"v":4}]}]})"}, {R"({"v":1,"next":[{}]})"});
    expect(format_of(R"({"properties":{"me":{"$ref":"#"}}})"), {"{}", R"({"me":{"me":{}}})"}, {R"({"me":1})"});
    expect(format_of(R"({"definitions":{"a/b~":{"type":"null"}},"$ref":"#/definitions/a~1b~0"})"), {"null"}, {"1"});
    expect(format_of(R"({"anyOf":[{"type":"null"},{"type":"integer"}],"x":{"$ref":"#/anyOf/1"}})"), {"1"}, {});
    expect(format_of(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})"), {"null"}, {"1"});
}

TEST(AnswerFormat, WhatHasBegunCanBeEnded) {
    for (const char* none : {R"({"$ref":"#"})", "false", R"({"properties":{"a":false},"required":["a"]})",
                             R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})"})
        EXPECT_EQ(schema_error(none), "schema must be of a value; there is none of it") << none;
    const auto format =
        format_of(R"({"anyOf":[{"type":"null"},{"properties":{"a":{"$ref":"#/anyOf/1"}},"required":["a"]},
        {"properties":{"b":false,"c":{"type":"null"}}}]})");
    expect(format, {"null", "{}", R"({"c":null})"}, {});
    EXPECT_EQ(allowed(format, R"({"a)"), Allowed::no);
    EXPECT_EQ(allowed(format, R"({"b)"), Allowed::no);
}

TEST(AnswerFormat, NestingEndsSomewhere) {
    const std::string deep = std::string(100, '[') + std::string(100, ']');
    const std::string deeper = std::string(2000, '[');
    EXPECT_EQ(allowed(format_of("{}"), deep), Allowed::whole);
    EXPECT_EQ(allowed(format_of("{}"), deeper), Allowed::no);
}

TEST(AnswerFormat, ThoughtsComeBeforeTheAnswer) {
    const auto format = format_of(R"({"type":"integer"})");
    for (const char* text : {"1", "<think>", "<think>\nso <b> </thin </think>\n\n1", "\n<think></think>1",
                             "<think>\xFF\"}</</think></think>1"}) {
        const Allowed whole = std::string(text) == "<think>" ? Allowed::as_beginning : Allowed::whole;
        const bool is_twice = std::string(text).find("</think></think>") != std::string::npos;
        EXPECT_EQ(allowed(format, text, Begins::maybe_with_thought), is_twice ? Allowed::no : whole) << text;
    }
    EXPECT_EQ(allowed(format, "hm</think>1", Begins::within_thought), Allowed::whole);
    EXPECT_EQ(allowed(format, "hm<</think>\n1", Begins::within_thought), Allowed::whole);
    EXPECT_EQ(allowed(format, "1", Begins::within_thought), Allowed::as_beginning);
    EXPECT_EQ(allowed(format, "hm</think>1", Begins::maybe_with_thought), Allowed::no);
    EXPECT_EQ(allowed(format, "<think>", Begins::with_answer), Allowed::no);
}

TEST(AnswerFormat, ASpaceMayComeBeforeAllThatATokenizerDrops) {
    const auto format = AnswerFormat::json_object();
    for (const Begins begins : {Begins::with_answer, Begins::maybe_with_thought}) {
        GrammarStates states(format->grammar());
        EXPECT_EQ(states.next(states.begin(format->begin(begins)), ' '), GrammarStates::dead);
        const auto behind = states.next(states.begin(format->begin(begins, true)), ' ');
        EXPECT_EQ(behind, states.begin(format->begin(begins)));
    }
}

TEST(AnswerFormat, WhatCannotBeKeptIsRefusedByItsPlace) {
    const std::pair<std::string, std::string> cases[] = {
        {"1", "schema must be an object, true or false"},
        {"{", "schema: not valid JSON at byte 2"},
        {R"({"type":"text"})", "schema.type must be one or a list of"},
        {R"({"type":[]})", "schema.type must be one or a list of"},
        {R"({"properties":{"a":{"not":{"type":"null"}}}})",
         "schema.properties.a.not must be left out; it is not supported"},
        {R"({"items":{"multipleOf":2}})", "schema.items.multipleOf must be left out"},
        {R"({"type":"array","uniqueItems":true})", "schema.uniqueItems must be left out"},
        {R"({"properties":[]})", "schema.properties must be an object of schemas"},
        {R"({"required":"a"})", "schema.required must be a list of members' names"},
        {R"({"required":["a"],"additionalProperties":false})", "schema.required must be of properties; 'a' is none"},
        {R"({"anyOf":[]})", "schema.anyOf must be a list of 1 to 1024 schemas"},
        {R"({"anyOf":[{}],"type":"object"})", "schema.type must be left out beside anyOf"},
        {R"({"anyOf":[{},{"type":1}]})", "schema.anyOf[1].type must be"},
        {R"({"allOf":[{},{}]})", "schema.allOf must be a list of one schema"},
        {R"({"$ref":"other.json"})", "schema.$ref must be"},
        {R"({"$ref":"#/no"})", "schema.$ref must be"},
        {R"({"$ref":"#x"})", "schema.$ref must be"},
        {R"({"enum":[]})", "schema.enum must be a list of 1 to 1024 values"},
        {R"({"type":"string","const":1})", "schema.const must be of the type it says"},
        {R"({"enum":["a","abc"],"maxLength":1})", "schema.maxLength must be left out beside enum"},
        {R"({"const":1,"minimum":2})", "schema.minimum must be left out beside const"},
        {R"({"enum":[1,2],"const":3})", "schema.const must be one of enum"},
        {R"({"minLength":-1})", "schema.minLength must be a whole number from 0 to"},
        {R"({"minLength":3,"maxLength":2})", "schema.minLength must be no more than maxLength"},
        {R"({"maxLength":1e3})", "schema.maxLength must be a whole number"},
        {R"({"maxLength":32768})", "schema is too large; must be less of names, choices and counts"},
        {R"({"minItems":2,"prefixItems":[{}]})", "schema.minItems must be no more than there are items"},
        {R"({"minimum":"1"})", "schema.minimum must be 0 or a number of"},
        {R"({"minimum":1e300})", "schema.minimum must be 0 or a number of"},
        {R"({"minimum":2,"maximum":1})", "schema.minimum must be no more than the maximum"},
        {R"({"type":"integer","exclusiveMinimum":1,"exclusiveMaximum":2})", "schema.minimum must be no more than"},
    };
    for (const auto& [schema, message] : cases)
        EXPECT_EQ(schema_error(schema).find(message), 0U) << schema << ": " << schema_error(schema);
}

TEST(AnswerFormat, ManyChoicesAndNamesAreTakenUpToTheirBounds) {
    std::string values, names, members;
    for (int i = 0; i < 1024; ++i) {
        values += (i > 0 ? "," : "") + std::to_string(i * 7);
        members += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":{}";
    }
    expect(format_of(R"({"enum":[)" + values + "]}"), {"0", "7", "7161"}, {"1", "7162"});
    EXPECT_NE(schema_error(R"({"enum":[)" + values + ",9]}"), "(taken)");
    expect(format_of(R"({"properties":{)" + members + "}}"), {"{}", R"({"0":1,"1023":2})"}, {R"({"1024":1})"});
    EXPECT_NE(schema_error(R"({"enum":[")" + std::string(40'000, 'a') + "\"]}"), "(taken)");
    EXPECT_NE(schema_error(R"({"properties":{")" + std::string(2'000, 'a') + "\":{}}}"), "(taken)");
}

}  // namespace
}  // namespace rondo

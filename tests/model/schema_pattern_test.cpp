#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <vector>

#include "tests/model/formats.hpp"

namespace rondo {
namespace {

using testing::allowed;
using testing::Allowed;
using testing::format_of;
using testing::schema_error;
using Texts = std::vector<std::string>;

std::string schema_with(const std::string& pattern) {
    return nlohmann::json{{"type", "string"}, {"pattern", pattern}}.dump();
}

void expect(const std::string& pattern, const Texts& found, const Texts& not_found) {
    const auto format = format_of(schema_with(pattern));
    for (const std::string& text : found)
        EXPECT_EQ(allowed(format, nlohmann::json(text).dump()), Allowed::whole) << pattern << " " << text;
    for (const std::string& text : not_found)
        EXPECT_NE(allowed(format, nlohmann::json(text).dump()), Allowed::whole) << pattern << " " << text;
}

TEST(SchemaPattern, IsFoundAnywhereUnlessItSaysWhere) {
    expect("b+", {"b", "abba", "xxb"}, {"", "a"});
    expect("^b", {"b", "bx"}, {"ab", ""});
    expect("b$", {"b", "ab"}, {"ba"});
    expect("^a|b$", {"ax", "xb", "a", "b"}, {"xa", "bx"});
    expect("^(a|b)$", {"a", "b"}, {"ab", ""});
    expect("", {"", "x"}, {});
    expect("^$", {""}, {"x"});
}

TEST(SchemaPattern, HasClassesEscapesAndCounts) {
    expect(R"(^[A-Z]{2}-\d{3,4}$)", {"AB-123", "AB-1234"}, {"AB-12", "ab-123", "AB-12345", "A-123"});
    expect(R"(^\w+(\.\w+)*$)", {"a", "a.b_9.c"}, {".a", "a..b", "a "});
    expect(R"(^[^\s"\\]+?$)", {"a/b", "\xC3\xA9"}, {"a b", "a\"", "a\\", "a\t", "\xC2\xA0"});
    expect(R"(^[-a\]x-]$)", {"-", "a", "]", "x"}, {"b", "\\"});
    expect(R"(^\x41\u00e9[\u4e00-\u9fff]*$)", {"A\xC3\xA9", "A\xC3\xA9\xE4\xB8\x96"}, {"A", "A\xC3\xA9x"});
    expect(R"(^a{2,}b{0}c?$)", {"aa", "aaaac"}, {"a", "aab", "aacc"});
    expect(R"(^(?:ab|cd)+\/\$\|$)", {"ab/$|", "cdab/$|"}, {"/$|"});
    expect(R"(^.$)", {"x", "\t", "\"", "\xF0\x9F\x98\x80"}, {"", "\n", "xy"});
    expect(R"(^(a*)*$)", {"", "aaa"}, {"b"});
}

TEST(SchemaPattern, CharactersThatJsonEscapesAreEscaped) {
    const auto format = format_of(schema_with(R"(^["\\\n\x01]{4}$)"));
    EXPECT_EQ(allowed(format, R"("\"\\\n\u0001")"), Allowed::whole);
    EXPECT_EQ(allowed(format, "\"\n"), Allowed::no);
    EXPECT_EQ(allowed(format, R"("a)"), Allowed::no);
}

TEST(SchemaPattern, WhatHasNoOneMeaningIsRefused) {
    for (const char* pattern : {"(",   ")",     "a)",        "[a",    "a{",    "a{x}",     "a{2,1}",    "*",
                                "a**", "(?=a)", "(?<n>a)",   R"(\1)", R"(\b)", R"(\p{L})", R"(\ud83d)", R"(\x4)",
                                "\\",  "[b-a]", R"([\d-z])", "a^b",   "(^a)",  "(a$)",     "a$b",       "[a-"})
        EXPECT_EQ(schema_error(schema_with(pattern)).find("schema.pattern must be a regular expression"), 0U)
            << pattern;
    EXPECT_EQ(schema_error(R"({"pattern":1})"), "schema.pattern must be a regular expression");
    EXPECT_EQ(schema_error(R"({"pattern":"a","maxLength":3})"),
              "schema.pattern must be left out beside minLength and maxLength");
    EXPECT_NE(schema_error(schema_with(std::string(5000, 'a'))), "(taken)");
    EXPECT_NE(schema_error(schema_with("((((a{99}){99}){99}){99})")), "(taken)");
    EXPECT_NE(schema_error(schema_with(std::string(40, '(') + std::string(40, ')'))), "(taken)");
}

TEST(SchemaPattern, AgreesWithAnotherProgramsExpressions) {
    // Without anchors within, and of few characters: what both read alike.
    std::mt19937 random(7);
    const std::vector<std::string> parts{"a", "b", "[ab]", "[^a]", ".", "(a|bc)", "(?:b|)", "c", "\\d", "1"};
    const std::vector<std::string> counts{"", "", "", "*", "+", "?", "{2}", "{1,2}", "{2,}"};
    for (int round = 0; round < 80; ++round) {
        std::string pattern = random() % 2 == 0 ? "^" : "";
        for (size_t i = 0; i < 1 + random() % 4; ++i)
            pattern += parts[random() % parts.size()] + counts[random() % counts.size()];
        if (random() % 2 == 0) pattern += "$";
        const std::regex other(pattern, std::regex::ECMAScript);
        const auto format = format_of(schema_with(pattern));
        for (int i = 0; i < 40; ++i) {
            std::string text;
            for (size_t j = random() % 7; j > 0; --j) text += "abc1"[random() % 4];
            ASSERT_EQ(allowed(format, '"' + text + '"') == Allowed::whole, std::regex_search(text, other))
                << pattern << " " << text;
        }
    }
}

TEST(SchemaPattern, KnownFormatsHaveTheirs) {
    const auto expect_format = [](const std::string& name, const Texts& right, const Texts& wrong) {
        const auto format = format_of(R"({"type":"string","format":")" + name + "\"}");
        for (const std::string& text : right) EXPECT_EQ(allowed(format, '"' + text + '"'), Allowed::whole) << text;
        for (const std::string& text : wrong) EXPECT_NE(allowed(format, '"' + text + '"'), Allowed::whole) << text;
    };
    expect_format("date", {"2026-11-30", "1999-01-31", "2000-02-28"},
                  {"2026-11-31", "2026-13-01", "2026-02-30", "26-01-01"});
    expect_format("time", {"23:59:59Z", "00:00:00.5+01:30"}, {"24:00:00Z", "10:00", "10:00:00"});
    expect_format("date-time", {"2026-11-30T13:15:33Z"}, {"2026-11-30 13:15:33Z", "2026-11-30"});
    expect_format("uuid", {"123e4567-e89b-12d3-a456-426614174000"}, {"123e4567e89b12d3a456426614174000"});
    expect_format("ipv4", {"0.0.0.0", "255.10.9.199"}, {"256.0.0.1", "1.2.3", "01.2.3.4"});
    expect_format("email", {"a.b@c-d.org", "x+1@mail.example.com"},
                  {"a@b", "@b.org", "a b@c.org", std::string(17, 'a') + "@b.org"});
    expect_format("uri", {"https://a-b.example.org/x/Y_1", "http://a.org"},
                  {"a.org", "ftp://a.org", "https://a.org/ "});
    expect_format("color", {"anything"}, {});
    EXPECT_EQ(allowed(format_of(R"({"format":"date","maxLength":3,"type":"string"})"), "\"abc\""), Allowed::whole);
}

}  // namespace
}  // namespace rondo

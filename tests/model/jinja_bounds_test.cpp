#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/chat_template.hpp"
#include "tests/model/one_hash.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;

/// What the template prints, or the error.
std::string outcome_of(const std::string& source, const ChatTemplateInput& input = {}) {
    const auto program = ChatTemplate::parse(source, "test");
    if (!program) return program.error().message;
    const auto text = program->render(input);
    return text ? *text : text.error().message;
}

/// Two tuples in each of 28 stand for 2^28 of them, and each is asked whether it may be a key.
TEST(JinjaBounds, WhetherATupleMayBeAKeyCountsAsSteps) {
    EXPECT_EQ(outcome_of("{% set t = ((1, 2), 'a') %}{{ {t: 1} | length }}{{ t in {t: 1} }}"), "1True");
    EXPECT_THAT(outcome_of("{% set ns = namespace(t=(1,)) %}"
                           "{% for i in range(28) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}"
                           "{{ {ns.t: 1} | length }}"),
                HasSubstr("steps"));
}

TEST(JinjaBounds, ComparingLongKeysCountsAsSteps) {
    const std::string made = "{% set a = 'a' * 1000000 ~ 'b' %}{% set b = 'a' * 1000000 ~ 'c' %}{% set d = {a: 1} %}";
    EXPECT_EQ(outcome_of(made + "{{ d[a] }}{{ d[b] is defined }}"), "1False");
    EXPECT_THAT(outcome_of(made + "{% for i in range(9999) %}{{ d[b] }}{% endfor %}"), HasSubstr("steps"));
}

TEST(JinjaBounds, LookingForATextThatNearlyFitsEverywhereIsNotQuadratic) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(outcome_of("{% set text = 'a' * 4000000 %}{% set long = 'a' * 2000000 ~ 'b' %}"
                         "{{ long in text }} {{ text.find(long) }} {{ text.rfind(long) }} {{ text.count(long) }} "
                         "{{ text.split(long) | length }} {{ text.replace(long, '') | length }}"),
              "False -1 -1 0 1 4000000");
    // Quadratic would be minutes for each of the six; this takes some hundredths of a second.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    EXPECT_EQ(
        outcome_of("{{ 'abcabca'.find('ca') }} {{ 'abcabca'.rfind('ab') }} {{ 'ab'.rfind('') }} {{ ''.find('') }} "
                   "{{ ''.rfind('a') }} {{ 'aaaaa'.rfind('aa') }} {{ '' in '' }} {{ 'é日é'.rfind('é') }}"),
        "2 3 2 0 -1 3 True 2");
}

TEST(JinjaBounds, RefusesMoreArgumentsAndLongerNamesThanATemplateNeeds) {
    const auto listed = [](int count) {
        std::string names = "a0=0";
        for (int i = 1; i < count; ++i) names += ", a" + std::to_string(i) + "=0";
        return names;
    };
    EXPECT_EQ(outcome_of("{{ dict(" + listed(255) + ") | length }}"), "255");
    EXPECT_THAT(outcome_of("{{ dict(" + listed(256) + ") | length }}"), HasSubstr("more than 255 arguments"));
    EXPECT_THAT(outcome_of("{% macro m(" + listed(256) + ") %}{% endmacro %}"), HasSubstr("more than 255 parameters"));
    EXPECT_EQ(outcome_of("{{ " + std::string(1024, 'x') + " }}"), "");
    EXPECT_THAT(outcome_of("{{ " + std::string(1025, 'x') + " }}"), HasSubstr("a name longer than 1024 bytes"));
}

/// The arguments of a call come from a user, who may choose what they are called.
TEST(JinjaBounds, KeysOfOneHashAreNoSlowerThanOthers) {
    const std::vector<std::string> keys = testing::keys_of_one_hash(200'000);
#ifdef __GLIBCXX__
    const std::hash<std::string_view> hash;
    ASSERT_EQ(hash(keys.front()), hash(keys.back()));
#endif
    nlohmann::json arguments;
    for (const std::string& key : keys) arguments[key] = 0;
    ChatTemplateInput input;
    input.messages = {{"tool", "", nlohmann::json{{"arguments", arguments}}.dump()}};
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(outcome_of("{{ messages[0].arguments | length }}", input), "200000");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace rondo

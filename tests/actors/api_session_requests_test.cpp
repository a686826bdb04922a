#include <gtest/gtest.h>

#include "actors/gateway/bodies/session_requests.hpp"
#include "actors/gateway/bodies/tokenize_requests.hpp"
#include "config/limits.hpp"
#include "tests/actors/api_request_rows.hpp"

namespace rondo {
namespace {

std::string object(const std::string& members) {
    return "{" + members + "}";
}

TEST(SessionRequests, CreateAndForkNeedNoBody) {
    for (const char* body : {"", "{}", R"({"id":null})"}) {
        EXPECT_EQ(parse_session_create(body)->id, "");
        EXPECT_EQ(parse_session_fork(body)->id, "");
    }
    const auto created = parse_session_create(R"({"id":"a b","system":"Be brief."})");
    ASSERT_TRUE(created.is_ok());
    EXPECT_EQ(created->id, "a b");
    EXPECT_EQ(created->system, "Be brief.");
    EXPECT_EQ(parse_session_fork(R"({"id":"copy"})")->id, "copy");
    expect_refused({{R"("id":"")", "id", "1 to 256"},
                    {R"("id":"a\u0000")", "id", "printable"},
                    {R"("id":1)", "id", "printable"},
                    {R"("system":1)", "system", "a string"},
                    {R"("ids":"a")", "ids", "not a field"}},
                   [](const std::string& member) { return parse_session_create(object(member)); });
    expect_refused({{R"("id":"\u202e")", "id", "printable"}, {R"("round":1)", "round", "not a field"}},
                   [](const std::string& member) { return parse_session_fork(object(member)); });
}

TEST(SessionRequests, RenameGivesATitle) {
    EXPECT_EQ(parse_session_rename(R"({"title":"Überschrift 1"})")->title, "Überschrift 1");
    std::string longest;
    for (size_t i = 0; i < limits::title_characters_max; ++i) longest += "€";
    EXPECT_EQ(parse_session_rename(object(R"("title":")" + longest + '"'))->title, longest);
    expect_refused({{"", "title", "missing"},
                    {R"("title":null)", "title", "missing"},
                    {R"("title":7)", "title", "a string"},
                    {R"("title":"")", "title", "1 to 200"},
                    {R"("title":"  ")", "title", "more than spaces"},
                    {R"("title":"a\nb")", "title", "printable"},
                    {R"("title":"\u202egnp.exe")", "title", "printable"},
                    {R"("title":")" + longest + R"(x")", "title", "1 to 200"},
                    {R"("title":"a","name":"b")", "name", "not a field"}},
                   [](const std::string& member) { return parse_session_rename(object(member)); });
}

TEST(SessionRequests, RewindNamesOneRound) {
    EXPECT_EQ(parse_session_rewind(R"({"round":3})")->round, 3);
    expect_refused({{"", "round", "missing"},
                    {R"("round":null)", "round", "missing"},
                    {R"("round":-1)", "round", "0 to 1048576"},
                    {R"("round":2147483647)", "round", "0 to 1048576"},
                    {R"("round":"1")", "round", "0 to 1048576"}},
                   [](const std::string& member) { return parse_session_rewind(object(member)); });
    EXPECT_EQ(parse_session_rewind("").error().code, "invalid_json");
}

TEST(SessionRequests, DropNamesRoundsOnceEach) {
    EXPECT_EQ(parse_session_drop(R"({"rounds":[4,0,2]})")->rounds, (std::vector<int64_t>{0, 2, 4}));
    expect_refused({{"", "rounds", "missing"},
                    {R"("rounds":[])", "rounds", "missing"},
                    {R"("rounds":3)", "rounds", "a list"},
                    {R"("rounds":[1,2,1])", "rounds", "each once"},
                    {R"("rounds":[1,-1])", "rounds[1]", "0 to 1048576"},
                    {R"("rounds":[1e308])", "rounds[0]", "0 to 1048576"}},
                   [](const std::string& member) { return parse_session_drop(object(member)); });
}

TEST(TokenizeRequests, TakeATextOrMessages) {
    const auto text = parse_tokenize(R"({"text":"Hi","add_special":false})");
    ASSERT_TRUE(text.is_ok());
    EXPECT_EQ(text->text, "Hi");
    EXPECT_FALSE(text->add_special);
    EXPECT_TRUE(parse_tokenize(R"({"text":""})").is_ok());
    const auto messages = parse_tokenize(R"({"messages":[{"role":"user","content":"Hi"}]})");
    ASSERT_TRUE(messages.is_ok());
    EXPECT_EQ(messages->messages.size(), 1U);
    EXPECT_TRUE(messages->add_special);
    const std::string said = R"("messages":[{"role":"user","content":"Hi"}])";
    expect_refused({{"", "text", "missing"},
                    {said + R"(,"text":"")", "messages", "one of the two"},
                    {said + R"(,"add_special":false)", "add_special", "must be left out"},
                    {R"("text":"a","add_special":1)", "add_special", "true or false"},
                    {R"("text":1)", "text", "a string"},
                    {R"("messages":[])", "messages", "at least one"},
                    {R"("text":"a","x":1)", "x", "not a field"}},
                   [](const std::string& member) { return parse_tokenize(object(member)); });
}

TEST(TokenizeRequests, DetokenizeTakesIdsOfTheVocabulary) {
    EXPECT_EQ(parse_detokenize(R"({"ids":[0,9]})", 10)->ids, (std::vector<int32_t>{0, 9}));
    EXPECT_TRUE(parse_detokenize(R"({"ids":[]})", 10)->ids.empty());
    expect_refused({{"", "ids", "missing"},
                    {R"("ids":"1")", "ids", "a list"},
                    {R"("ids":[10])", "ids[0]", "0 to 9"},
                    {R"("ids":[1,-1])", "ids[1]", "0 to 9"},
                    {R"("ids":[4294967296])", "ids[0]", "0 to 9"}},
                   [](const std::string& member) { return parse_detokenize(object(member), 10); });
}

}  // namespace
}  // namespace rondo

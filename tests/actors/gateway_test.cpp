#include <filesystem>
#include <thread>

#include "tests/actors/gateway_fixture.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::must;
using testing::question;

class GatewayTest : public testing::GatewayFixture {};

TEST_F(GatewayTest, AnswersAChat) {
    const json reply = answer(chat(question));
    EXPECT_EQ(text_of(reply), "The code of the red box is 4817.");
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
}

TEST_F(GatewayTest, CompletesATextAsItsIds) {
    const std::string text = "The code of the red box is";
    const json ids = json::parse(call("POST", "/tokenize", {{"text", text}}).body)["ids"];
    const auto completed = [](const json& prompt) {
        const HttpResponse response = call("POST", "/v1/completions", {{"prompt", prompt}, {"temperature", 0}});
        EXPECT_EQ(response.status, 200) << response.body;
        return json::parse(response.body);
    };
    const json of_text = completed(text), of_ids = completed(ids);
    EXPECT_NE(of_text["choices"][0]["text"], "");
    EXPECT_EQ(of_text["choices"][0]["text"], of_ids["choices"][0]["text"]);
    EXPECT_EQ(of_text["usage"]["prompt_tokens"], ids.size());
}

TEST_F(GatewayTest, StreamsWhatItAnswersWhole) {
    json body = chat(question);
    body["stream"] = true;
    HttpClient asking = client();
    std::string events;
    must(
        asking.stream("POST", "/v1/chat/completions", headers("ann"), body.dump(), soon(), [&](std::string_view piece) {
            events += piece;
            return true;
        }));
    std::string text;
    size_t at = 0;
    while ((at = events.find("data: {", at)) != std::string::npos) {
        const json chunk = json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6));
        text += chunk["choices"][0]["delta"].value("content", "");
        ++at;
    }
    EXPECT_EQ(text, "The code of the red box is 4817.");
    EXPECT_THAT(events, ::testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(GatewayTest, KeepsConversationsAsRounds) {
    EXPECT_EQ(call("POST", "/v1/sessions", {{"id", "box talk"}}).status, 200);
    EXPECT_EQ(call("POST", "/v1/sessions", {{"id", "box talk"}}).status, 400);
    answer(chat("The code of the red box is 4817.", "box talk"));
    EXPECT_EQ(text_of(answer(chat("What is the code of the red box?", "box talk"))),
              "The code of the red box is 4817.");
    const json info = json::parse(call("GET", "/v1/sessions/box%20talk").body);
    EXPECT_EQ(call("HEAD", "/v1/sessions/box%20talk").status, 200);
    EXPECT_EQ(call("HEAD", "/v1/sessions").status, 200);
    EXPECT_EQ(call("HEAD", "/v1/sessions/nobody").status, 404);
    ASSERT_EQ(info["rounds"].size(), 2U);
    EXPECT_EQ(info["rounds"][1]["user"], "What is the code of the red box?");

    EXPECT_EQ(call("POST", "/v1/sessions/box%20talk/fork", {{"id", "fork"}}).status, 200);
    EXPECT_EQ(call("POST", "/v1/sessions/box%20talk/rewind", {{"round", 0}}).status, 200);
    EXPECT_THAT(text_of(answer(chat("What is the code of the red box?", "box talk"))),
                ::testing::Not(HasSubstr("4817")));
    EXPECT_EQ(text_of(answer(chat("What is the code of the red box?", "fork"))), "The code of the red box is 4817.");
    EXPECT_EQ(call("POST", "/v1/sessions/fork/drop", {{"rounds", {0, 1, 2}}}).status, 200);
    EXPECT_EQ(call("POST", "/v1/sessions/fork/rewind", {{"round", 5}}).status, 400);
    EXPECT_EQ(call("DELETE", "/v1/sessions/fork").status, 200);
    EXPECT_EQ(call("DELETE", "/v1/sessions/fork").status, 404);
    EXPECT_EQ(call("GET", "/v1/sessions/fork").status, 404);
}

TEST_F(GatewayTest, WarmsConversationsAndSaysWhyNoneIsPutAway) {
    answer(chat("The code of the red box is 4817.", "warm"));
    const HttpResponse warmed = call("POST", "/v1/sessions/warm/warm");
    EXPECT_EQ(warmed.status, 200) << warmed.body;
    const json told = json::parse(warmed.body);
    EXPECT_EQ(told["id"], "warm");
    EXPECT_GT(told["tokens"], 0);
    EXPECT_EQ(told["tokens"], told["cached_tokens"].get<int>() + told["recomputed_tokens"].get<int>());
    EXPECT_EQ(json::parse(call("GET", "/v1/sessions/warm").body)["rounds"].size(), 1U);
    const HttpResponse refused = call("POST", "/v1/sessions/warm/put_away");
    EXPECT_EQ(refused.status, 400);
    EXPECT_THAT(refused.body, HasSubstr("memory.disk.path"));
    EXPECT_EQ(call("POST", "/v1/sessions/nobody/warm").status, 404);
    EXPECT_THAT(call("POST", "/v1/sessions/warm/warm", {{"fast", true}}).body, HasSubstr("'fast' is not a field"));
    EXPECT_EQ(call("GET", "/v1/sessions/warm/warm").status, 405);
    call("POST", "/v1/sessions", {{"id", "empty"}});
    EXPECT_EQ(call("POST", "/v1/sessions/empty/warm").status, 400);
    call("DELETE", "/v1/sessions/warm");
    call("DELETE", "/v1/sessions/empty");
}

TEST_F(GatewayTest, TellsWhatEachRoundCost) {
    const json reply = answer(chat("The code of the red box is 4817.", "figures"));
    const json round = json::parse(call("GET", "/v1/sessions/figures").body)["rounds"][0];
    for (const char* name : {"usage", "timings", "attention"}) EXPECT_EQ(round[name], reply[name]) << name;
    EXPECT_EQ(round["finish_reason"], "stop");
    call("DELETE", "/v1/sessions/figures");
}

TEST_F(GatewayTest, GivesConversationsTitles) {
    const auto listed = [] { return json::parse(call("GET", "/v1/sessions?limit=1", nullptr, "bob").body)["data"][0]; };
    call("POST", "/v1/sessions", {{"id", "titled"}, {"system", "Be brief."}}, "bob");
    EXPECT_EQ(listed()["title"], "");
    answer(chat("\nThe code is 4817.\nNote it.", "titled"), "bob");
    EXPECT_EQ(listed()["title"], "The code is 4817.");
    EXPECT_EQ(call("POST", "/v1/sessions/titled", {{"title", "Red box"}}, "bob").status, 200);
    EXPECT_EQ(listed()["title"], "Red box");
    const json info = json::parse(call("GET", "/v1/sessions/titled", nullptr, "bob").body);
    EXPECT_EQ(info["title"], "Red box");
    EXPECT_EQ(info["system"], "Be brief.");
    EXPECT_EQ(call("POST", "/v1/sessions/titled", {{"title", ""}}, "bob").status, 400);
    EXPECT_EQ(call("POST", "/v1/sessions/other", {{"title", "a"}}, "cat").status, 404);
    EXPECT_EQ(call("POST", "/v1/sessions/titled", {{"title", "a"}}, "cat").status, 404);
    EXPECT_EQ(call("PUT", "/v1/sessions/titled", {{"title", "a"}}, "bob").status, 405);
    call("DELETE", "/v1/sessions/titled", nullptr, "bob");
}

TEST_F(GatewayTest, GoesOnWithAConversationThatItHasForgotten) {
    json body = chat("What is the code of the red box?", "forgotten");
    body["continue"] = true;
    EXPECT_EQ(call("POST", "/v1/chat/completions", body).status, 404);
    body.erase("continue");
    const json question = body["messages"][0];
    body["messages"] = json::array({{{"role", "user"}, {"content", "The code of the red box is 4817."}},
                                    {{"role", "assistant"}, {"content", "Noted."}},
                                    question});
    EXPECT_EQ(text_of(answer(body)), "The code of the red box is 4817.");
    const json rounds = json::parse(call("GET", "/v1/sessions/forgotten").body)["rounds"];
    ASSERT_EQ(rounds.size(), 2U);
    EXPECT_EQ(rounds[0]["user"], "The code of the red box is 4817.");
    EXPECT_EQ(rounds[0]["assistant"], "Noted.");
    EXPECT_FALSE(rounds[0].contains("usage"));
    EXPECT_EQ(rounds[1]["user"], "What is the code of the red box?");
    EXPECT_TRUE(rounds[1].contains("usage"));
    call("DELETE", "/v1/sessions/forgotten");
}

TEST_F(GatewayTest, ListsTheNewestConversationFirst) {
    const auto listed = [] {
        const json list = json::parse(call("GET", "/v1/sessions", nullptr, "cat").body);
        std::vector<std::string> ids;
        for (const json& one : list["data"]) ids.push_back(one["id"]);
        return ids;
    };
    EXPECT_THAT(listed(), ::testing::IsEmpty());
    for (const char* id : {"b", "10", "9", "a"}) call("POST", "/v1/sessions", {{"id", id}}, "cat");
    call("POST", "/v1/sessions/b/fork", {{"id", "fork of b"}}, "cat");
    EXPECT_EQ(listed(), (std::vector<std::string>{"fork of b", "a", "9", "10", "b"}));
    call("DELETE", "/v1/sessions/10", nullptr, "cat");
    call("POST", "/v1/sessions", {{"id", "10"}}, "cat");
    EXPECT_EQ(listed(), (std::vector<std::string>{"10", "fork of b", "a", "9", "b"}));
}

TEST_F(GatewayTest, ListsByPages) {
    for (int i = 0; i < 45; ++i) call("POST", "/v1/sessions", {{"id", "page " + std::to_string(i)}}, "bob");
    std::vector<std::string> ids;
    std::string after;
    for (int pages = 1;; ++pages) {
        const json page = json::parse(call("GET", "/v1/sessions?limit=20" + after, nullptr, "bob").body);
        for (const json& one : page["data"]) ids.push_back(one["id"]);
        if (page["has_more"] == false) {
            EXPECT_EQ(pages, 3);
            break;
        }
        EXPECT_EQ(page["data"].size(), 20U);
        EXPECT_EQ(page["last_id"], ids.back());
        after = "&after=page%20" + ids.back().substr(5);
    }
    ASSERT_EQ(ids.size(), 45U);
    EXPECT_EQ(ids.front(), "page 44");
    EXPECT_EQ(ids.back(), "page 0");
    EXPECT_EQ(json::parse(call("GET", "/v1/sessions", nullptr, "bob").body)["data"].size(), 20U);
    for (const char* wrong : {"limit=0", "limit=101", "limit=", "limit=1e1", "limit=99999999999999999999",
                              "after=", "after=%", "after=%0", "after=%zz", "after=%00", "order=asc", "limit=1&x"})
        EXPECT_EQ(call("GET", std::string("/v1/sessions?") + wrong, nullptr, "bob").status, 400) << wrong;
    EXPECT_EQ(call("GET", "/v1/sessions?after=gone", nullptr, "bob").status, 404);
    EXPECT_EQ(call("GET", "/v1/sessions?after=page+3&&limit=5", nullptr, "bob").status, 200);
    for (int i = 0; i < 45; ++i) call("DELETE", "/v1/sessions/page%20" + std::to_string(i), nullptr, "bob");
}

TEST_F(GatewayTest, TellsThatAConversationWasDeleted) {
    call("POST", "/v1/sessions", {{"id", "left"}});
    call("DELETE", "/v1/sessions/left");
    json body = chat("Hello!", "left");
    body["continue"] = true;
    const HttpResponse refused = call("POST", "/v1/chat/completions", body);
    EXPECT_EQ(refused.status, 404);
    EXPECT_THAT(refused.body, HasSubstr("was deleted"));
    EXPECT_THAT(call("GET", "/v1/sessions/left").body, HasSubstr("was deleted"));
}

TEST_F(GatewayTest, TenantsDoNotSeeEachOther) {
    answer(chat("The code of the red box is 4817.", "secret"));
    EXPECT_EQ(call("GET", "/v1/sessions/secret", nullptr, "bob").status, 404);
    EXPECT_THAT(call("GET", "/v1/sessions", nullptr, "bob").body, ::testing::Not(HasSubstr("secret")));
    EXPECT_THAT(text_of(answer(chat("What is the code of the red box?", "secret"), "bob")),
                ::testing::Not(HasSubstr("4817")));
}

TEST_F(GatewayTest, RefusesStrangersAndNonsense) {
    EXPECT_EQ(call("GET", "/v1/models", nullptr, "eve").status, 401);
    EXPECT_EQ(call("GET", "/nowhere").status, 404);
    const HttpResponse wrong_way = call("GET", "/v1/chat/completions");
    EXPECT_EQ(wrong_way.status, 405);
    EXPECT_EQ(wrong_way.header("allow"), "POST");
    EXPECT_EQ(call("POST", "/v1/models").header("allow"), "GET, HEAD");
    json body = chat("Hello!");
    body["model"] = "another";
    EXPECT_EQ(call("POST", "/v1/chat/completions", body).status, 404);
    body = chat("Hello!");
    body["method"] = "magic";
    EXPECT_EQ(json::parse(call("POST", "/v1/chat/completions", body).body)["error"]["param"], "method");
    std::string long_text;
    while (long_text.size() < 60'000) long_text += "It was a slow afternoon. ";
    EXPECT_THAT(call("POST", "/v1/chat/completions", chat(long_text)).body, HasSubstr("the context holds 4096"));
    const json endless{{"prompt", std::string(1'100'000, 'x')}};
    EXPECT_THAT(call("POST", "/v1/completions", endless).body, HasSubstr("no 1100000 bytes fit into a context of 4096"))
        << "before it is tokenized";
}

TEST_F(GatewayTest, NamesThePathsThereAre) {
    const HttpResponse unknown = call("GET", "/v1/chat/completion");
    EXPECT_EQ(unknown.status, 404);
    std::istringstream told(json::parse(unknown.body)["error"]["message"].get<std::string>());
    std::vector<std::string> paths;
    for (std::string word; told >> word;) {
        if (word.back() == ',') word.pop_back();
        if (word.front() == '/') paths.push_back(word);
    }
    EXPECT_THAT(paths, ::testing::IsSupersetOf({"/v1/chat/completions", "/v1/completions", "/v1/models", "/"}));
    for (const std::string& path : paths) EXPECT_NE(call("GET", path).status, 404) << path;
}

TEST_F(GatewayTest, TellsOfOneModel) {
    const json listed = json::parse(call("GET", "/v1/models").body)["data"][0];
    const std::string id = listed["id"];
    EXPECT_EQ(json::parse(call("GET", "/v1/models/" + id).body), listed);
    EXPECT_EQ(json::parse(call("GET", "/v1/models/%64" + id.substr(1)).body), listed) << "demo_model";
    for (const char* other : {"another", "", "a/b", "a%2Fb", "%25"}) {
        const HttpResponse missing = call("GET", std::string("/v1/models/") + other);
        EXPECT_EQ(missing.status, 404) << other;
        EXPECT_EQ(json::parse(missing.body)["error"]["code"], "model_not_found") << other;
    }
    EXPECT_EQ(call("DELETE", "/v1/models/" + id).status, 405);
    EXPECT_EQ(call("GET", "/v1/models/" + id, nullptr, "eve").status, 401);
}

TEST_F(GatewayTest, AttendsByTheMethodThatIsAskedFor) {
    EXPECT_EQ(json::parse(call("GET", "/v1/models").body)["data"][0]["methods"], json({"dense", "progressive"}));
    json body = chat("The code of the red box is 4817. The code of the blue box is 2230. Which is the red one's?");
    EXPECT_EQ(json::parse(call("POST", "/v1/chat/completions", body).body)["attention"], json({{"method", "dense"}}));
    body["method"] = "progressive";
    body["max_tokens"] = 24;
    body["ignore_eos"] = true;
    const json said = json::parse(call("POST", "/v1/chat/completions", body).body)["attention"];
    EXPECT_EQ(said["method"], "progressive");
    EXPECT_GE(said["selections"], 3);
    EXPECT_EQ(said["lag_steps"], 1);
    EXPECT_GT(said["answer_density"], 0.1);
    EXPECT_LT(said["answer_density"], 0.95);
    EXPECT_GT(said["answer_mass"], 0.1);
    EXPECT_LE(said["answer_mass"], 1.001);
    const std::string metrics = call("GET", "/metrics").body;
    EXPECT_THAT(metrics, ::testing::ContainsRegex("rondo:key_selections_total\\{[^}]*\\} [1-9]"));
    EXPECT_THAT(metrics, ::testing::ContainsRegex("rondo:answer_attention_mass_count\\{[^}]*\\} 1"));
}

TEST_F(GatewayTest, RefusesWhatIsTooMuchAtOnce) {
    json body = chat("Hello!");
    body["max_tokens"] = 400;
    body["ignore_eos"] = true;
    const auto end = soon();  // the turn of an earlier test may not be off the books yet
    while (inside(*engine).load().turns > 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<std::thread> clients;
    std::atomic<int> refused{0}, served{0};
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back([&] {
            const HttpResponse response = call("POST", "/v1/chat/completions", body);
            if (response.status == 429 && response.header("retry-after") != "") ++refused;
            if (response.status == 200) ++served;
        });
    }
    for (std::thread& one : clients) one.join();
    EXPECT_GE(served, 3);
    EXPECT_EQ(served + refused, 8);
    EXPECT_GT(refused, 0);
}

TEST_F(GatewayTest, AClientWhoLeavesEndsHisTurn) {
    json body = chat("Hello!");
    body["max_tokens"] = 3000;
    body["ignore_eos"] = true;
    body["stream"] = true;
    const size_t logged_before = log_size();
    HttpClient asking = client();
    const auto left = asking.stream("POST", "/v1/chat/completions", headers("cat"), body.dump(), soon(),
                                    [](std::string_view piece) { return piece.empty(); });
    EXPECT_FALSE(left.is_ok());
    const auto end = soon();
    while (inside(*engine).load().turns > 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(inside(*engine).load().turns, 0U);
    json line = logged_line(logged_before, "/v1/chat/completions", "cat");
    EXPECT_EQ(line["status"], 200) << line;
    EXPECT_EQ(line["outcome"], "aborted") << line;
}

TEST_F(GatewayTest, SaysHowItIs) {
    EXPECT_EQ(call("GET", "/health").status, 200);
    EXPECT_EQ(call("GET", "/ready").status, 200);
    EXPECT_THAT(call("GET", "/metrics").body, HasSubstr("rondo:time_to_first_token_seconds_count"));
    EXPECT_THAT(call("GET", "/").body, HasSubstr("<!doctype html>"));
    EXPECT_EQ(call("GET", "/page/chat.js").header("content-type"), "text/javascript; charset=utf-8");
    EXPECT_EQ(call("GET", "/page/../gateway.cpp").status, 404);
    const json ids = json::parse(call("POST", "/tokenize", {{"text", "Hello!"}, {"add_special", false}}).body)["ids"];
    EXPECT_EQ(json::parse(call("POST", "/detokenize", {{"ids", ids}}).body)["text"], "Hello!");
}

TEST_F(GatewayTest, TheLogHasNoPromptAndNoKey) {
    const size_t logged_before = log_size();
    answer(chat("My canary is called Zebedee."), "cat");
    call("GET", "/v1/models", nullptr, "zebedee-as-a-key");
    EXPECT_EQ(logged_line(logged_before, "/v1/chat/completions", "cat")["status"], 200);
    EXPECT_EQ(logged_line(logged_before, "/v1/models", "")["status"], 401);
    const std::lock_guard lock(log_mutex);
    for (const char* canary : {"Zebedee", "zebedee", "key-of"}) EXPECT_THAT(log, ::testing::Not(HasSubstr(canary)));
}

/// Its clients write and read token ids.
TEST(GatewayWithoutATokenizer, RefusesTextAndServesIds) {
    const testing::Folder made;
    const std::filesystem::path demo = demo_model_path(), folder = made.path() + "/without_a_tokenizer";
    std::filesystem::create_directory(folder);
    for (const char* file : {"config.json", "model.safetensors"})
        std::filesystem::copy_file(demo / file, folder / file, std::filesystem::copy_options::overwrite_existing);
    const auto engine = must(Engine::open(testing::small_settings({"model.path=" + folder.string()})));
    Gateway::Options options;
    options.server.port = 0;
    const auto gateway = must(Gateway::start(*engine, std::move(options)));
    HttpClient client(must(Url::parse("http://127.0.0.1:" + std::to_string(gateway->port()))));
    const auto ask = [&](const std::string& path, const json& body) {
        return must(
            client.request("POST", path, {}, body.dump(), std::chrono::steady_clock::now() + std::chrono::seconds(60)));
    };
    const json messages = json::array({{{"role", "user"}, {"content", "a"}}});
    for (const auto& [path, body] :
         std::vector<std::pair<std::string, json>>{{"/tokenize", {{"text", "a"}}},
                                                   {"/tokenize", {{"text", "a"}, {"add_special", false}}},
                                                   {"/tokenize", {{"messages", messages}}},
                                                   {"/detokenize", {{"ids", {1}}}},
                                                   {"/v1/completions", {{"prompt", "a"}}},
                                                   {"/v1/chat/completions", {{"messages", messages}}}}) {
        const HttpResponse refusal = ask(path, body);
        EXPECT_EQ(refusal.status, 400) << path << body;
        EXPECT_THAT(refusal.body, HasSubstr("has no tokenizer")) << path << body;
    }
    for (const bool stream : {false, true}) {
        const HttpResponse answer =
            ask("/v1/completions", {{"prompt", {1, 2, 3}}, {"max_tokens", 3}, {"logprobs", 2}, {"stream", stream}});
        EXPECT_EQ(answer.status, 200) << answer.body;
        EXPECT_THAT(answer.body, HasSubstr(R"("finish_reason":)"));
    }
}

}  // namespace
}  // namespace rondo

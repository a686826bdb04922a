#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <set>

#include "tests/cli/rondo_process.hpp"
#include "tests/cli/rondo_terminal.hpp"
#include "tests/transport/scripted_server.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing::expect_error;
using testing::expect_failure;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::http_chunk;
using testing::run_json;
using testing::run_rondo;
using testing::ScriptedServer;

int64_t count_words(const std::string& text) {
    int64_t words = 0;
    bool within = false;
    for (const char byte : text) {
        const bool letter = byte != ' ' && byte != '\n';
        words += letter && !within ? 1 : 0;
        within = letter;
    }
    return words;
}

/// Speaks the part of OpenAI's protocol that the benchmark uses. Two tokens a word; an answer is as many words as
/// tokens were asked for, unless `answer` says otherwise.
class ChatServer {
public:
    using Answer = std::function<bool(int64_t number, const json& body, const ScriptedServer::Send& send)>;

    explicit ChatServer(std::string tokenizer_field = "text", Answer answer = {})
        : tokenizer_field_(std::move(tokenizer_field)),
          answer_(std::move(answer)),
          server_([this](const auto& request, const auto& send) { return serve(request, send); }) {}

    std::string url() const { return server_.url(); }
    /// The bodies of all chat requests, but for the first, which tries the server out.
    std::vector<json> bodies() {
        const std::lock_guard lock(mutex_);
        return {bodies_.begin() + 1, bodies_.end()};
    }
    int in_flight_max() const { return in_flight_max_; }
    /// The conversations that were deleted, in order.
    std::vector<std::string> deleted() {
        const std::lock_guard lock(mutex_);
        return deleted_;
    }
    /// Refuses to delete conversations.
    void keep_conversations() { keeps_conversations_ = true; }

    static constexpr std::string_view stream_head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    static bool stream(const json& body, const ScriptedServer::Send& send, int64_t tokens,
                       const std::string& word = "word") {
        send(stream_head);
        for (int64_t i = 0; i < tokens; ++i) {
            send_event(send, {{"choices", {{{"delta", {{"content", word + std::to_string(i) + " "}}}}}}});
        }
        int64_t prompt = 0;
        for (const json& message : body.at("messages")) prompt += 2 * count_words(message.at("content"));
        send_event(send, {{"choices", json::array()},
                          {"usage",
                           {{"prompt_tokens", prompt},
                            {"completion_tokens", tokens},
                            {"prompt_tokens_details", {{"cached_tokens", 10}, {"restored_tokens", 3}}}}}});
        return send(http_chunk("data: [DONE]\n\n")) && send(http_chunk(""));
    }

private:
    static constexpr std::string_view delete_session = "DELETE /v1/sessions/";

    static void send_event(const ScriptedServer::Send& send, const json& chunk) {
        send(http_chunk("data: " + chunk.dump() + "\n\n"));
    }

    bool serve(const ScriptedServer::Request& request, const ScriptedServer::Send& send) {
        const bool models = request.head.rfind("GET /v1/models ", 0) == 0;
        if (models) return send(http_answer(200, R"({"data":[{"id":"tiny"},{"id":"other"}]})"));
        if (request.head.rfind(delete_session, 0) == 0) return forget(request, send);
        const json body = json::parse(request.body);
        if (request.head.rfind("POST /tokenize ", 0) == 0) {
            if (!body.contains(tokenizer_field_)) return send(http_answer(400, R"({"error":"a field"})"));
            const auto tokens = static_cast<size_t>(2 * count_words(body[tokenizer_field_]));
            return send(http_answer(200, json{{"ids", std::vector<int>(tokens, 1)}}.dump()));
        }
        if (request.head.rfind("POST /v1/chat/completions ", 0) != 0) return send(http_answer(404, ""));
        if (!body.contains("stream")) return send(count_prompt(body));
        int64_t number = 0;
        {
            const std::lock_guard lock(mutex_);
            number = static_cast<int64_t>(bodies_.size());
            bodies_.push_back(body);
            in_flight_max_ = std::max(in_flight_max_.load(), ++in_flight_);
        }
        const bool keep = answer_ && number > 0 ? answer_(number, body, send) : stream(body, send, body["max_tokens"]);
        const std::lock_guard lock(mutex_);
        --in_flight_;
        return keep;
    }

    bool forget(const ScriptedServer::Request& request, const ScriptedServer::Send& send) {
        const std::lock_guard lock(mutex_);
        deleted_.push_back(
            request.head.substr(delete_session.size(), request.head.find(" HTTP") - delete_session.size()));
        if (keeps_conversations_) return send(http_answer(503, R"({"error":{"message":"not now"}})"));
        return send(http_answer(200, "{}"));
    }

    static std::string count_prompt(const json& body) {
        const int64_t words = count_words(body["messages"][0]["content"]);
        return http_answer(200, json{{"usage", {{"prompt_tokens", 20 + 3 * words}}}}.dump());
    }

    std::string tokenizer_field_;
    Answer answer_;
    std::mutex mutex_;
    std::vector<json> bodies_;
    std::vector<std::string> deleted_;
    std::atomic<bool> keeps_conversations_ = false;
    int in_flight_ = 0;  ///< raised under the mutex
    std::atomic<int> in_flight_max_ = 0;
    ScriptedServer server_;  ///< last: its threads use all of the above
};

std::vector<std::string> small(const std::string& url, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {
        "bench",    "multi_turn", "--url",  url, "--turns",         "3:3", "--conversations", "4",  "--scale", "0.1",
        "--active", "3",          "--seed", "5", "--answer-tokens", "50",  "--user-tokens",   "200"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

TEST(MultiTurn, ResendsTheHistoryWithTheAnswersItGot) {
    ChatServer server;
    const json out = run_json(small(server.url() + "/v1/"));
    EXPECT_EQ(out.at("requests"), 12);
    EXPECT_EQ(out.at("answers"), 12);
    EXPECT_EQ(out.at("model"), "tiny");
    EXPECT_EQ(out.at("mode"), "stateless");
    EXPECT_EQ(out.at("tokens_per_word"), 2.0);
    EXPECT_EQ(out.at("answer_tokens"), 12 * 5);
    EXPECT_EQ(out.at("cached_tokens"), 120);
    EXPECT_EQ(out.at("restored_tokens"), 36);
    EXPECT_TRUE(out.at("recomputed_tokens").is_null());
    EXPECT_EQ(out.at("errors"), json::object());
    EXPECT_EQ(out.at("rounds").size(), 3u);
    EXPECT_GT(out.at("requests_per_s").get<double>(), 0.0);
    EXPECT_GT(out.at("ttft_ms").at("p50").get<double>(), 0.0);
    EXPECT_GE(out.at("e2e_ms").at("p99"), out.at("ttft_ms").at("p50"));

    std::map<std::string, std::vector<json>> conversations;  // by their first question
    std::set<std::string> system;
    for (const json& body : server.bodies()) {
        EXPECT_EQ(body.at("model"), "tiny");
        EXPECT_EQ(body.at("max_tokens"), 5);
        EXPECT_EQ(body.at("temperature"), 0);
        EXPECT_EQ(body.at("ignore_eos"), true);
        EXPECT_EQ(body.at("stream_options"), json({{"include_usage", true}}));
        EXPECT_FALSE(body.contains("conversation"));
        const json& messages = body.at("messages");
        system.insert(messages.at(0).at("content"));
        conversations[messages.at(1).at("content")].push_back(messages);
    }
    EXPECT_EQ(system.size(), 1u);
    EXPECT_EQ(count_words(*system.begin()), 25);  // 500 tokens × 0.1, two a word
    ASSERT_EQ(conversations.size(), 4u);
    for (const auto& [first, turns] : conversations) {
        ASSERT_EQ(turns.size(), 3u);
        for (size_t i = 0; i < turns.size(); ++i) {
            ASSERT_EQ(turns[i].size(), 2 * (i + 1));
            EXPECT_EQ(turns[i].back().at("role"), "user");
            if (i == 0) continue;
            EXPECT_EQ(count_words(turns[i].back().at("content")), 10);
            EXPECT_EQ(turns[i][turns[i].size() - 2].at("content"), "word0 word1 word2 word3 word4 ");
            EXPECT_TRUE(std::equal(turns[i - 1].begin(), turns[i - 1].end(), turns[i].begin()));
        }
    }
}

/// Which a server gives in its list of models.
TEST(MultiTurn, AModelsNameDoesNotCommandATerminal) {
    ChatServer server;
    testing::RondoTerminal terminal(small(server.url(), {"--model", "a\x1b[31mb"}));
    terminal.until("stateless, ");
    EXPECT_EQ(terminal.until(" at "), "a[31mb at ");
    EXPECT_EQ(terminal.end(), 0);
}

TEST(MultiTurn, SameSeedSameConversations) {
    const auto texts = [](const char* seed) {
        ChatServer server;
        auto arguments = small(server.url());
        std::replace(arguments.begin(), arguments.end(), std::string("5"), std::string(seed));
        run_json(arguments);
        std::multiset<std::string> out;
        for (const json& body : server.bodies()) out.insert(body.dump());
        return out;
    };
    EXPECT_EQ(texts("5"), texts("5"));
    EXPECT_NE(texts("5"), texts("6"));
}

TEST(MultiTurn, StatefulSendsOnlyWhatIsNew) {
    ChatServer server;
    const json out = run_json(small(server.url(), {"--stateful"}));
    EXPECT_EQ(out.at("mode"), "stateful");
    std::map<std::string, std::vector<size_t>> sizes;
    for (const json& body : server.bodies()) sizes[body.at("conversation")].push_back(body.at("messages").size());
    ASSERT_EQ(sizes.size(), 4u);
    for (const auto& [id, counts] : sizes) EXPECT_THAT(counts, ElementsAre(2, 1, 1)) << id;
    std::set<std::string> ids;
    run_json(small(server.url(), {"--stateful"}));
    for (const json& body : server.bodies()) {
        if (body.contains("conversation")) ids.insert(body.at("conversation"));
    }
    EXPECT_EQ(ids.size(), 8u);  // a second run does not go on with the first one's
}

/// The conversations that requests named.
std::set<std::string> conversations_of(ChatServer& server) {
    std::set<std::string> ids;
    for (const json& body : server.bodies()) ids.insert(body.value("conversation", ""));
    return ids;
}

TEST(MultiTurn, StatefulLeavesNoConversationBehind) {
    ChatServer server;
    run_json(small(server.url(), {"--stateful"}));
    const std::vector<std::string> deleted = server.deleted();
    EXPECT_EQ(deleted.size(), 4u);
    EXPECT_EQ(std::set<std::string>(deleted.begin(), deleted.end()), conversations_of(server));

    ChatServer stateless;
    run_json(small(stateless.url()));
    EXPECT_THAT(stateless.deleted(), ::testing::IsEmpty());

    ChatServer failing("text", [](int64_t number, const json& body, const auto& send) {
        if (number == 2) return send(http_answer(500, ""));
        return ChatServer::stream(body, send, 5);
    });
    const auto failed = run_rondo(small(failing.url(), {"--stateful", "--clients", "1"}));
    EXPECT_THAT(failed.err, HasSubstr("requests failed; the first: HTTP 500"));
    EXPECT_THAT(failing.deleted(), ::testing::UnorderedElementsAreArray(conversations_of(failing)));

    ChatServer keeping;
    keeping.keep_conversations();
    const auto kept = run_rondo(small(keeping.url(), {"--stateful"}));
    EXPECT_EQ(kept.status, 1);
    EXPECT_THAT(kept.out, HasSubstr("errors      none")) << "the figures stand";
    EXPECT_THAT(kept.err, HasSubstr("/v1/sessions/" + *conversations_of(keeping).begin() + ": HTTP 503: not now"));
    EXPECT_EQ(keeping.deleted().size(), 1u) << "a server that refuses is not asked for each";
}

TEST(MultiTurn, CtrlCBreaksOffAndLeavesNoConversationBehind) {
    std::promise<pid_t> process;
    const std::shared_future<pid_t> program = process.get_future().share();
    ChatServer server("text", [&](int64_t number, const json& body, const auto& send) {
        if (number < 5) return ChatServer::stream(body, send, 5);
        if (number == 5) ::kill(program.get(), SIGINT);
        send(ChatServer::stream_head);
        while (send(http_chunk(": nothing yet\n\n"))) {
        }  // until the client leaves
        return false;
    });
    const auto outcome =
        run_rondo(small(server.url(), {"--stateful"}), "", [&](pid_t child) { process.set_value(child); });
    expect_failure(outcome, "stopped by Ctrl-C");
    EXPECT_THAT(server.deleted(), ::testing::IsSupersetOf(conversations_of(server)));
}

TEST(MultiTurn, FixedHistoriesDoNotDependOnTheAnswers) {
    const auto asked = [](const std::string& word) {
        ChatServer server("text", [word](int64_t, const json& body, const auto& send) {
            return ChatServer::stream(body, send, 5, word);
        });
        EXPECT_EQ(run_json(small(server.url(), {"--fixed-history"})).at("mode"), "stateless with a fixed history");
        std::multiset<std::string> out;
        for (const json& body : server.bodies()) {
            const json& messages = body.at("messages");
            for (size_t i = 2; i < messages.size(); i += 2) {
                EXPECT_EQ(messages[i].at("role"), "assistant");
                EXPECT_NEAR(count_words(messages[i].at("content")), 2.5, 0.5);  // five tokens
            }
            out.insert(body.dump());
        }
        return out;
    };
    EXPECT_EQ(asked("yes"), asked("no"));
    expect_error(run_rondo({"bench", "multi_turn", "--fixed-history", "--stateful"}), 2, "excludes");
}

TEST(MultiTurn, KeepsToItsClients) {
    ChatServer server;
    run_json(small(server.url(), {"--clients", "1"}));
    EXPECT_EQ(server.in_flight_max(), 1);
}

TEST(MultiTurn, FindsOutHowLongWordsAre) {
    ChatServer other_field("content");
    EXPECT_EQ(run_json(small(other_field.url())).at("tokens_per_word"), 2.0);
    ChatServer none("no such field");
    EXPECT_EQ(run_json(small(none.url())).at("tokens_per_word"), 3.0);
}

TEST(MultiTurn, FailedAnswersAreCountedAndFailTheRun) {
    ChatServer server("text", [](int64_t number, const json& body, const auto& send) {
        if (number == 2) return send(http_answer(429, R"({"error":{"message":"too much"}})"));
        if (number == 3) return ChatServer::stream(body, send, 4);
        return ChatServer::stream(body, send, 5);
    });
    const auto outcome = run_rondo(small(server.url(), {"--clients", "1", "--json"}));
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("2 of 8 requests failed; the first: HTTP 429: too much"));
    const json out = json::parse(outcome.out);
    EXPECT_EQ(out.at("errors"), json({{"HTTP 429", 1}, {"short answer", 1}}));
    EXPECT_EQ(out.at("turns_skipped"), 4);
    EXPECT_EQ(out.at("answers"), 6);
    EXPECT_EQ(out.at("answer_tokens"), 30);
}

TEST(MultiTurn, ReportsToPeopleAndDraws) {
    ChatServer server;
    const auto plot = std::filesystem::temp_directory_path() / ("rondo-plot-" + std::to_string(::getpid()) + ".svg");
    const auto outcome = run_rondo(small(server.url(), {"--plot", plot.string(), "--slo-ttft-ms", "60000"}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(outcome.out, HasSubstr("vllm, stateless, tiny at http://127.0.0.1:"));
    EXPECT_THAT(outcome.out, HasSubstr("12 of 12 with TTFT <= 60000 ms"));
    EXPECT_THAT(outcome.out, HasSubstr("errors      none"));
    EXPECT_THAT(outcome.out, HasSubstr("--workload vllm --conversations 4 --turns 3 --shared-prefix 500 --own-prefix "
                                       "1000:5000 --user-tokens 200 --answer-tokens 50 --active 3 --clients 3 --rate 0 "
                                       "--gap-s 0 --scale 0.1 --seed 5\n"));
    std::ifstream file(plot);
    const std::string svg((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
    std::filesystem::remove(plot);
    const auto nowhere = run_rondo(small(server.url(), {"--plot", "/no/such/folder/plot.svg"}));
    EXPECT_EQ(nowhere.status, 1);
    EXPECT_THAT(nowhere.err, HasSubstr("/no/such/folder/plot.svg cannot be written"));
    EXPECT_EQ(nowhere.out, "") << "it is said before anything is measured";
}

TEST(MultiTurn, SendsTheKeyOfAFile) {
    std::atomic<int> with_key = 0, requests = 0;
    ScriptedServer server([&](const auto& request, const auto& send) {
        ++requests;
        with_key += request.head.find("Authorization: Bearer s3cret\r\n") != std::string::npos ? 1 : 0;
        return send(http_answer(401, R"({"error":{"message":"who are you?"}})"));
    });
    const auto path = std::filesystem::temp_directory_path() / ("rondo-key-" + std::to_string(::getpid()));
    std::ofstream(path) << "s3cret\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const auto outcome = run_rondo(small(server.url(), {"--api-key-file", path.string()}));
    std::filesystem::remove(path);
    expect_failure(outcome, "/v1/models: HTTP 401: who are you?");
    EXPECT_EQ(with_key, 1);
    EXPECT_EQ(requests, 1);
}

TEST(MultiTurn, SaysWhatIsWrongBeforeItMeasures) {
    expect_failure(run_rondo({"bench", "multi_turn", "--url", "127.0.0.1:1"}), "http://HOST:PORT");
    expect_failure(run_rondo({"bench", "multi_turn", "--url", "http://127.0.0.1:1"}), "nothing listens there");
    expect_failure(run_rondo({"bench", "multi_turn", "--turns", "5:4"}), "turns of 5:4");
    expect_failure(run_rondo({"bench", "multi_turn", "--turns", "4:"}), "such as 120:160");
    expect_failure(run_rondo({"bench", "multi_turn", "--turns", "4-5"}), "such as 120:160");
    expect_failure(run_rondo({"bench", "multi_turn", "--clients", "257"}), "1:256");
    expect_failure(run_rondo({"bench", "multi_turn", "--rate", "nan"}), "rate");
    expect_error(run_rondo({"bench", "multi_turn", "--timeout-s", "nan"}), 2, "--timeout-s");
    expect_failure(run_rondo({"bench", "multi_turn", "--api-key-file", "/no/such/key"}), "/no/such/key");
    expect_error(run_rondo({"bench", "multi_turn", "--workload", "tpc"}), 2, "vllm");
    expect_error(run_rondo({"bench", "multi_turn", "--scale", "0"}), 2, "--scale");

    ScriptedServer empty([](const auto&, const auto& send) { return send(http_answer(200, R"({"data":[]})")); });
    expect_failure(run_rondo({"bench", "multi_turn", "--url", empty.url()}), "--model NAME");
    expect_failure(run_rondo({"bench", "multi_turn", "--url", empty.url(), "--model", "m"}),
                   "a first request failed (cut off)");
    ScriptedServer page([](const auto&, const auto& send) { return send(http_answer(200, "<html>")); });
    expect_failure(run_rondo({"bench", "multi_turn", "--url", page.url()}), "not a JSON object");
}

}  // namespace
}  // namespace rondo

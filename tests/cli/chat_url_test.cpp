#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "tests/cli/rondo_process.hpp"
#include "tests/cli/rondo_terminal.hpp"
#include "tests/transport/tls_test_server.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing::expect_error;
using testing::expect_failure;
using ::testing::HasSubstr;
using testing::http_answer;
using ::testing::Not;
using testing::run_rondo;
using testing::ScriptedServer;
using testing::TestAuthority;
using testing::TlsTestServer;

const std::string listed_model = R"({"object":"list","data":[{"id":"some model","owned_by":"somebody"}]})";

std::string delta(const std::string& text) {
    return "data: " + json{{"choices", json::array({{{"delta", {{"content", text}}}}})}}.dump() + "\n\n";
}

/// A server that is not Rondo: it keeps nothing, and answers "1", "2", … in the way a test wants.
class SomeServer {
public:
    using Answer = std::function<std::string(const json& body, int number)>;  ///< a whole HTTP answer

    explicit SomeServer(Answer answer = {}, std::string models = http_answer(200, listed_model))
        : answer_(std::move(answer)), models_(std::move(models)) {}

    ScriptedServer::Handler handler() {
        return [this](const ScriptedServer::Request& request, const ScriptedServer::Send& send) {
            const std::lock_guard lock(mutex_);
            heads_.push_back(request.head);
            if (request.head.starts_with("GET ")) return send(models_);
            bodies_.push_back(json::parse(request.body, nullptr, false));
            if (answer_) return send(answer_(bodies_.back(), ++number_));
            return send(
                http_answer(200, delta("an") + delta("swer " + std::to_string(++number_)) + "data: [DONE]\n\n"));
        };
    }

    std::vector<json> bodies() {
        const std::lock_guard lock(mutex_);
        return bodies_;
    }
    std::vector<std::string> heads() {
        const std::lock_guard lock(mutex_);
        return heads_;
    }

private:
    Answer answer_;
    std::string models_;
    std::mutex mutex_;
    int number_ = 0;
    std::vector<json> bodies_;
    std::vector<std::string> heads_;
};

testing::Outcome chat(const std::string& url, const std::string& lines, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"chat", "--url", url});
    return run_rondo(more, lines);
}

json message(const char* role, const char* content) {
    return {{"role", role}, {"content", content}};
}

/// A file of the user's own.
struct KeyFile {
    explicit KeyFile(const std::string& text, mode_t mode = 0600) {
        char name[] = "/tmp/rondo_key_XXXXXX";
        ::close(::mkstemp(name));
        path = name;
        std::ofstream(path) << text;
        ::chmod(name, mode);
    }
    ~KeyFile() { std::filesystem::remove(path); }
    std::string path;
};

TEST(ChatUrl, GetsAllThatWasSaidAgainWithEachTurn) {
    SomeServer some;
    const ScriptedServer server(some.handler());
    const auto outcome = chat(server.url(), "Hello!\nAnd you?\n/rewind 1\nOnce more?\n", {"--system", "Be brief."});
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.out, "answer 1\nanswer 2\nanswer 3\n");
    const auto bodies = some.bodies();
    ASSERT_EQ(bodies.size(), 3U);
    EXPECT_EQ(bodies[2]["messages"], json::array({message("system", "Be brief."), message("user", "Hello!"),
                                                  message("assistant", "answer 1"), message("user", "Once more?")}));
    EXPECT_EQ(bodies[1]["messages"].size(), 4U);
}

/// The chat sends OpenAI's own fields alone, and of those what was given: other servers refuse unknown fields.
TEST(ChatUrl, AsksOtherServersForNoMoreThanWasGiven) {
    SomeServer some;
    const ScriptedServer server(some.handler());
    EXPECT_EQ(chat(server.url(), "Hello!\n").status, 0);
    EXPECT_EQ(
        chat(server.url(), "Hello!\n",
             {"--temperature", "0.5", "--top-p", "0.25", "--seed", "3", "--max-tokens", "7", "--model-name", "another"})
            .status,
        0);
    const auto bodies = some.bodies();
    ASSERT_EQ(bodies.size(), 2U);
    EXPECT_EQ(bodies[0], (json{{"model", "some model"},
                               {"messages", json::array({message("user", "Hello!")})},
                               {"stream", true},
                               {"stream_options", {{"include_usage", true}}}}));
    EXPECT_EQ(bodies[1]["model"], "another");
    EXPECT_EQ(bodies[1]["temperature"], 0.5);
    EXPECT_EQ(bodies[1]["top_p"], 0.25);
    EXPECT_EQ(bodies[1]["seed"], 3);
    EXPECT_EQ(bodies[1]["max_tokens"], 7);
}

TEST(ChatUrl, ReadsStreamsOfEveryKind) {
    const std::string piece = R"({"choices":[{"delta":{"content":"fine"}}]})";
    const std::string nulls =
        R"({"id":null,"choices":[{"delta":{"role":"assistant","content":null},"finish_reason":null}],"usage":null})";
    for (const std::string& body : std::vector<std::string>{
             "data: " + piece + "\n\n",                                                   // no end but the stream's
             "data: " + piece + "\r\n\r\ndata: [DONE]\r\n\r\n",                           // CR LF
             ": hello\n\ndata:" + piece + "\n\n",                                         // a comment, no blank
             "data: " + nulls + "\n\ndata: " + piece + "\n\ndata: {\"choices\":[]}\n\n",  // members of no use
             R"({"choices":[{"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]})",  // no stream
             "data: {\"choices\":[{\"delta\":{\"content\":\"fine\"},\"finish_reason\":\"stop\"}],\"usage\":"
             "{\"prompt_tokens\":\"x\",\"completion_tokens\":-5,\"prompt_tokens_details\":[]},\"timings\":7}\n\n"}) {
        SomeServer some([&](const json&, int) { return http_answer(200, body); });
        const ScriptedServer server(some.handler());
        const auto outcome = chat(server.url(), "Hello!\n/stats\n");
        EXPECT_EQ(outcome.status, 0) << outcome.err << body;
        EXPECT_THAT(outcome.out, ::testing::StartsWith("fine\n")) << body;
    }
}

TEST(ChatUrl, SaysInOneLineWhatAServerDidWrong) {
    struct Case {
        std::string answer;
        const char* words;
    };
    for (const Case& one : {
             Case{http_answer(400, R"({"error":{"message":"too long"}})"), ": HTTP 400: too long"},
             Case{http_answer(400, R"({"error":"too long"})"), ": HTTP 400: too long"},
             Case{http_answer(422, R"({"detail":"too long"})"), ": HTTP 422: too long"},
             Case{http_answer(502, "<html>\n bad\n gateway</html>"), ": HTTP 502: <html> bad gateway</html>"},
             Case{http_answer(500, ""), ": HTTP 500"},
             Case{http_answer(200, ""), "before it was whole"},
             Case{http_answer(200, "data: nonsense\n\n"), "no JSON object"},
             Case{http_answer(200, "data: {\"error\":{\"message\":\"out of\\nmemory\"}}\n\n"), "out of\\x0amemory"},
             Case{http_answer(200, "data: " + std::string(2 << 20, 'x') + "\n\n"), "must be at most"},
             Case{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + delta("half"), "before the answer was whole"},
         }) {
        SomeServer some([&](const json&, int) { return one.answer; });
        auto inner = some.handler();
        const ScriptedServer server([&](const auto& request, const auto& send) {
            return inner(request, send) && request.head.starts_with("GET ");  // then it closes
        });
        const auto outcome = chat(server.url(), "Hello!\n");
        EXPECT_EQ(outcome.status, 1) << one.words;
        EXPECT_THAT(outcome.err, HasSubstr(one.words));
        EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    }
}

TEST(ChatUrl, AsksAgainWithoutWhatAServerDoesNotKnow) {
    SomeServer some([](const json& body, int) {
        if (body.contains("stream_options"))
            return http_answer(422, R"({"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs"}]})");
        if (body.contains("max_tokens"))
            return http_answer(400, R"({"error":{"message":"Use 'max_completion_tokens' instead."}})");
        return http_answer(200, delta("fine"));
    });
    const ScriptedServer server(some.handler());
    EXPECT_EQ(chat(server.url(), "Hello!\nAgain!\n", {"--max-tokens", "9"}).out, "fine\nfine\n");
    const auto bodies = some.bodies();
    ASSERT_EQ(bodies.size(), 4U) << "what was learnt is kept";
    EXPECT_EQ(bodies[3]["max_completion_tokens"], 9);
}

TEST(ChatUrl, FindsTheModelsBelowV1OrAtTheUrlItself) {
    for (const std::string& root : {std::string("/api/v1"), std::string("/api")}) {
        SomeServer some;
        auto inner = some.handler();
        std::vector<std::string> asked;
        const ScriptedServer server([&](const auto& request, const auto& send) {
            asked.push_back(request.head.substr(0, request.head.find(" HTTP")));
            if (root == "/api" && asked.back().find("/v1/") != std::string::npos) return send(http_answer(404, ""));
            return inner(request, send);
        });
        EXPECT_EQ(chat(server.url() + "/api", "Hello!\n").out, "answer 1\n");
        EXPECT_EQ(asked.back(), "POST " + root + "/chat/completions");
    }
}

TEST(ChatUrl, AServerWithoutAListNeedsTheModelsName) {
    SomeServer some({}, http_answer(404, "no such page"));
    const ScriptedServer server(some.handler());
    expect_failure(chat(server.url(), "Hello!\n"), "HTTP 404: no such page");
    EXPECT_EQ(chat(server.url(), "Hello!\n", {"--model-name", "m"}).out, "answer 1\n");
    SomeServer none({}, http_answer(200, R"({"data":[]})"));
    const ScriptedServer empty(none.handler());
    expect_failure(chat(empty.url(), "Hello!\n"), "lists no model");
}

TEST(ChatUrl, TheKeyComesFromTheEnvironmentOrAFileOfTheUsersOwn) {
    SomeServer some;
    const ScriptedServer server(some.handler());
    const KeyFile file("from-a-file\n"), open("secret-of-all", 0644), two("two\nlines"), empty("");
    EXPECT_EQ(chat(server.url(), "Hello!\n").status, 0);
    EXPECT_THAT(some.heads().back(), Not(HasSubstr("Authorization")));
    ::setenv("OPENAI_API_KEY", "from-outside", 1);
    EXPECT_EQ(chat(server.url(), "Hello!\n").status, 0);
    EXPECT_THAT(some.heads().back(), HasSubstr("\r\nAuthorization: Bearer from-outside\r\n"));
    EXPECT_EQ(chat(server.url(), "Hello!\n", {"--api-key-file", file.path}).status, 0);
    EXPECT_THAT(some.heads().back(), HasSubstr("\r\nAuthorization: Bearer from-a-file\r\n"));
    ::setenv("OPENAI_API_KEY", "bad\r\nkey", 1);
    expect_failure(chat(server.url(), "Hello!\n"), "OPENAI_API_KEY: the key must be one line");
    ::unsetenv("OPENAI_API_KEY");
    const size_t requests = some.heads().size();
    for (const auto& [path, words] : {std::pair(open.path, std::string("chmod 600 " + open.path)),
                                      {two.path, "must be one line"},
                                      {empty.path, "must be one line"},
                                      {"/no/such/key", "cannot be read"}}) {
        const auto outcome = chat(server.url(), "Hello!\n", {"--api-key-file", path});
        expect_failure(outcome, words);
        EXPECT_THAT(outcome.err, Not(HasSubstr("secret-of-all")));
    }
    EXPECT_EQ(some.heads().size(), requests) << "nothing was sent";
}

TEST(ChatUrl, TheKeyIsNeverSentOnToAnotherHost) {
    std::atomic<int> strayed = 0;
    const ScriptedServer other([&](const auto&, const auto& send) {
        ++strayed;
        return send(http_answer(200, listed_model));
    });
    const KeyFile file("key");
    for (const int status : {301, 302, 307, 308}) {
        SomeServer some({}, http_answer(status, "", "Location: " + other.url() + "/v1/models\r\n"));
        const ScriptedServer server(some.handler());
        const auto outcome = chat(server.url(), "Hello!\n", {"--api-key-file", file.path});
        expect_failure(outcome, "it redirects to " + other.url() + "/v1/models, which is not followed");
    }
    EXPECT_EQ(strayed, 0);
}

TEST(ChatUrl, TalksOverHttpsWithACertificateOfOnesOwn) {
    TestAuthority authority;
    SomeServer some;
    const TlsTestServer server(authority.context({}), some.handler());
    const std::string ca = authority.file();
    EXPECT_EQ(chat(server.url("localhost") + "/v1", "Hello!\nAgain!\n", {"--ca-file", ca}).out, "answer 1\nanswer 2\n");
    ::setenv("SSL_CERT_FILE", ca.c_str(), 1);
    EXPECT_EQ(chat(server.url(), "Hello!\n").out, "answer 3\n");
    ::unsetenv("SSL_CERT_FILE");
    const size_t requests = some.heads().size();
    expect_failure(chat(server.url(), "Hello!\n"), "the server's certificate is not trusted");
    EXPECT_EQ(some.heads().size(), requests);
    expect_failure(chat(server.url(), "Hello!\n", {"--ca-file", "/etc/hostname"}), "it must be a PEM file");
    expect_failure(chat("http://localhost:1", "Hello!\n", {"--ca-file", ca}), "--ca-file with an http:// URL");
}

TEST(ChatUrl, CommandsOfRondoAloneAreRefusedByName) {
    SomeServer some;
    const ScriptedServer server(some.handler());
    for (const auto& [line, words] : {std::pair("/list\n", "keeps no conversations"),
                                      {"/open x\n", "keeps no conversations"},
                                      {"/method\n", "no choice of methods"},
                                      {"/method dense\n", "no choice of methods"},
                                      {"/rewind 0\n", "no round 0"}}) {
        expect_failure(chat(server.url(), line), words);
    }
    expect_failure(chat(server.url(), "", {"--method", "dense"}), "the server must be Rondo");
}

TEST(ChatUrl, FlagsThatContradictEachOtherAreRefused) {
    for (const auto& [flag, value] : {std::pair("--model", "m"),
                                      {"--config", "c"},
                                      {"--set", "a=b"},
                                      {"--weights", "auto"},
                                      {"--device", "cpu"},
                                      {"--threads", "2"},
                                      {"--kv", "f32"},
                                      {"--chunk", "8"}}) {
        expect_error(chat("http://localhost:1", "", {flag, value}), 2, std::string(flag) + " excludes --url");
    }
    for (const char* flag : {"--model-name", "--api-key-file", "--ca-file", "--timeout-s"})
        expect_error(run_rondo({"chat", flag, "1"}), 2, "requires --url");
    expect_failure(chat("ftp://localhost", ""), "does not begin with http:// or https://");
    expect_failure(chat("http://127.0.0.1:1", "Hello!\n"), "nothing listens there");
}

}  // namespace
}  // namespace rondo

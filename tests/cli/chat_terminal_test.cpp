#include <signal.h>

#include <algorithm>

#include "tests/cli/rondo_terminal.hpp"
#include "tests/transport/scripted_server.hpp"
#include "transport/http_client.hpp"

namespace rondo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::RondoTerminal;

const std::vector<std::string> two_methods = {"--set", "pipeline.methods=[loopserve]"};
/// Answers without end, so that there is something to stop.
const std::vector<std::string> talkative = {"--weights", "random:1"};

std::vector<std::string> operator+(std::vector<std::string> first, const std::vector<std::string>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

/// A server, and where it is.
struct Server {
    explicit Server(const std::vector<std::string>& more)
        : terminal(std::vector<std::string>{"serve", "--port", "0"} + more) {
        terminal.until("http://");
        url = "http://" + terminal.until("/");
    }
    RondoTerminal terminal;
    std::string url;
};

void talk(RondoTerminal& chat) {
    EXPECT_THAT(chat.until_prompt(), AllOf(HasSubstr("demo_model"), HasSubstr("/help lists commands")));
    EXPECT_THAT(chat.say("/help"), AllOf(HasSubstr("/rounds"), HasSubstr("/rewind K"), HasSubstr("Ctrl-D leaves")));
    EXPECT_EQ(chat.say("/stats"), "rondo: no turn so far\n");
    EXPECT_EQ(chat.say(""), "");
    EXPECT_EQ(chat.say("The code of the red box is 4817."), "Noted.\n");
    EXPECT_EQ(chat.say("What is the code of the red box?"), "The code of the red box is 4817.\n");
    EXPECT_THAT(chat.say("/stats"),
                MatchesRegex("prompt 35 tokens: 21 cached, 0 restored, 14 computed; answer 15 tokens\n"
                             "queued .* ms, restore .* ms, prefill .* ms, decode .* ms; first token after .* ms\n"
                             "0 preemptions\n"));
    EXPECT_THAT(chat.say("/rounds"), MatchesRegex("0  .22 tokens. The code of the red box is 4817.\n   Noted.\n"
                                                  "1  .28 tokens. What is the code of the red box.\n"
                                                  "   The code of the red box is 4817.\n"));
}

void rewind(RondoTerminal& chat) {
    EXPECT_THAT(chat.say("/rewind 7"), HasSubstr("must be 0 to 1"));
    EXPECT_THAT(chat.say("/rewind x"), HasSubstr("the round must be a number that /rounds shows"));
    EXPECT_EQ(chat.say("/rewind 0"), "");
    EXPECT_EQ(chat.say("/rounds"), "");
    EXPECT_THAT(chat.say("What is the code of the red box?"), Not(HasSubstr("4817")));
}

void choose_methods(RondoTerminal& chat) {
    EXPECT_EQ(chat.say("/method"), "dense; or loopserve\n");
    EXPECT_EQ(chat.say("/method quick"), "rondo: /method \"quick\": must be dense or loopserve\n");
    EXPECT_EQ(chat.say("/method loopserve"), "");
    EXPECT_EQ(chat.say("/method"), "loopserve; or dense\n");
    EXPECT_EQ(chat.say("The code of the old lamp is 2093."), "Noted.\n");
    EXPECT_THAT(chat.say("/stats"), HasSubstr("\nloopserve: prompt density 1.00"));
    EXPECT_EQ(chat.say("/mehtod"), "rondo: /mehtod: no such command; did you mean /method?\n");
}

void leave(RondoTerminal& chat) {
    chat.type(RondoTerminal::ctrl('D'));
    EXPECT_EQ(chat.end(), 0);
}

/// Asks, and presses Ctrl-C when the answer has begun.
void stop_an_answer(RondoTerminal& chat) {
    chat.type("Hello!\n");
    chat.until("Hello!\r\n");
    chat.more();
    chat.type(RondoTerminal::ctrl('C'));
    EXPECT_THAT(chat.until_prompt(), HasSubstr(" [stopped]\n"));
}

/// Rewinds the stopped round, which is there a moment after its end. Answers are long: now there is room for another.
void rewind_the_stopped(RondoTerminal& chat) {
    std::string rounds;
    for (int i = 0; i < 1000 && rounds.empty(); ++i) rounds = chat.say("/rounds");
    EXPECT_THAT(rounds, HasSubstr("0  (")) << "what was heard is kept";
    EXPECT_EQ(chat.say("/rewind 0"), "");
}

TEST(ChatTerminal, TalksAndObeysCommands) {
    RondoTerminal chat(std::vector<std::string>{"chat"} + two_methods);
    talk(chat);
    rewind(chat);
    choose_methods(chat);
    leave(chat);
}

TEST(ChatTerminal, TalksToAServerAndObeysCommands) {
    const Server server(two_methods);
    RondoTerminal chat({"chat", "--url", server.url});
    talk(chat);
    rewind(chat);
    choose_methods(chat);
    leave(chat);
}

/// The list has more pages than one, and what was opened is left as it is.
TEST(ChatTerminal, ListsAServersConversationsAndOpensOne) {
    const Server server({"--quiet"});  // nobody reads a log here
    HttpClient client(Url::parse(server.url).value());
    const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::seconds(60); };
    for (int i = 0; i < 230; ++i) {
        const std::string body = R"({"id":"kept )" + std::to_string(i) + "\"}";
        ASSERT_EQ(client.request("POST", "/v1/sessions", {}, body, soon()).value().status, 200);
    }
    {
        RondoTerminal chat({"chat", "--url", server.url});
        chat.until_prompt();
        const std::string list = chat.say("/list");
        EXPECT_EQ(std::ranges::count(list, '\n'), 231);
        EXPECT_THAT(list, AllOf(HasSubstr("kept 229  (0 rounds, 0 tokens)"), HasSubstr("kept 0  (0 rounds")));
        EXPECT_THAT(chat.say("/open nobody"), HasSubstr("no conversation of that id"));
        EXPECT_EQ(chat.say("/open kept 7"), "");
        EXPECT_EQ(chat.say("The code of the red box is 4817."), "Noted.\n");
        leave(chat);
    }
    EXPECT_EQ(client.request("GET", "/v1/sessions/kept%207", {}, "", soon()).value().status, 200);
}

TEST(ChatTerminal, StopsAnAnswerAndGoesOn) {
    RondoTerminal chat(std::vector<std::string>{"chat", "--max-tokens", "4000"} + talkative);
    chat.until_prompt();
    stop_an_answer(chat);
    EXPECT_THAT(chat.say("/stats"), AllOf(HasSubstr("prompt 7 tokens"), HasSubstr("preemptions; stopped")));
    rewind_the_stopped(chat);
    stop_an_answer(chat);
    leave(chat);
}

TEST(ChatTerminal, StopsAServersAnswerAndGoesOn) {
    const Server server(talkative);
    RondoTerminal chat({"chat", "--url", server.url, "--max-tokens", "4000"});
    chat.until_prompt();
    stop_an_answer(chat);
    EXPECT_EQ(chat.say("/stats"), "stopped before the server told its figures; /rounds shows what it kept\n");
    rewind_the_stopped(chat);
    stop_an_answer(chat);
    leave(chat);
}

TEST(ChatTerminal, CtrlCAtThePromptClearsTheLine) {
    RondoTerminal chat({"chat"});
    chat.until_prompt();
    chat.type("The code of the old lamp is 2093.");
    chat.until("2093.");
    chat.type(RondoTerminal::ctrl('C'));
    EXPECT_EQ(chat.until_prompt(), "^C\n");
    EXPECT_EQ(chat.say("/rounds"), "") << "nothing of it was said";
    chat.type(RondoTerminal::ctrl('C'));
    EXPECT_EQ(chat.until_prompt(), "^C\nCtrl-C again leaves.\n");
    EXPECT_EQ(chat.say("The code of the red box is 4817."), "Noted.\n") << "once is not twice";
    chat.type("half a line");
    chat.until("half a line");
    chat.type(RondoTerminal::ctrl('C'));
    chat.until_prompt();
    chat.type(RondoTerminal::ctrl('C'));
    EXPECT_EQ(chat.end(), 0) << "twice leaves";
}

TEST(ChatTerminal, CtrlCTwiceLeavesAServersChatAndItsConversation) {
    const Server server({"--quiet"});
    RondoTerminal chat({"chat", "--url", server.url});
    chat.until_prompt();
    chat.type(RondoTerminal::ctrl('C'));
    chat.until_prompt();
    chat.type(RondoTerminal::ctrl('C'));
    EXPECT_EQ(chat.end(), 0);
    HttpClient client(Url::parse(server.url).value());
    const auto listed =
        client.request("GET", "/v1/sessions", {}, "", std::chrono::steady_clock::now() + std::chrono::seconds(60));
    EXPECT_THAT(listed.value().body, HasSubstr("\"data\":[]"));
}

TEST(ChatTerminal, ASignalFromElsewhereEndsItWithTheTerminalSetRight) {
    RondoTerminal chat({"chat"});
    chat.until_prompt();
    ::kill(chat.process(), SIGINT);
    EXPECT_EQ(chat.end(), 128 + SIGINT);
    EXPECT_TRUE(chat.is_cooked());
}

TEST(ChatTerminal, DoesNotLetAnAnswerCommandTheTerminal) {
    const testing::ScriptedServer server([](const auto& request, const auto& send) {
        if (request.head.starts_with("GET "))
            return send(testing::http_answer(200, R"({"data":[{"id":"m","owned_by":"somebody"}]})"));
        return send(testing::http_answer(
            200, "data: {\"choices\":[{\"delta\":{\"content\":\"a\\u001b[2Jb\\u0007\\nc\\u009b2Jé\"}}]}\n\n"));
    });
    RondoTerminal chat({"chat", "--url", server.url()});
    chat.until_prompt();
    EXPECT_EQ(chat.say("Hello!"), "a[2Jb\nc2Jé\n");
    EXPECT_THAT(chat.say("/stats"), HasSubstr("first text after"));
    leave(chat);
}

TEST(ChatTerminal, GoesOnWithTheConversationThatItIsIn) {
    const Server server({"--quiet"});
    RondoTerminal chat({"chat", "--url", server.url});
    chat.until_prompt();
    chat.say("The code of the red box is 4817.");
    const std::string listed = chat.say("/list");
    EXPECT_EQ(chat.say("/open " + listed.substr(0, listed.find(' '))), "");
    EXPECT_EQ(chat.say("What is the code of the red box?"), "The code of the red box is 4817.\n");
    leave(chat);
}

TEST(ChatTerminal, GuessesAMisspeltCommand) {
    RondoTerminal chat({"chat"});
    chat.until_prompt();
    EXPECT_EQ(chat.say("/xyzzy"), "rondo: /xyzzy: no such command; /help lists them\n");
    EXPECT_EQ(chat.say("/ruonds"), "rondo: /ruonds: no such command; did you mean /rounds?\n");
    leave(chat);
}

TEST(ChatTerminal, TakesWhatIsTypedBeyondAscii) {
    RondoTerminal chat({"chat"});
    chat.until_prompt();
    chat.say("Grüße aus Köln, 你好!");
    EXPECT_THAT(chat.say("/rounds"), HasSubstr("Grüße aus Köln, 你好!\n"));
    chat.type("/quit\n");
    EXPECT_EQ(chat.end(), 0);
}

TEST(ChatTerminal, TellsOfAnAnswerThatWasCut) {
    RondoTerminal chat({"chat", "--max-tokens", "3"});
    chat.until_prompt();
    EXPECT_THAT(chat.say("What is the code of the red box?"),
                HasSubstr(" [cut: it has as many tokens as it may have]\n"));
    EXPECT_EQ(chat.say("/rewind 0"), "");
    leave(chat);
}

}  // namespace
}  // namespace rondo

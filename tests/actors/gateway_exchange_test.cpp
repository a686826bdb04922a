#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "actors/gateway/open_exchanges.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct KeptReply : HttpReply {
    void send(int sent_status, HttpHeaders sent_headers, std::string sent_body) override {
        status = sent_status;
        headers = std::move(sent_headers);
        body = std::move(sent_body);
    }
    void begin(int, HttpHeaders) override {}
    bool write(std::string piece) override {
        said += piece;
        return is_there;
    }
    void finish() override { ++ends; }
    void on_gone(std::function<void()> when_gone) override { gone = std::move(when_gone); }

    bool is_there = true;
    std::string said;
    int ends = 0;
    std::function<void()> gone;
    int status = 0;
    HttpHeaders headers;
    std::string body;
};

/// What a request's client hears of an error, and what the log says of it.
struct ToldOfError {
    KeptReply client;
    std::string log;
};

template <class AnyError>
ToldOfError told(const AnyError& error, bool failures_only = false) {
    const auto reply = std::make_shared<KeptReply>();
    std::string log;
    Exchange({}, reply, {[&](const std::string& line) { log += line; }, failures_only}, "").send_error(error);
    return {*reply, log};
}

TEST(Exchange, LogsWhatItsClientIsNotTold) {
    for (const bool failures_only : {false, true}) {
        const ToldOfError failed = told(make_error(ErrorCode::io, "/var/lib/rondo: disk full"), failures_only);
        EXPECT_EQ(failed.client.status, 500);
        EXPECT_THAT(failed.client.body, HasSubstr("its log says where"));
        EXPECT_THAT(failed.client.body, Not(HasSubstr("/var/lib")));
        EXPECT_THAT(failed.log, HasSubstr(R"("error":"/var/lib/rondo: disk full"})"));
    }
}

TEST(Exchange, LogsNoErrorThatItsClientIsTold) {
    const Error missing = make_error(ErrorCode::not_found, "no conversation of that id");
    EXPECT_THAT(told(missing).client.body, HasSubstr("no conversation"));
    EXPECT_THAT(told(missing).log, Not(HasSubstr("no conversation")));
    EXPECT_EQ(told(missing, true).log, "");
}

TEST(Exchange, SaysWhichMethodsAreAllowed) {
    EXPECT_THAT(told(wrong_method("GET, POST")).client.headers,
                ::testing::Contains(::testing::Pair("Allow", "GET, POST")));
    EXPECT_THAT(told(unknown_path()).client.headers, Not(::testing::Contains(::testing::Key("Allow"))));
}

/// The outcome in the log of a request that is answered so.
std::string outcome_of(const std::function<void(Exchange&)>& answer, bool client_is_there = true) {
    const auto reply = std::make_shared<KeptReply>();
    reply->is_there = client_is_there;
    std::string log;
    {
        Exchange exchange({}, reply, {[&](const std::string& line) { log += line; }}, "");
        answer(exchange);
    }
    const std::string key = "\"outcome\":\"";
    const size_t begin = log.find(key) + key.size();
    return log.substr(begin, log.find('"', begin) - begin);
}

TEST(Exchange, LogsHowAnAnswerEnded) {
    for (const auto& [status, outcome] :
         {std::pair{200, "ok"}, std::pair{204, "ok"}, std::pair{404, "refused"}, std::pair{429, "refused"},
          std::pair{499, "aborted"}, std::pair{504, "failed"}}) {
        EXPECT_EQ(outcome_of([&](Exchange& exchange) { exchange.send_json(status, ""); }), outcome) << status;
    }
    EXPECT_EQ(outcome_of([](Exchange&) {}), "failed") << "the transport answers it with a 500";
    EXPECT_EQ(outcome_of([](Exchange& exchange) { exchange.refused(413, 10); }), "refused");
}

TEST(Exchange, LogsHowAStreamEnded) {
    const auto stream_failing_by = [](ErrorCode code) {
        return [code](Exchange& exchange) {
            exchange.begin_stream();
            exchange.failure(make_error(code, "why"));
            exchange.write("error");
            exchange.finish_stream();
        };
    };
    const auto stream = [](Exchange& exchange) {
        exchange.begin_stream();
        exchange.write("piece");
        exchange.finish_stream();
    };
    EXPECT_EQ(outcome_of(stream), "ok");
    EXPECT_EQ(outcome_of(stream, false), "aborted");
    EXPECT_EQ(outcome_of(&Exchange::begin_stream), "aborted") << "and never finished";
    EXPECT_EQ(outcome_of(stream_failing_by(ErrorCode::timeout)), "failed");
    EXPECT_EQ(outcome_of(stream_failing_by(ErrorCode::cancelled)), "aborted");
    EXPECT_EQ(outcome_of([&](Exchange& exchange) {
                  exchange.outcome("aborted");
                  stream(exchange);
              }),
              "aborted")
        << "the first word counts";
}

/// However close the end of a stream and that of the server's time come to each other.
TEST(Exchange, EndsOnceWhenItIsCutAtItsEnd) {
    for (int round = 0; round < 200; ++round) {
        const auto reply = std::make_shared<KeptReply>();
        const auto exchange = std::make_shared<Exchange>(HttpRequest{}, reply, LogTo{}, "");
        exchange->begin_stream();
        std::atomic<int> there{0};
        const auto together = [&](const auto& say) {
            ++there;
            while (there < 2) std::this_thread::yield();
            say();
        };
        std::thread answering([&] {
            together([&] {
                exchange->write("a piece. ");
                exchange->finish_stream("done.");
            });
        });
        together([&] { exchange->cut(shutting_down()); });
        answering.join();
        EXPECT_FALSE(exchange->write("late"));
        const bool was_cut = reply->said.find("shutting_down") != std::string::npos;
        EXPECT_NE(was_cut, reply->said.ends_with("done.")) << reply->said;
        EXPECT_THAT(reply->said, Not(HasSubstr("late")));
        EXPECT_EQ(reply->ends, 1);
        EXPECT_EQ(reply->status, 0) << "no second answer";
    }
}

TEST(Exchange, TellsWhoWorksOnItOnceThatNobodyWaits) {
    const auto reply = std::make_shared<KeptReply>();
    const auto exchange = std::make_shared<Exchange>(HttpRequest{}, reply, LogTo{}, "");
    exchange->watch_client();
    int told = 0;
    exchange->on_gone([&] { ++told; });
    EXPECT_FALSE(exchange->stop_token().stop_requested());
    reply->gone();
    exchange->nobody_waits();
    EXPECT_EQ(told, 1);
    EXPECT_TRUE(exchange->stop_token().stop_requested());
    exchange->on_gone([&] { ++told; });
    EXPECT_EQ(told, 2) << "who comes late hears it at once";
}

TEST(OpenExchanges, AreEndedAndNoMoreAreLetIn) {
    OpenExchanges open;
    std::vector<std::shared_ptr<KeptReply>> replies;
    std::vector<std::shared_ptr<Exchange>> exchanges;
    for (int i = 0; i < 300; ++i) {  // of which two thirds are over and dropped
        replies.push_back(std::make_shared<KeptReply>());
        auto exchange = std::make_shared<Exchange>(HttpRequest{}, replies.back(), LogTo{}, "");
        EXPECT_TRUE(open.add(exchange));
        if (i % 3 == 1) exchange->send_json(200, "{}");
        if (i % 3 == 2) exchange->begin_stream();
        if (i % 3 != 0) exchanges.push_back(std::move(exchange));
    }
    open.end_all(shutting_down());
    for (size_t i = 0; i < replies.size(); ++i) {
        EXPECT_EQ(replies[i]->status, i % 3 == 1 ? 200 : 0);
        EXPECT_EQ(replies[i]->ends, i % 3 == 2 ? 1 : 0);
    }
    for (const auto& exchange : exchanges) EXPECT_TRUE(exchange->stop_token().stop_requested());
    EXPECT_FALSE(open.add(exchanges.front()));
}

}  // namespace
}  // namespace rondo

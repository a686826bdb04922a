#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/gateway/gateway.hpp"

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
    bool write(std::string) override { return is_there; }
    void finish() override {}
    void on_gone(std::function<void()>) override {}

    bool is_there = true;
    int status = 0;
    HttpHeaders headers;
    std::string body;
};

/// What a request's client hears of an error, and what the log says of it.
struct Told {
    KeptReply client;
    std::string log;
};

template <class AnyError>
Told told(const AnyError& error, bool failures_only = false) {
    const auto reply = std::make_shared<KeptReply>();
    std::string log;
    Exchange({}, reply, {[&](const std::string& line) { log += line; }, failures_only}, "").send_error(error);
    return {*reply, log};
}

TEST(Exchange, LogsWhatItsClientIsNotTold) {
    for (const bool failures_only : {false, true}) {
        const Told failed = told(make_error(ErrorCode::io, "/var/lib/rondo: disk full"), failures_only);
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

}  // namespace
}  // namespace rondo

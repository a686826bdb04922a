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
    bool write(std::string) override { return true; }
    void finish() override {}
    void on_gone(std::function<void()>) override {}

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

}  // namespace
}  // namespace rondo

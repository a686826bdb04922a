#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "actors/gateway/bodies/access_log.hpp"

namespace rondo {
namespace {

using Json = nlohmann::json;

/// What a client, or something inside, may have filled with anything.
constexpr std::string AccessRecord::*of_others[] = {&AccessRecord::peer,       &AccessRecord::method,
                                                    &AccessRecord::path,       &AccessRecord::tenant,
                                                    &AccessRecord::request_id, &AccessRecord::error};

AccessRecord record() {
    AccessRecord out;
    out.time = std::chrono::system_clock::time_point(std::chrono::milliseconds(1'700'000'000'007));
    out.peer = "127.0.0.1";
    out.method = "POST";
    out.path = "/v1/chat/completions";
    out.status = 200;
    out.outcome = "ok";
    out.seconds = 0.0123456;
    out.bytes = 345;
    out.tenant = "acme";
    out.request_id = "chatcmpl-1";
    out.prompt_tokens = 12;
    out.completion_tokens = 3;
    return out;
}

TEST(AccessLog, IsOneJsonObjectALine) {
    const std::string line = access_log_line(record());
    EXPECT_EQ(Json::parse(line), Json::parse(R"({"time": "2023-11-14T22:13:20.007Z", "peer": "127.0.0.1",
        "method": "POST", "path": "/v1/chat/completions", "status": 200, "outcome": "ok", "ms": 12.346, "bytes": 345,
        "tenant": "acme", "request_id": "chatcmpl-1", "prompt_tokens": 12, "completion_tokens": 3})"));
    EXPECT_TRUE(line.ends_with("}\n"));
    EXPECT_TRUE(line.starts_with(R"({"time":)"));
}

TEST(AccessLog, NamesAnErrorWhereThereIsOne) {
    AccessRecord failed = record();
    failed.error = "/var/lib/rondo: disk full";
    EXPECT_EQ(Json::parse(access_log_line(failed))["error"], failed.error);
    EXPECT_FALSE(Json::parse(access_log_line(record())).contains("error"));
}

TEST(AccessLog, LetsNoFieldBreakTheLineOrReachATerminal) {
    const std::string attack =
        "a\r\n{\"status\":200}\x1b[2J\x07\x7f\xC2\x9B\xE2\x80\xA8\xE2\x80\xAE\xFF\"\\" + std::string(1, '\0');
    for (std::string AccessRecord::*const field : of_others) {
        AccessRecord attacked = record();
        attacked.*field = attack;
        const std::string line = access_log_line(attacked);
        EXPECT_EQ(std::ranges::count(line, '\n'), 1);
        EXPECT_TRUE(std::all_of(line.begin(), line.end() - 1, [](char c) { return c >= ' ' && c <= '~'; })) << line;
        EXPECT_EQ(Json::parse(line)["status"], 200);
        const size_t names = Json::parse(access_log_line(record())).size();
        EXPECT_EQ(Json::parse(line).size(), field == &AccessRecord::error ? names + 1 : names);
    }
}

TEST(AccessLog, CutsLongFields) {
    for (std::string AccessRecord::*const field : of_others) {
        AccessRecord long_one = record();
        long_one.*field = std::string(100'000, 'x');
        EXPECT_LT(access_log_line(long_one).size(), 1000U);
        long_one.*field = std::string(511, 'x') + "é";
        EXPECT_TRUE(Json::accept(access_log_line(long_one)));
    }
}

TEST(AccessLog, SurvivesTimesThatMakeNoSense) {
    AccessRecord odd = record();
    odd.seconds = std::numeric_limits<double>::quiet_NaN();
    odd.time = std::chrono::system_clock::time_point(std::chrono::milliseconds(-1));
    const Json line = Json::parse(access_log_line(odd));
    EXPECT_TRUE(line["ms"].is_null());
    EXPECT_EQ(line["time"], "1969-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace rondo

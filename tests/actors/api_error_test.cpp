#include "actors/gateway/bodies/api_error.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rondo {
namespace {

using Json = nlohmann::json;

TEST(ApiError, GivesEveryErrorCodeItsStatusAndType) {
    struct Row {
        ErrorCode code;
        int status;
        std::string type;
    };
    const Row rows[] = {{ErrorCode::invalid_argument, 400, "invalid_request_error"},
                        {ErrorCode::not_found, 404, "invalid_request_error"},
                        {ErrorCode::corrupt, 500, "server_error"},
                        {ErrorCode::unsupported, 400, "invalid_request_error"},
                        {ErrorCode::out_of_range, 400, "invalid_request_error"},
                        {ErrorCode::out_of_memory, 503, "server_error"},
                        {ErrorCode::overloaded, 429, "rate_limit_error"},
                        {ErrorCode::io, 500, "server_error"},
                        {ErrorCode::device, 500, "server_error"},
                        {ErrorCode::cancelled, 499, "server_error"},
                        {ErrorCode::timeout, 504, "server_error"},
                        {ErrorCode::internal, 500, "server_error"},
                        {ErrorCode::context_full, 400, "invalid_request_error"}};
    ASSERT_EQ(std::size(rows), static_cast<size_t>(ErrorCode::context_full) + 1) << "a code without a row";
    for (const Row& row : rows) {
        const ApiError error = api_error(make_error(row.code, "why"));
        EXPECT_EQ(error.status, row.status) << error.code;
        EXPECT_EQ(error.type, row.type) << error.code;
        EXPECT_FALSE(error.code.empty());
    }
    EXPECT_EQ(api_error(make_error(static_cast<ErrorCode>(99), "why")).status, 500);
}

TEST(ApiError, KeepsThePathsOfThisHostToItself) {
    for (const ErrorCode code : {ErrorCode::corrupt, ErrorCode::io, ErrorCode::device, ErrorCode::internal}) {
        const std::string body = api_error(make_error(code, "/var/lib/rondo/segment-7: checksum")).body();
        EXPECT_EQ(body.find("/var/lib"), std::string::npos) << body;
    }
    EXPECT_EQ(api_error(make_error(ErrorCode::overloaded, "256 requests wait")).message, "256 requests wait");
}

TEST(ApiError, IsWrittenInOpenAiShape) {
    EXPECT_EQ(bad_field("n", "invalid_value", "n is 9, must be 1 to 8").body(),
              R"({"error":{"message":"n is 9, must be 1 to 8","type":"invalid_request_error",)"
              R"("param":"n","code":"invalid_value"}})");
    const Json plain = Json::parse((ApiError{500, "server_error", "", "", "m\xff\n"}).body());
    EXPECT_TRUE(plain["error"]["param"].is_null());
    EXPECT_TRUE(plain["error"]["code"].is_null());
    EXPECT_EQ(plain["error"]["message"], "m\xEF\xBF\xBD\n");
}

TEST(ApiError, HasOneForWhatNeverReachesTheEngine) {
    EXPECT_EQ(wrong_api_key().status, 401);
    EXPECT_EQ(wrong_api_key().type, "authentication_error");
    EXPECT_EQ(unknown_path().status, 404);
    EXPECT_EQ(foreign_host().status, 403);
    EXPECT_EQ(foreign_origin().status, 403);
    EXPECT_NE(foreign_origin().message.find("server.cors_origin must be theirs"), std::string::npos);
    EXPECT_EQ(wrong_method("POST").status, 405);
    EXPECT_EQ(wrong_method("POST").allow, "POST");
    EXPECT_EQ(not_serving("shutting_down", "the server is shutting down").status, 503);
    EXPECT_EQ(wrong_method("POST").message, "the method must be POST for this path");
    const ApiError model = unknown_model("gpt-9\n", std::vector<std::string>{"demo", "a/b"});
    EXPECT_EQ(model.status, 404);
    EXPECT_EQ(model.param, "model");
    EXPECT_EQ(model.message, "model 'gpt-9?' is not served, must be 'demo' or 'a/b'");
}

}  // namespace
}  // namespace rondo

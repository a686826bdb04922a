#include <gtest/gtest.h>

#include "actors/api/completion_request.hpp"
#include "tests/actors/api_request_rows.hpp"

namespace rondo {
namespace {

ApiResult<CompletionRequest> with(const std::string& member) {
    return parse_completion_request(R"({"prompt":"Hi",)" + member + "}", 100);
}

ApiResult<CompletionRequest> prompting(const std::string& prompt) {
    return parse_completion_request(R"({"prompt":)" + prompt + "}", 100);
}

TEST(CompletionRequest, MeansByAbsentFieldsWhatOpenAiMeans) {
    const auto request = prompting("\"Hi\"");
    ASSERT_TRUE(request.is_ok()) << request.error().message;
    EXPECT_EQ(std::get<std::string>(request->prompt), "Hi");
    EXPECT_EQ(request->options.tokens_max, 16);
    EXPECT_FALSE(request->tokens_max_given);
    EXPECT_FLOAT_EQ(request->options.sampling.temperature, 1.0F);
    EXPECT_EQ(request->options.sampling.logprobs, -1);
}

TEST(CompletionRequest, TakesOnePromptAsTextOrIds) {
    EXPECT_EQ(std::get<std::string>(prompting(R"(["Hi"])")->prompt), "Hi");
    EXPECT_EQ(std::get<std::vector<int32_t>>(prompting("[0,99,5]")->prompt), (std::vector<int32_t>{0, 99, 5}));
    expect_refused({{"null", "prompt", "missing"},
                    {"1", "prompt", "token ids"},
                    {"{}", "prompt", "token ids"},
                    {"\"\"", "prompt", "at least one"},
                    {"[]", "prompt", "at least one"},
                    {"[\"\"]", "prompt", "at least one"},
                    {R"(["a","b"])", "prompt", "one prompt a request"},
                    {"[[1],[2]]", "prompt", "one prompt a request"},
                    {"[[1]]", "prompt", "token ids"},
                    {"[1,100]", "prompt[1]", "0 to 99"},
                    {"[-1]", "prompt[0]", "0 to 99"},
                    {"[1,2147483647]", "prompt[1]", "0 to 99"},
                    {"[4294967296]", "prompt[0]", "0 to 99"},
                    {"[1,\"a\"]", "prompt[1]", "0 to 99"},
                    {"[1.5]", "prompt[0]", "whole number"},
                    {"[null]", "prompt[0]", "0 to 99"}},
                   prompting);
}

TEST(CompletionRequest, SharesTheFieldsOfEveryAnswer) {
    const auto request =
        with(R"("model":"m","max_tokens":3,"temperature":0,"logprobs":5,"n":8,"stop":"x","seed":1,"stream":true,)"
             R"("stream_options":{"include_usage":true},"echo":false,"suffix":"","best_of":1,"user":"u","priority":1,)"
             R"("deadline_s":9,"ignore_eos":true,"method":"dense")");
    ASSERT_TRUE(request.is_ok()) << request.error().message;
    EXPECT_EQ(request->options.tokens_max, 3);
    EXPECT_TRUE(request->tokens_max_given);
    EXPECT_EQ(request->options.sampling.logprobs, 5);
    EXPECT_EQ(request->n, 8);
    EXPECT_TRUE(request->include_usage);
    EXPECT_EQ(request->method, "dense");
    EXPECT_TRUE(request->options.check(100).is_ok());
    expect_numbers_checked({{"logprobs", {"0", "20"}, {"-1", "21", "2147483647", "1.5"}, "0 to 20"},
                            {"max_tokens", {"1"}, {"0", "-1", "2147483647"}, "1 to 16777216"}},
                           with);
}

TEST(CompletionRequest, RefusesWhatItDoesNotSupportByName) {
    expect_refused({{R"("echo":true)", "echo", "not supported"},
                    {R"("suffix":"x")", "suffix", "not supported"},
                    {R"("best_of":2)", "best_of", "not supported"},
                    {R"("messages":[])", "messages", "not a field"},
                    {R"("max_completion_tokens":1)", "max_completion_tokens", "not a field"}},
                   with);
}

}  // namespace
}  // namespace rondo

#include <gtest/gtest.h>

#include "actors/gateway/bodies/completion_request.hpp"
#include "config/limits.hpp"
#include "tests/actors/api_request_rows.hpp"

namespace rondo {
namespace {

ApiResult<CompletionRequest> completion_with(const std::string& member) {
    return parse_completion_request(R"({"prompt":"Hi",)" + member + "}", 100);
}

ApiResult<CompletionRequest> prompting(const std::string& prompt) {
    return parse_completion_request(R"({"prompt":)" + prompt + "}", 100);
}

TEST(CompletionRequest, MeansByAbsentFieldsWhatOpenAiMeans) {
    const auto request = prompting("\"Hi\"");
    ASSERT_TRUE(request.is_ok()) << request.error().message;
    ASSERT_EQ(request->prompts.size(), 1U);
    EXPECT_EQ(std::get<std::string>(request->prompts[0]), "Hi");
    EXPECT_FALSE(request->echo);
    EXPECT_EQ(request->options.tokens_max, 16);
    EXPECT_FALSE(request->tokens_max_given);
    EXPECT_FLOAT_EQ(request->options.sampling.temperature, 1.0F);
    EXPECT_EQ(request->options.sampling.logprobs, -1);
}

TEST(CompletionRequest, TakesPromptsAsTextsOrIds) {
    using Ids = std::vector<int32_t>;
    EXPECT_EQ(prompting(R"(["Hi"])")->prompts, (std::vector<CompletionRequest::Prompt>{"Hi"}));
    EXPECT_EQ(prompting(R"(["a","b"])")->prompts, (std::vector<CompletionRequest::Prompt>{"a", "b"}));
    EXPECT_EQ(prompting("[0,99,5]")->prompts, (std::vector<CompletionRequest::Prompt>{Ids{0, 99, 5}}));
    EXPECT_EQ(prompting("[[1],[2,3]]")->prompts, (std::vector<CompletionRequest::Prompt>{Ids{1}, Ids{2, 3}}));
    std::string many = "[\"a\"";
    for (size_t i = 0; i < limits::prompts_max; ++i) many += ",\"a\"";
    expect_refused({{"null", "prompt", "missing"},
                    {"1", "prompt", "token ids"},
                    {"{}", "prompt", "token ids"},
                    {"\"\"", "prompt", "at least one"},
                    {"[]", "prompt", "at least one"},
                    {"[\"\"]", "prompt[0]", "at least one"},
                    {R"(["a",""])", "prompt[1]", "at least one"},
                    {"[[1],[]]", "prompt[1]", "at least one"},
                    {R"(["a",[1]])", "prompt[1]", "another type"},
                    {R"([[1],"a"])", "prompt[1]", "another type"},
                    {"[[1],2]", "prompt[1]", "another type"},
                    {"[[1],[2,100]]", "prompt[1][1]", "0 to 99"},
                    {"[[1],[\"a\"]]", "prompt[1][0]", "0 to 99"},
                    {many + "]", "prompt", "1 to 64"},
                    {"[1,100]", "prompt[1]", "0 to 99"},
                    {"[-1]", "prompt[0]", "0 to 99"},
                    {"[1,2147483647]", "prompt[1]", "0 to 99"},
                    {"[4294967296]", "prompt[0]", "0 to 99"},
                    {"[1,\"a\"]", "prompt[1]", "0 to 99"},
                    {"[1.5]", "prompt[0]", "whole number"},
                    {"[null]", "prompt[0]", "0 to 99"}},
                   prompting);
    const auto nine = [](const std::string& n) {
        return parse_completion_request(R"({"prompt":["a","a","a","a","a","a","a","a","a"],"n":)" + n + "}", 100);
    };
    EXPECT_TRUE(nine("7").is_ok());
    expect_refused({{"8", "n", "up to 64 answers in all"}}, nine);
}

TEST(CompletionRequest, SharesTheFieldsOfEveryAnswer) {
    const auto request = completion_with(
        R"("model":"m","max_tokens":3,"temperature":0,"logprobs":5,"n":8,"stop":"x","seed":1,"stream":true,)"
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
                           completion_with);
    EXPECT_TRUE(completion_with(R"("echo":true,"min_tokens":16)")->echo);
}

TEST(CompletionRequest, RefusesWhatItDoesNotSupportByName) {
    expect_refused({{R"("echo":true,"logprobs":0)", "echo", "of answers only"},
                    {R"("echo":1)", "echo", "true or false"},
                    {R"("min_tokens":17)", "min_tokens", "which is 16"},
                    {R"("suffix":"x")", "suffix", "not supported"},
                    {R"("best_of":2)", "best_of", "not supported"},
                    {R"("messages":[])", "messages", "not a field"},
                    {R"("max_completion_tokens":1)", "max_completion_tokens", "not a field"}},
                   completion_with);
}

}  // namespace
}  // namespace rondo

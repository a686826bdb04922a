#include <gtest/gtest.h>

#include "actors/gateway/bodies/chat_messages.hpp"
#include "actors/gateway/bodies/chat_request.hpp"
#include "config/limits.hpp"
#include "tests/actors/api_request_rows.hpp"

namespace rondo {
namespace {

/// A right body with one more member.
ApiResult<ChatRequest> chat_with(const std::string& member) {
    return parse_chat_request(R"({"model":"demo","messages":[{"role":"user","content":"Hi"}],)" + member + "}",
                              vocabulary);
}

TEST(ChatRequest, MeansByAbsentFieldsWhatOpenAiMeans) {
    const ChatRequest request =
        accepted(parse_chat_request(R"({"messages":[{"role":"user","content":"Hi"}]})", vocabulary));
    ASSERT_EQ(request.messages.size(), 1U);
    EXPECT_EQ(request.messages[0].role, "user");
    EXPECT_EQ(request.messages[0].content, "Hi");
    EXPECT_EQ(request.model, "");
    EXPECT_FLOAT_EQ(request.options.sampling.temperature, 1.0F);
    EXPECT_FLOAT_EQ(request.options.sampling.top_p, 1.0F);
    EXPECT_EQ(request.options.sampling.logprobs, -1);
    EXPECT_FALSE(request.tokens_max_given);
    EXPECT_FALSE(request.seed_given);
    EXPECT_EQ(request.n, 1);
    EXPECT_FALSE(request.stream);
    EXPECT_FALSE(request.include_usage);
    EXPECT_EQ(request.conversation, "");
    EXPECT_EQ(request.priority, 0);
    EXPECT_EQ(request.deadline_s, 0.0);
    EXPECT_EQ(request.method, "");
}

TEST(ChatRequest, ReadsEveryField) {
    const ChatRequest request = accepted(chat_with(
        R"("max_tokens":7,"max_completion_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":5,"min_p":0.125,)"
        R"("repetition_penalty":1.5,"presence_penalty":-1,"frequency_penalty":2,"seed":-3,"stop":["a","b"],"n":2,)"
        R"("stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"logprobs":true,)"
        R"("top_logprobs":4,"logit_bias":{"0":-100,"99":1.5},"ignore_eos":true,"priority":-10,"deadline_s":0.5,)"
        R"("method":"round_top-k","response_format":{"type":"text"},"tools":[],"tool_choice":"none",)"
        R"("parallel_tool_calls":false,"modalities":["text"],"user":"u","metadata":{"a":"b"},"store":false,)"
        R"("service_tier":"auto","safety_identifier":"s","prompt_cache_key":"k","prompt_cache_retention":"24h")"));
    const SamplingParams& sampling = request.options.sampling;
    EXPECT_EQ(request.model, "demo");
    EXPECT_EQ(request.options.tokens_max, 7);
    EXPECT_TRUE(request.tokens_max_given);
    EXPECT_FLOAT_EQ(sampling.temperature, 0.5F);
    EXPECT_FLOAT_EQ(sampling.top_p, 0.25F);
    EXPECT_EQ(sampling.top_k, 5);
    EXPECT_FLOAT_EQ(sampling.min_p, 0.125F);
    EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.5F);
    EXPECT_FLOAT_EQ(sampling.presence_penalty, -1.0F);
    EXPECT_FLOAT_EQ(sampling.frequency_penalty, 2.0F);
    EXPECT_TRUE(request.seed_given);
    EXPECT_EQ(sampling.seed, static_cast<uint64_t>(int64_t{-3}));
    EXPECT_EQ(request.options.stops, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(request.n, 2);
    EXPECT_TRUE(request.stream);
    EXPECT_TRUE(request.include_usage);
    EXPECT_EQ(sampling.logprobs, 4);
    EXPECT_EQ(sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{0, -100.0F}, {99, 1.5F}}));
    EXPECT_TRUE(request.options.ignore_eos);
    EXPECT_EQ(request.priority, -10);
    EXPECT_EQ(request.deadline_s, 0.5);
    EXPECT_EQ(request.method, "round_top-k");
    EXPECT_TRUE(request.options.check(vocabulary).is_ok());
    EXPECT_EQ(accepted(chat_with(R"("conversation":"a/b 日本")")).conversation, "a/b 日本");
    EXPECT_EQ(accepted(chat_with(R"("stop":"END")")).options.stops, std::vector<std::string>{"END"});
    EXPECT_EQ(accepted(chat_with(R"("stop_token_ids":[3,7])")).options.stop_ids, (std::vector<int32_t>{3, 7}));
    EXPECT_EQ(accepted(chat_with(R"("max_completion_tokens":9)")).options.tokens_max, 9);
    EXPECT_EQ(accepted(chat_with(R"("logprobs":true)")).options.sampling.logprobs, 0);
}

TEST(ChatRequest, ChecksTheRangeOfEveryNumber) {
    const std::string tokens = "1 to 16777216";
    const std::vector<NumberField> fields = {
        {"temperature", {"0", "2", "2.0", "-0.0"}, {"-1", "2.0000001", "-1e-9", "2147483647"}, "0 to 2"},
        {"top_p", {"1", "1e-300"}, {"0", "-0.0", "1.0000001", "-1", "2147483647"}, "above 0 to 1"},
        {"top_k", {"0", "-1", "100", "3.0"}, {"-2", "101", "2147483647", "2147483648"}, "0 to 100"},
        {"min_p", {"0", "1"}, {"-1", "1.0000001", "2147483647"}, "0 to 1"},
        {"repetition_penalty", {"0.125", "8"}, {"0", "-1", "0.1249", "8.001", "2147483647"}, "0.125 to 8"},
        {"presence_penalty", {"-2", "2"}, {"-2.001", "2.001", "2147483647"}, "-2 to 2"},
        {"frequency_penalty", {"-2", "2"}, {"-2.001", "2.001", "2147483647"}, "-2 to 2"},
        {"seed",
         {"0", "-9223372036854775808", "9223372036854775807", "1e3"},
         {"9223372036854775808", "18446744073709551615", "-9223372036854775809", "1.5"},
         "-9223372036854775808 to 9223372036854775807"},
        {"max_tokens", {"1", "16777216"}, {"0", "-1", "16777217", "2147483647", "1.5"}, tokens},
        {"max_completion_tokens", {"1", "16777216"}, {"0", "-1", "16777217", "2147483647"}, tokens},
        {"n", {"1", "8"}, {"0", "-1", "9", "2147483647", "1.5"}, "1 to 8"},
        {"top_logprobs", {"0"}, {"-1", "21", "2147483647"}, "0 to 20"},
        {"min_tokens", {"0", "16777216"}, {"-1", "16777217", "2147483647000", "1.5"}, "0 to 16777216"},
        {"priority", {"-10", "10"}, {"-11", "11", "2147483647", "-2147483648"}, "-10 to 10"},
        {"deadline_s", {"0.001", "86400"}, {"0", "-1", "86400.1", "2147483647"}, "above 0 to 86400"}};
    expect_numbers_checked(fields, chat_with);
}

TEST(ChatRequest, SaysWhatWasGivenAndWhatWouldBeRight) {
    EXPECT_EQ(chat_with(R"("n":9)").error().message, "n is 9, must be 1 to 8");
    EXPECT_EQ(chat_with(R"("n":2.5)").error().message, "n is 2.5, must be a whole number from 1 to 8");
    EXPECT_EQ(chat_with(R"("temperature":2.0000001)").error().message, "temperature is 2.0000001, must be 0 to 2");
    EXPECT_EQ(chat_with(R"("temperature":1e308)").error().message, "temperature is 1e+308, must be 0 to 2");
    EXPECT_EQ(chat_with(R"("top_p":"secret words")").error().message, "top_p is a string, must be above 0 to 1");
}

TEST(ChatRequest, NamesTheFieldOfAWrongType) {
    std::vector<WrongMember> rows;
    for (const char* flag : {"stream", "logprobs", "ignore_eos"}) {
        for (const char* value : {"1", "\"true\"", "[]", "{}"}) {
            rows.push_back({"\"" + std::string(flag) + "\":" + value, flag, "true or false"});
        }
    }
    for (const char* text : {"user", "conversation", "method", "safety_identifier", "prompt_cache_key",
                             "prompt_cache_retention", "service_tier"}) {
        for (const char* value : {"1", "true", "[]", "{}"}) {
            rows.push_back({"\"" + std::string(text) + "\":" + value, text, ""});
        }
    }
    for (const char* value : {"1", "true", "\"x\"", "[]"}) {
        for (const char* object : {"logit_bias", "metadata", "response_format"}) {
            rows.push_back({"\"" + std::string(object) + "\":" + value, object, ""});
        }
        rows.push_back({R"("stream":true,"stream_options":)" + std::string(value), "stream_options", ""});
    }
    expect_refused(rows, chat_with);
}

TEST(ChatRequest, TakesNullForAbsent) {
    for (const char* name : {"model",
                             "stream",
                             "stream_options",
                             "stop",
                             "logit_bias",
                             "logprobs",
                             "response_format",
                             "tools",
                             "tool_choice",
                             "functions",
                             "function_call",
                             "parallel_tool_calls",
                             "modalities",
                             "user",
                             "metadata",
                             "store",
                             "service_tier",
                             "safety_identifier",
                             "prompt_cache_key",
                             "conversation",
                             "ignore_eos",
                             "method",
                             "min_tokens",
                             "skip_special_tokens",
                             "chat_template_kwargs",
                             "reasoning_effort",
                             "verbosity",
                             "audio"}) {
        const auto request = parse_chat_request(
            R"({"messages":[{"role":"user","content":"Hi"}],")" + std::string(name) + "\":null}", vocabulary);
        EXPECT_TRUE(request.is_ok()) << name << ": " << request.error().message;
    }
    EXPECT_EQ(parse_chat_request(R"({"messages":null})", vocabulary).error().code, "missing_required_parameter");
}

/// Clients write it for what a newer API has and they do not use.
TEST(ChatRequest, TakesNullForAnyFieldThatIsNotThere) {
    const auto request = parse_chat_request(
        R"({"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":null}],"context":null}],)"
        R"("stream":true,"stream_options":{"x":null},"moderation":null})",
        vocabulary);
    EXPECT_TRUE(request.is_ok()) << request.error().message;
    EXPECT_EQ(parse_chat_request(R"({"messages":[{"role":"user","content":"Hi"}],"moderation":false})", vocabulary)
                  .error()
                  .param,
              "moderation");
}

TEST(ChatRequest, RefusesWhatItDoesNotSupportByName) {
    expect_refused({{R"("functions":[{"name":"f"}])", "functions", "not supported"},
                    {R"("function_call":{"name":"f"})", "function_call", "not supported"},
                    {R"("verbosity":"low")", "verbosity", "not supported"},
                    {R"("add_generation_prompt":false)", "add_generation_prompt", "not supported"},
                    {R"("continue_final_message":true)", "continue_final_message", "not supported"},
                    {R"("include_stop_str_in_output":true)", "include_stop_str_in_output", "not supported"},
                    {R"("modalities":["text","audio"])", "modalities", "not supported"},
                    {R"("modalities":[])", "modalities", "not supported"},
                    {R"("audio":{"voice":"x"})", "audio", "not supported"},
                    {R"("prediction":{})", "prediction", "not supported"},
                    {R"("reasoning_effort":"great")", "reasoning_effort", "minimal, low"},
                    {R"("reasoning_effort":1)", "reasoning_effort", "a string"},
                    {R"("store":1)", "store", "true or false"},
                    {R"("service_tier":"flex")", "service_tier", "auto or default"},
                    {R"("temprature":1)", "temprature", "not a field"},
                    {R"("stream":true,"stream_options":{"x":1})", "stream_options.x", "not a field"}},
                   chat_with);
}

TEST(ChatRequest, ChecksFieldsAgainstEachOther) {
    expect_refused({{R"("max_tokens":5,"max_completion_tokens":6)", "max_completion_tokens", "one of the two"},
                    {R"("top_logprobs":1)", "top_logprobs", "logprobs"},
                    {R"("logprobs":false,"top_logprobs":1)", "top_logprobs", "logprobs"},
                    {R"("stream_options":{"include_usage":true})", "stream_options", "without stream"},
                    {R"("n":2,"conversation":"a")", "n", "must be 1"}},
                   chat_with);
}

TEST(ChatRequest, BoundsItsLists) {
    std::string stops = "\"stop\":[\"a\"", biases = R"("logit_bias":{)";
    for (size_t i = 0; i < limits::stop_strings_max; ++i) stops += ",\"a\"";
    for (size_t i = 0; i <= limits::logit_bias_entries_max; ++i) {
        biases += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
    }
    const std::string long_stop(limits::stop_string_bytes_max + 1, 'a');
    expect_refused({{stops + "]", "stop", "up to 16 items"},
                    {R"("stop":"")", "stop", "1 to 256"},
                    {R"("stop":[])" + std::string(R"(,"stop2":1)"), "stop2", ""},
                    {R"("stop":["a",""])", "stop[1]", "1 to 256"},
                    {R"("stop":")" + long_stop + "\"", "stop", "1 to 256"},
                    {R"("stop":[1])", "stop", "list of strings"},
                    {R"("stop":{})", "stop", "list of strings"},
                    {R"("stop":1)", "stop", "list of strings"},
                    {R"("stop_token_ids":[1,-1])", "stop_token_ids[1]", "0 to"},
                    {R"("stop_token_ids":7)", "stop_token_ids", "a list of up to 64 items"},
                    {biases + "}", "logit_bias", "0 to 1024"},
                    {R"("logit_bias":{"100":1})", "logit_bias", "0 to 99"},
                    {R"("logit_bias":{"-1":1})", "logit_bias", "0 to 99"},
                    {R"("logit_bias":{"01":1})", "logit_bias", "0 to 99"},
                    {R"("logit_bias":{"":1})", "logit_bias", "0 to 99"},
                    {R"("logit_bias":{"4294967297":1})", "logit_bias", "0 to 99"},
                    {R"("logit_bias":{"1x":1})", "logit_bias", "0 to 99"},
                    {R"("logit_bias":{"1":100.1})", "logit_bias.1", "-100 to 100"},
                    {R"("logit_bias":{"1":-1e308})", "logit_bias.1", "-100 to 100"},
                    {R"("logit_bias":{"1":null})", "logit_bias.1", "-100 to 100"},
                    {R"("conversation":"")", "conversation", "1 to 256"},
                    {R"("conversation":"a\u0000b")", "conversation", "printable"},
                    {R"("conversation":")" + std::string(257, 'a') + "\"", "conversation", "1 to 256"},
                    {R"("method":"")", "method", "1 to 64"},
                    {R"("method":"../x")", "method", "1 to 64"},
                    {R"("method":{"name":""})", "method.name", "1 to 64"},
                    {R"("method":{"budget_tokens":0})", "method.budget_tokens", "1 to 16777216"},
                    {R"("method":{"budget_tokens":1e300})", "method.budget_tokens", "1 to 16777216"},
                    {R"("method":{"budget":64})", "method.budget", "not a field"},
                    {R"("max_tokens":5,"min_tokens":6)", "min_tokens", "0 to max_tokens, which is 5"},
                    {R"("user":")" + std::string(1025, 'a') + "\"", "user", "1024"}},
                   chat_with);
}

/// By their own words, or for want of anything to change.
TEST(ChatRequest, TakesWhatChangesNothing) {
    for (const char* member :
         {R"("store":true,"metadata":{"a":"b"})", R"("verbosity":"medium")", R"("parallel_tool_calls":true)",
          R"("functions":[{"name":"f"}],"function_call":"none")", R"("tool_choice":"auto")", R"("tool_choice":"none")",
          R"("tools":[],"tool_choice":"auto")", R"("add_generation_prompt":true,"continue_final_message":false)",
          R"("include_stop_str_in_output":false,"echo":false)"}) {
        const ChatRequest request = accepted(chat_with(member));
        EXPECT_EQ(request.messages.size(), 1U) << member;
        EXPECT_EQ(request.for_template.variables.size(), 0U) << member;
    }
}

TEST(ChatRequest, ReadsAMethodWithItsBudget) {
    const ChatRequest both = accepted(chat_with(R"("method":{"name":"snapkv","budget_tokens":64})"));
    EXPECT_EQ(both.method, "snapkv");
    EXPECT_EQ(both.budget_tokens, 64);
    const ChatRequest configured = accepted(chat_with(R"("method":{"budget_tokens":64})"));
    EXPECT_EQ(configured.method, "");
    EXPECT_EQ(configured.budget_tokens, 64);
    EXPECT_EQ(accepted(chat_with(R"("method":"snapkv")")).budget_tokens, 0);
    EXPECT_EQ(accepted(chat_with(R"("method":{"name":"snapkv","budget_tokens":null})")).budget_tokens, 0);
}

TEST(ChatRequest, ReadsWhenAnswersMayEndAndHowTheyAreWritten) {
    const ChatRequest request = accepted(chat_with(R"("min_tokens":5,"max_tokens":5,"skip_special_tokens":false)"));
    EXPECT_EQ(request.options.tokens_min, 5);
    EXPECT_TRUE(request.options.special_text);
    EXPECT_FALSE(accepted(chat_with(R"("skip_special_tokens":true)")).options.special_text);
    EXPECT_EQ(accepted(chat_with(R"("min_tokens":5000)")).options.tokens_min, 5000) << "as long as the context allows";
}

TEST(ChatRequest, BoundsWhatItGivesTheTemplate) {
    std::string many = R"("chat_template_kwargs":{"a":0)", deep = R"("chat_template_kwargs":{"a":)";
    for (size_t i = 0; i < limits::template_variables_max; ++i) many += ",\"a" + std::to_string(i) + "\":1";
    deep += std::string(limits::template_variables_depth_max, '[') +
            std::string(limits::template_variables_depth_max, ']') + "}";
    const std::string large =
        R"("chat_template_kwargs":{"a":")" + std::string(limits::template_variables_bytes_max, 'a') + "\"}";
    std::vector<WrongMember> rows{{many + "}", "chat_template_kwargs", "too large"},
                                  {deep, "chat_template_kwargs", "too large"},
                                  {large, "chat_template_kwargs", "too large"},
                                  {R"("chat_template_kwargs":[])", "chat_template_kwargs", "an object"},
                                  {R"("chat_template_kwargs":"x")", "chat_template_kwargs", "an object"}};
    for (const char* name : {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token",
                             "pad_token", "additional_special_tokens", "raise_exception", "range", "namespace",
                             "strftime_now", "loop", "none", "chat_template"}) {
        rows.push_back({R"("chat_template_kwargs":{")" + std::string(name) + "\":1}",
                        "chat_template_kwargs." + std::string(name), "by the server alone"});
    }
    expect_refused(rows, chat_with);
    EXPECT_EQ(accepted(chat_with(R"("chat_template_kwargs":{"enable_thinking":false})")).for_template.variables.dump(),
              R"({"enable_thinking":false})");
}

}  // namespace
}  // namespace rondo

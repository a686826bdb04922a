#include <gtest/gtest.h>

#include "actors/api/chat_request.hpp"
#include "config/limits.hpp"
#include "tests/actors/api_request_rows.hpp"

namespace rondo {
namespace {

constexpr int64_t vocabulary = 100;

/// A right body with one more member.
ApiResult<ChatRequest> with(const std::string& member) {
    return parse_chat_request(R"({"model":"demo","messages":[{"role":"user","content":"Hi"}],)" + member + "}",
                              vocabulary);
}

/// A body whose messages are these.
ApiResult<ChatRequest> saying(const std::string& messages) {
    return parse_chat_request(R"({"messages":)" + messages + "}", vocabulary);
}

ChatRequest accepted(const ApiResult<ChatRequest>& request) {
    EXPECT_TRUE(request.is_ok()) << request.error().message;
    return request ? *request : ChatRequest{};
}

TEST(ChatRequest, MeansByAbsentFieldsWhatOpenAiMeans) {
    const ChatRequest request = accepted(saying(R"([{"role":"user","content":"Hi"}])"));
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
    const ChatRequest request = accepted(
        with(R"("max_tokens":7,"max_completion_tokens":7,"temperature":0.5,"top_p":0.25,"top_k":5,"min_p":0.125,)"
             R"("repetition_penalty":1.5,"presence_penalty":-1,"frequency_penalty":2,"seed":-3,"stop":["a","b"],"n":2,)"
             R"("stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"logprobs":true,)"
             R"("top_logprobs":4,"logit_bias":{"0":-100,"99":1.5},"ignore_eos":true,"priority":-10,"deadline_s":0.5,)"
             R"("method":"round_top-k","response_format":{"type":"text"},"tools":[],"tool_choice":"none",)"
             R"("parallel_tool_calls":false,"modalities":["text"],"user":"u","metadata":{"a":"b"},"store":false,)"
             R"("service_tier":"auto","safety_identifier":"s","prompt_cache_key":"k")"));
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
    EXPECT_EQ(accepted(with(R"("conversation":"a/b 日本")")).conversation, "a/b 日本");
    EXPECT_EQ(accepted(with(R"("stop":"END")")).options.stops, std::vector<std::string>{"END"});
    EXPECT_EQ(accepted(with(R"("stop_token_ids":[3,7])")).options.stop_ids, (std::vector<int32_t>{3, 7}));
    EXPECT_EQ(accepted(with(R"("max_completion_tokens":9)")).options.tokens_max, 9);
    EXPECT_EQ(accepted(with(R"("logprobs":true)")).options.sampling.logprobs, 0);
}

TEST(ChatRequest, ChecksTheRangeOfEveryNumber) {
    const std::string tokens = "1 to 16777216";
    const std::vector<NumberField> fields = {
        {"temperature", {"0", "2", "2.0", "-0.0"}, {"-1", "2.0000001", "-1e-9", "2147483647"}, "0 to 2"},
        {"top_p", {"1", "1e-300"}, {"0", "-0.0", "1.0000001", "-1", "2147483647"}, "above 0 to 1"},
        {"top_k", {"0", "100", "3.0"}, {"-1", "101", "2147483647", "2147483648"}, "0 to 100"},
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
        {"priority", {"-10", "10"}, {"-11", "11", "2147483647", "-2147483648"}, "-10 to 10"},
        {"deadline_s", {"0.001", "86400"}, {"0", "-1", "86400.1", "2147483647"}, "above 0 to 86400"}};
    expect_numbers_checked(fields, with);
}

TEST(ChatRequest, SaysWhatWasGivenAndWhatWouldBeRight) {
    EXPECT_EQ(with(R"("n":9)").error().message, "n is 9; 1 to 8 would be right");
    EXPECT_EQ(with(R"("n":2.5)").error().message, "n is 2.5; a whole number from 1 to 8 would be right");
    EXPECT_EQ(with(R"("temperature":2.0000001)").error().message, "temperature is 2.0000001; 0 to 2 would be right");
    EXPECT_EQ(with(R"("temperature":1e308)").error().message, "temperature is 1e+308; 0 to 2 would be right");
    EXPECT_EQ(with(R"("top_p":"secret words")").error().message, "top_p is a string; above 0 to 1 would be right");
}

TEST(ChatRequest, NamesTheFieldOfAWrongType) {
    std::vector<WrongMember> rows;
    for (const char* flag : {"stream", "logprobs", "ignore_eos"}) {
        for (const char* value : {"1", "\"true\"", "[]", "{}"}) {
            rows.push_back({"\"" + std::string(flag) + "\":" + value, flag, "true or false"});
        }
    }
    for (const char* text :
         {"user", "conversation", "method", "safety_identifier", "prompt_cache_key", "service_tier"}) {
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
    expect_refused(rows, with);
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
                             "audio"}) {
        const auto request = parse_chat_request(
            R"({"messages":[{"role":"user","content":"Hi"}],")" + std::string(name) + "\":null}", vocabulary);
        EXPECT_TRUE(request.is_ok()) << name << ": " << request.error().message;
    }
    EXPECT_EQ(saying("null").error().code, "missing_required_parameter");
}

TEST(ChatRequest, RefusesWhatItDoesNotSupportByName) {
    expect_refused({{R"("response_format":{"type":"json_object"})", "response_format.type", "not supported"},
                    {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format.type", ""},
                    {R"("response_format":{"type":"text","strict":true})", "response_format.strict", ""},
                    {R"("tools":[{"type":"function"}])", "tools", "not supported"},
                    {R"("tool_choice":"auto")", "tool_choice", "not supported"},
                    {R"("functions":[{"name":"f"}])", "functions", "not supported"},
                    {R"("function_call":{"name":"f"})", "function_call", "not supported"},
                    {R"("parallel_tool_calls":true)", "parallel_tool_calls", "not supported"},
                    {R"("modalities":["text","audio"])", "modalities", "not supported"},
                    {R"("modalities":[])", "modalities", "not supported"},
                    {R"("audio":{"voice":"x"})", "audio", "not supported"},
                    {R"("prediction":{})", "prediction", "not supported"},
                    {R"("reasoning_effort":"low")", "reasoning_effort", "not supported"},
                    {R"("store":true)", "store", "not supported"},
                    {R"("service_tier":"flex")", "service_tier", "auto or default"},
                    {R"("temprature":1)", "temprature", "not a field"},
                    {R"("stream":true,"stream_options":{"x":1})", "stream_options.x", "not a field"}},
                   with);
}

TEST(ChatRequest, ChecksFieldsAgainstEachOther) {
    expect_refused({{R"("max_tokens":5,"max_completion_tokens":6)", "max_completion_tokens", "one of the two"},
                    {R"("top_logprobs":1)", "top_logprobs", "logprobs"},
                    {R"("logprobs":false,"top_logprobs":1)", "top_logprobs", "logprobs"},
                    {R"("stream_options":{"include_usage":true})", "stream_options", "without stream"},
                    {R"("n":2,"conversation":"a")", "n", "1 would be right"}},
                   with);
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
                    {R"("user":")" + std::string(1025, 'a') + "\"", "user", "1024"}},
                   with);
}

TEST(ChatRequest, ReadsEveryRoleAndKindOfContent) {
    const ChatRequest request = accepted(
        saying(R"([{"role":"developer","content":"d"},{"role":"system","content":""},{"role":"user","content":)"
               R"([{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null},)"
               R"({"role":"assistant","refusal":null,"tool_calls":[],"annotations":[],"function_call":null},)"
               R"({"role":"tool","tool_call_id":"1","content":"t"}])"));
    ASSERT_EQ(request.messages.size(), 6U);
    const std::vector<std::pair<std::string, std::string>> right = {
        {"system", "d"}, {"system", ""}, {"user", "a\nb"}, {"assistant", ""}, {"assistant", ""}, {"tool", "t"}};
    for (size_t i = 0; i < right.size(); ++i) {
        EXPECT_EQ(request.messages[i].role, right[i].first) << i;
        EXPECT_EQ(request.messages[i].content, right[i].second) << i;
    }
}

TEST(ChatRequest, NamesTheMessageThatIsWrong) {
    std::string many = "[";
    for (size_t i = 0; i <= limits::messages_max; ++i) many += R"({"role":"user","content":"x"},)";
    many.back() = ']';
    const std::string user = R"({"role":"user","content":)";
    expect_refused({{"[]", "messages", "at least one"},
                    {"{}", "messages", "a list"},
                    {"\"x\"", "messages", "a list"},
                    {"[1]", "messages[0]", "a message"},
                    {"[null]", "messages[0]", "a message"},
                    {many, "messages", "up to 16384"},
                    {R"([{"content":"x"}])", "messages[0].role", "system, developer"},
                    {R"([{"role":"root","content":"x"}])", "messages[0].role", "system, developer"},
                    {R"([{"role":1,"content":"x"}])", "messages[0].role", ""},
                    {R"([{"role":"user"}])", "messages[0].content", "a string"},
                    {"[" + user + "null}]", "messages[0].content", "a string"},
                    {"[" + user + "1}]", "messages[0].content", "a string"},
                    {"[" + user + "[]}]", "messages[0].content", "text parts"},
                    {"[" + user + "\"a\"}," + user + "[\"x\"]}]", "messages[1].content[0]", "a text part"},
                    {"[" + user + R"([{"type":"image_url","image_url":{"url":"x"}}]}])", "messages[0].content[0].type",
                     "image_url"},
                    {"[" + user + R"([{"type":"input_audio"}]}])", "messages[0].content[0].type", "input_audio"},
                    {"[" + user + R"([{"type":"text"}]}])", "messages[0].content[0].text", "missing"},
                    {"[" + user + R"([{"text":"x"}]}])", "messages[0].content[0].type", "missing"},
                    {"[" + user + R"([{"type":"text","text":1}]}])", "messages[0].content[0].text", "a string"},
                    {"[" + user + R"([{"type":"text","text":"x","y":1}]}])", "messages[0].content[0].y", ""},
                    {"[" + user + R"("x","weight":1}])", "messages[0].weight", "not a field"},
                    {"[" + user + R"("x","name":"Ann"}])", "messages[0].name", "not supported"},
                    {R"([{"role":"assistant","tool_calls":[{"id":"1"}]}])", "messages[0].tool_calls", "not supported"}},
                   saying);
}

TEST(ChatRequest, NeverRepeatsWhatWasSaid) {
    const std::string secret = "canary-7f3a";
    for (const std::string& body :
         {R"([{"role":")" + secret + R"(","content":"x"}])", R"([{"role":"user","content":[")" + secret + R"("]}])",
          R"([{"role":"user","content":[{"type":")" + secret + R"("}]}])",
          R"([{"role":"user","content":")" + secret + R"("}],"n":9)",
          R"([{"role":"user","content":"x"}],"stop":[")" + secret + std::string(300, 'x') + "\"]",
          R"([{"role":"user","content":"x"}],"conversation":")" + secret + "\\n\"",
          R"([{"role":"user","content":"x"}],"service_tier":")" + secret + "\"",
          R"([{"role":"user","content":"x"}],"seed":")" + secret + "\"", R"([{"role":"user","content":")" + secret}) {
        const auto request = saying(body);
        ASSERT_FALSE(request.is_ok()) << body;
        EXPECT_EQ(request.error().body().find(secret), std::string::npos) << request.error().message;
    }
}

}  // namespace
}  // namespace rondo

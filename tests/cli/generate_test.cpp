#include <algorithm>

#include "tests/cli/rondo_process.hpp"
#include "tests/model/golden_models.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using testing::expect_failure;
using ::testing::HasSubstr;
using testing::run_json;
using testing::run_rondo;
using testing::TemporaryFolder;

using Strings = std::vector<std::string>;
using Ids = std::vector<int32_t>;

constexpr const char* question = "The code of the red box is 4817. What is the code of the red box?";
constexpr int32_t end_of_answer = 636;  // the demo model's

/// The demo model on what follows.
Strings generate(Strings more, int tokens_max = 24) {
    more.insert(more.begin(), {"generate", "--max-tokens", std::to_string(tokens_max)});
    return more;
}

std::string text_of(const Strings& more, int tokens_max = 24) {
    return run_json(generate(more, tokens_max)).at("text");
}

TEST(Generate, JsonHasTheDocumentedFields) {
    const auto json = run_json(generate({"--prompt", "The code"}, 5));
    EXPECT_TRUE(json.at("text").is_string());
    EXPECT_EQ(json.at("ids").get<Ids>().size(), 5U);
    EXPECT_EQ(json.at("finish_reason"), "length");
    EXPECT_EQ(json.at("prompt_ids"), run_json({"tokenize", "--text", "The code"}).at("ids"));
    for (const char* field : {"prefill_s", "decode_s", "prefill_tokens_per_s", "decode_tokens_per_s"}) {
        EXPECT_GT(json.at("timings").at(field).get<double>(), 0.0) << field;
    }
    EXPECT_FALSE(json.contains("logprobs"));
}

TEST(Generate, PlainOutputIsTheTextAndSilentOnAPipe) {
    const auto plain = run_rondo(generate({"--prompt", "The code"}));
    EXPECT_EQ(plain.status, 0);
    EXPECT_EQ(plain.err, "");
    EXPECT_EQ(plain.out, text_of({"--prompt", "The code"}) + "\n");
}

TEST(Generate, PromptTokensAndStandardInputAreTheSamePrompt) {
    const auto prompt = run_json(generate({"--prompt", question}));
    std::string ids;
    for (const int32_t id : prompt.at("prompt_ids").get<Ids>()) ids += (ids.empty() ? "" : ",") + std::to_string(id);
    EXPECT_EQ(run_json(generate({"--tokens", ids})).at("ids"), prompt.at("ids"));
    EXPECT_EQ(run_json(generate({}), question).at("ids"), prompt.at("ids"));
}

TEST(Generate, RoundsOfAChatAreChosen) {
    const TemporaryFolder folder;
    nlohmann::json messages;
    for (const std::string told : {"red box is 4817", "blue box is 2230", "green door is 9911", "black gate is 5555"}) {
        messages.push_back({{"role", "user"}, {"content", "The code of the " + told + "."}});
        messages.push_back({{"role", "assistant"}, {"content", "Noted."}});
    }
    messages.push_back({{"role", "user"}, {"content", "What is the code of the green door?"}});
    folder.write("m.json", messages.dump());
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"--messages", (folder.path() / "m.json").string()});
        return run_json(generate(more));
    };
    const auto dense = with({}), all = with({"--method", "top_rounds", "--set", "pipeline.rounds.share=1"});
    EXPECT_EQ(all.at("ids"), dense.at("ids"));
    const auto some = with({"--method", "top_rounds"}), recent = with({"--method", "recent_rounds", "--logprobs", "0"});
    EXPECT_EQ(some.at("prompt_ids"), dense.at("prompt_ids"));
    EXPECT_EQ(some.at("text"), "The code of the green door is 9911.") << "the right round is chosen";
    EXPECT_NE(recent.at("logprobs"), with({"--logprobs", "0"}).at("logprobs")) << "some rounds are left out";
    expect_failure(run_rondo(generate({"--method", "top_rounds", "--set", "pipeline.rounds.watershed_layer=10"}), "a"),
                   "pipeline.rounds.watershed_layer: is 10; the model has 10 layers, and it must be below that");
}

TEST(Generate, MessagesGoThroughTheChatTemplate) {
    const TemporaryFolder folder;
    folder.write("messages.json", nlohmann::json::array({{{"role", "user"}, {"content", question}}}).dump());
    const auto json = run_json(generate({"--messages", (folder.path() / "messages.json").string()}));
    EXPECT_EQ(json.at("text"), "The code of the red box is 4817.");
    EXPECT_EQ(json.at("finish_reason"), "stop");
    EXPECT_EQ(json.at("ids").back(), end_of_answer);
    const std::string whole = "<|user|>" + std::string(question) + "<|end|><|assistant|>";
    EXPECT_EQ(json.at("prompt_ids"), run_json({"tokenize", "--text", whole}).at("ids"));
}

TEST(Generate, SameSeedSameTextOtherSeedOtherText) {
    const Strings warm = {"--prompt", "The", "--temperature", "1", "--ignore-eos", "--seed"};
    const auto with_seed = [&](const char* seed) {
        Strings arguments = warm;
        arguments.emplace_back(seed);
        return text_of(arguments, 48);
    };
    EXPECT_EQ(with_seed("7"), with_seed("7"));
    EXPECT_NE(with_seed("7"), with_seed("8"));
}

TEST(Generate, StopStringEndsTheTextBeforeIt) {
    const std::string prompt = "<|user|>" + std::string(question) + "<|end|><|assistant|>";
    const std::string whole = text_of({"--prompt", prompt.c_str()});
    ASSERT_GT(whole.size(), 12U);
    const std::string stop = whole.substr(6, 4);
    const auto json = run_json(generate({"--prompt", prompt, "--stop", "never there", "--stop", stop}));
    EXPECT_EQ(json.at("text"), whole.substr(0, whole.find(stop)));
    EXPECT_EQ(json.at("finish_reason"), "stop");
    EXPECT_EQ(text_of({"--prompt", prompt, "--stop", "[" + stop + "]"}), whole) << "brackets make no list";
    const auto all = run_json(generate({"--prompt", prompt})).at("ids").get<Ids>();
    const auto by_id = run_json(generate({"--prompt", prompt, "--stop-id", std::to_string(all[3])}));
    EXPECT_EQ(by_id.at("finish_reason"), "stop");
    EXPECT_EQ(by_id.at("ids").get<Ids>().back(), all[3]);
    EXPECT_LE(by_id.at("ids").size(), 4U);
}

TEST(Generate, ASchemaMakesTheTextJson) {
    const TemporaryFolder folder;
    folder.write("schema.json", R"({"properties":{"code":{"type":"integer","minimum":1000,"maximum":9999},
        "sure":{"type":"boolean"}},"required":["code","sure"]})");
    folder.write("wrong.json", R"({"properties":{"code":{"multipleOf":3}}})");
    const auto made = run_json(generate({"--prompt", question, "--json-schema", folder.path() / "schema.json"}, 100));
    EXPECT_EQ(made.at("finish_reason"), "stop");
    const auto json = nlohmann::json::parse(made.at("text").get<std::string>());
    EXPECT_GE(json.at("code").get<int>(), 1000);
    EXPECT_LE(json.at("code").get<int>(), 9999);
    EXPECT_TRUE(json.at("sure").is_boolean());
    expect_failure(run_rondo(generate({"--json-schema", folder.path() / "wrong.json"})),
                   "wrong.json.properties.code.multipleOf must be left out");
    expect_failure(run_rondo(generate({"--json-schema", "/none.json"})), "/none.json");
}

TEST(Generate, ToolsAreCalledWithArgumentsOfTheirSchema) {
    const TemporaryFolder folder;
    const std::filesystem::path demo = demo_model_path(), model = folder.path() / "model";
    std::filesystem::create_directory(model);
    for (const auto& file : std::filesystem::directory_iterator(demo))
        std::filesystem::create_symlink(file.path(), model / file.path().filename());
    std::filesystem::copy_file(std::filesystem::path(RONDO_SOURCE_DIR) / "tests/fixtures/demo_tools.jinja",
                               model / "chat_template.jinja");
    folder.write("messages.json", R"([{"role":"user","content":"Rain?"}])");
    folder.write("tools.json", R"([{"type":"function","function":{"name":"clock"}},{"type":"function","function":
        {"name":"rain","parameters":{"properties":{"city":{"enum":["Oslo","Rome"]}},"required":["city"]}}}])");
    const auto asking = [&](const std::string& choice) {
        return generate({"--model", model, "--messages", folder.path() / "messages.json", "--tools",
                         folder.path() / "tools.json", "--tool-choice", choice},
                        200);
    };
    const auto called = run_json(asking("rain"));
    EXPECT_EQ(called.at("finish_reason"), "stop");
    ASSERT_EQ(called.at("tool_calls").size(), 1U) << called;
    EXPECT_EQ(called.at("tool_calls")[0].at("name"), "rain");
    EXPECT_TRUE(called.at("tool_calls")[0].at("arguments").at("city").is_string());
    EXPECT_TRUE(called.at("text").get<std::string>().starts_with("<tool_call>\n{\"name\": \"rain\"")) << called;
    EXPECT_EQ(run_json(asking("auto")).at("tool_calls"), nlohmann::json::array());
    EXPECT_FALSE(run_json(asking("none")).contains("tool_calls"));
    expect_failure(run_rondo(asking("date")), "none of");
    expect_failure(
        run_rondo(generate({"--messages", folder.path() / "messages.json", "--tools", folder.path() / "tools.json"})),
        "has no word for them");
    EXPECT_EQ(run_rondo(generate({"--prompt", "a", "--tools", folder.path() / "tools.json"})).status, 2);
}

TEST(Generate, IgnoreEosGoesOn) {
    const std::string prompt = "<|user|>" + std::string(question) + "<|end|><|assistant|>";
    const auto stopped = run_json(generate({"--prompt", prompt}, 40)).at("ids").get<Ids>();
    EXPECT_LT(stopped.size(), 40U);
    EXPECT_EQ(stopped.back(), end_of_answer);
    const auto gone_on = run_json(generate({"--prompt", prompt, "--ignore-eos"}, 40));
    const auto ids = gone_on.at("ids").get<Ids>();
    EXPECT_EQ(gone_on.at("finish_reason"), "length");
    EXPECT_EQ(ids.size(), 40U);
    EXPECT_TRUE(std::equal(stopped.begin(), stopped.end(), ids.begin()));
}

TEST(Generate, LogprobsNameTheLikeliestTokens) {
    const auto json = run_json(generate({"--prompt", "The code", "--logprobs", "3"}, 6));
    const auto ids = json.at("ids").get<Ids>();
    const auto& logprobs = json.at("logprobs");
    ASSERT_EQ(logprobs.size(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(logprobs[i].at("id"), ids[i]);
        const auto& top = logprobs[i].at("top");
        ASSERT_EQ(top.size(), 3U);
        EXPECT_EQ(top[0].at("id"), ids[i]) << "greedy takes the likeliest";
        EXPECT_EQ(top[0].at("logprob"), logprobs[i].at("logprob"));
        EXPECT_LE(top[0].at("logprob").get<double>(), 1e-6);
        EXPECT_GE(top[0].at("logprob"), top[1].at("logprob"));
        EXPECT_GE(top[1].at("logprob"), top[2].at("logprob"));
    }
}

TEST(Generate, EveryKvTypeAndChunkAnswers) {
    const std::string prompt = "<|user|>" + std::string(question) + "<|end|><|assistant|>";
    for (const char* kv : {"bf16", "f32", "int8"}) {
        EXPECT_THAT(text_of({"--prompt", prompt, "--kv", kv}), HasSubstr("4817")) << kv;
    }
    EXPECT_THAT(text_of({"--prompt", prompt, "--chunk", "1"}), HasSubstr("4817"));
    EXPECT_THAT(text_of({"--prompt", prompt, "--chunk", "65536", "--threads", "1"}), HasSubstr("4817"));
}

TEST(Generate, BadPromptsAreRefused) {
    const TemporaryFolder folder;
    const auto messages = [&](const std::string& content) {
        folder.write("m.json", content);
        return run_rondo({"generate", "--messages", (folder.path() / "m.json").string()});
    };
    expect_failure(run_rondo({"generate", "--prompt", ""}, "standard input is not asked"), "empty prompt");
    expect_failure(run_rondo({"generate", "--tokens", ""}, "standard input is not asked"), "empty prompt");
    expect_failure(run_rondo({"generate"}), "empty prompt");
    for (const char* ids : {"1,x", "1,,2", "1,", ",1", "-1", "1.5", "99999999999", "1 2"}) {
        expect_failure(run_rondo({"generate", "--tokens=" + std::string(ids)}), "must be numbers like 1,2,3");
    }
    for (const char* ids : {"640", "1,2,640,3", "2147483647"}) {
        expect_failure(run_rondo({"generate", "--tokens", ids}), "must be 0 to 639");
    }
    expect_failure(run_rondo({"generate", "--prompt", "a\xff\xfe"}), "UTF-8");
    expect_failure(run_rondo({"generate"}, "\xc3"), "UTF-8");
    expect_failure(messages("{"), "not JSON");
    expect_failure(messages("{}"), "not a list");
    expect_failure(messages(std::string(500'000, '[')), "not JSON");
    expect_failure(messages(R"([{"role":"user","content":"a"},{"role":"user"}])"), "message 1");
    expect_failure(messages(R"([{"role":"user","content":7}])"), "message 0");
    expect_failure(messages("[{\"role\":\"user\",\"content\":\"\xff\"}]"), "not JSON");
    expect_failure(run_rondo({"generate", "--messages", "/no/such/file"}), "cannot be read");
    expect_failure(run_rondo({"generate", "--messages", folder.path().string()}), "cannot be read");
    expect_failure(run_rondo({"generate", "--config", folder.path().string(), "--prompt", "a"}), "cannot be read");
}

TEST(Generate, PromptBeyondTheContextIsRefusedAtOnce) {
    std::string ids = "1", text;
    for (int i = 0; i < 4096; ++i) ids += ",1";
    expect_failure(run_rondo({"generate", "--tokens", ids}), "4097 tokens, must be at most the context of 4096");
    while (text.size() < 100'000) text += "Hello there. ";
    expect_failure(run_rondo({"generate"}, text), "must be at most the context of 4096");
    // Not even tokenized: no text of this size can fit.
    expect_failure(run_rondo({"generate"}, std::string(30'000'000, 'a')), "standard input is too long");
    expect_failure(run_rondo({"chat"}, std::string(2'000'000, 'a')), "is too long");
}

/// No text of more bytes than a window's tokens can have is tokenized.
TEST(Generate, ASlidingWindowBoundsTheText) {
    const TemporaryFolder folder;
    auto config = nlohmann::json::parse(golden::read_cases("mistral").at(0).config_json);
    config["sliding_window"] = 32;
    folder.write("config.json", config.dump());
    const auto with_bytes = [&](size_t bytes) {
        return run_rondo({"generate", "--model", folder.path().string(), "--weights", "random:1"},
                         std::string(bytes, 'a'));
    };
    expect_failure(with_bytes(32 * 256 + 1), "standard input is too long");
    expect_failure(with_bytes(32 * 256), "no tokenizer");
}

TEST(Generate, AnswerEndsWhereTheContextDoes) {
    const TemporaryFolder folder;
    folder.write("config.json", golden::read_cases("llama").at(0).config_json);  // whose context holds 256
    std::string ids = "1";
    for (int i = 1; i < 250; ++i) ids += "," + std::to_string(i % 90);
    const auto json = run_json(
        generate({"--model", folder.path().string(), "--weights", "random:1", "--tokens", ids, "--ignore-eos"}, 100));
    EXPECT_EQ(json.at("ids").size(), 7U);  // the last one needs no place
    EXPECT_EQ(json.at("finish_reason"), "length");
}

TEST(Generate, AbsurdSamplingParametersAreRefused) {
    const std::pair<const char*, Strings> absurd[] = {
        {"--temperature", {"-1", "nan", "inf", "1e30"}},
        {"--top-k", {"-1", "2147483647"}},
        {"--top-p", {"-0.1", "1.1", "nan"}},
        {"--min-p", {"-0.1", "1.1", "nan"}},
        {"--repetition-penalty", {"0", "-1", "nan", "1e30"}},
        {"--presence-penalty", {"1e30", "nan"}},
        {"--frequency-penalty", {"-1e30", "nan"}},
        {"--logprobs", {"-2", "21", "2147483647"}},
    };
    for (const auto& [option, values] : absurd) {
        for (const std::string& value : values) {
            SCOPED_TRACE(option + (" " + value));
            expect_failure(run_rondo({"generate", "--json", "--prompt", "a", std::string(option) + "=" + value}),
                           "must be");
        }
    }
    expect_failure(run_rondo({"generate", "--prompt", "a", "--stop", ""}), "stop[0]");
    expect_failure(run_rondo({"generate", "--prompt", "a", "--stop", std::string(257, 'x')}), "stop[0]");
    Strings many = {"generate", "--prompt", "a"};
    for (int i = 0; i < 17; ++i) many.insert(many.end(), {"--stop", "x" + std::to_string(i)});
    expect_failure(run_rondo(many), "stop");
}

}  // namespace
}  // namespace rondo

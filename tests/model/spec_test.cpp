#include "model/files/spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/files/spec_tensors.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Json with(Json json, const std::string& key, Json value) {
    json[key] = std::move(value);
    return json;
}

/// Has as many key-value heads as heads, which only Llama's class says by itself.
Json config(const std::string& architecture) {
    const Json json = {{"architectures", {architecture}}, {"hidden_size", 64},        {"intermediate_size", 96},
                       {"num_hidden_layers", 2},          {"num_attention_heads", 4}, {"vocab_size", 100}};
    return architecture == "LlamaForCausalLM" ? json : with(json, "num_key_value_heads", nullptr);
}

ModelSpec read(const Json& json, const std::string& generation = "") {
    const auto spec = spec_from_hf(json.dump(), generation, "config.json");
    EXPECT_TRUE(spec) << spec.error().message;
    return spec ? *spec : ModelSpec{};
}

std::string error_of(const Json& json, const std::string& generation = "") {
    const auto spec = spec_from_hf(json.dump(), generation, "config.json");
    return spec ? "none" : spec.error().message;
}

TEST(SpecFromHf, AbsentKeysHaveHuggingFacesDefaults) {
    const ModelSpec spec = read(config("LlamaForCausalLM"));
    EXPECT_EQ(spec.architecture, "llama");
    EXPECT_EQ(spec.layers, 2);
    EXPECT_EQ(spec.kv_heads, 4);
    EXPECT_EQ(spec.head_dim, 16);
    EXPECT_EQ(spec.context_tokens, 2048);
    EXPECT_FLOAT_EQ(spec.norm_eps, 1e-6F);
    EXPECT_EQ(spec.rope.theta, 10000.0);
    EXPECT_EQ(spec.rope.scaling, RopeSpec::Scaling::none);
    EXPECT_FALSE(spec.tied_embeddings || spec.attention_bias || spec.output_bias || spec.mlp_bias || spec.qk_norm ||
                 spec.paired_neighbours);
    EXPECT_EQ(spec.sliding_window, 0);
    EXPECT_THAT(spec.eos_ids, ElementsAre(2));
    EXPECT_EQ(spec.bos_id, 1);
    EXPECT_TRUE(read(with(config("LlamaForCausalLM"), "eos_token_id", nullptr)).eos_ids.empty()) << "null is none";
    EXPECT_EQ(read(with(config("MistralForCausalLM"), "bos_token_id", nullptr)).bos_id, -1);
    EXPECT_THAT(read(config("LlamaForCausalLM"), R"({"eos_token_id":7})").eos_ids, ElementsAre(7));
    EXPECT_TRUE(read(config("Qwen2ForCausalLM")).eos_ids.empty());
    EXPECT_EQ(read(config("Qwen3ForCausalLM")).bos_id, -1);
    EXPECT_EQ(read(with(config("LlamaForCausalLM"), "head_dim", nullptr)).head_dim, 16);
}

TEST(SpecFromHf, EachArchitectureHasItsOwnShape) {
    const ModelSpec qwen2 = read(config("Qwen2ForCausalLM"));
    EXPECT_TRUE(qwen2.attention_bias);
    EXPECT_FALSE(qwen2.output_bias);
    const ModelSpec qwen3 = read(config("Qwen3ForCausalLM"));
    EXPECT_TRUE(qwen3.qk_norm);
    EXPECT_FALSE(qwen3.attention_bias);
    EXPECT_EQ(qwen3.head_dim, 128);
    const ModelSpec llama = read(with(with(config("LlamaForCausalLM"), "attention_bias", true), "mlp_bias", true));
    EXPECT_TRUE(llama.attention_bias && llama.output_bias && llama.mlp_bias);
    EXPECT_EQ(read(config("MistralForCausalLM")).sliding_window, 4096);
    EXPECT_EQ(read(with(config("MistralForCausalLM"), "sliding_window", nullptr)).sliding_window, 0);
    EXPECT_EQ(read(with(config("MistralForCausalLM"), "sliding_window", 77)).sliding_window, 77);
    Json windowed = with(config("Qwen2ForCausalLM"), "sliding_window", 77);
    EXPECT_EQ(read(windowed).sliding_window, 0);
    windowed["use_sliding_window"] = true;
    EXPECT_EQ(read(windowed).sliding_window, 0) << "of the first 28 layers none has a window";
    windowed["max_window_layers"] = 1;
    EXPECT_EQ(read(windowed).sliding_window, 77);
    windowed["max_window_layers"] = 2;
    EXPECT_EQ(read(windowed).sliding_window, 0);
    Json by_type = config("x");
    by_type.erase("architectures");
    by_type["model_type"] = "mistral";
    EXPECT_EQ(read(by_type).architecture, "mistral");
}

TEST(SpecFromHf, KeyValueHeadsThatAreNotWrittenAreThoseOfTheClass) {
    const auto absent = [](const std::string& architecture, int heads) {
        Json json = with(with(config(architecture), "num_attention_heads", heads), "hidden_size", 2048);
        json.erase("num_key_value_heads");
        return json;
    };
    EXPECT_EQ(read(absent("LlamaForCausalLM", 64)).kv_heads, 64);
    EXPECT_EQ(read(absent("MistralForCausalLM", 64)).kv_heads, 8);
    EXPECT_EQ(read(absent("Qwen2ForCausalLM", 64)).kv_heads, 32);
    EXPECT_EQ(read(absent("Qwen3ForCausalLM", 64)).kv_heads, 32);
    for (const char* architecture : {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})
        EXPECT_EQ(read(with(absent(architecture, 64), "num_key_value_heads", nullptr)).kv_heads, 64) << architecture;
    EXPECT_THAT(error_of(absent("Qwen2ForCausalLM", 16)), HasSubstr("16 heads cannot share 32"));
}

TEST(SpecFromHf, EndTokensOfBothFilesAreMerged) {
    const Json json = with(with(config("LlamaForCausalLM"), "eos_token_id", 5), "bos_token_id", 3);
    EXPECT_THAT(read(json).eos_ids, ElementsAre(5));
    EXPECT_EQ(read(json).bos_id, 3);
    EXPECT_THAT(read(json, R"({"eos_token_id":[7,5]})").eos_ids, ElementsAre(5, 7));
    EXPECT_THAT(read(with(json, "eos_token_id", {8, 9}), R"({"eos_token_id":null})").eos_ids, ElementsAre(8, 9));
    EXPECT_EQ(error_of(json, R"({"eos_token_id":100})"),
              "config.json (generation_config.json): eos_token_id must be a token id below 100 or a list of up to 64");
    EXPECT_THAT(error_of(with(json, "eos_token_id", -1)), HasSubstr("eos_token_id"));
    EXPECT_THAT(error_of(with(json, "eos_token_id", "x")), HasSubstr("eos_token_id"));
    EXPECT_THAT(error_of(with(json, "eos_token_id", Json(std::vector<int>(65, 1)))), HasSubstr("eos_token_id"));
    EXPECT_THAT(error_of(with(json, "bos_token_id", 100)), HasSubstr("bos_token_id must be an integer from 0 to 99"));
}

TEST(SpecFromHf, RopeScalingIsReadInOldAndNewForm) {
    const Json base = with(config("LlamaForCausalLM"), "rope_theta", 500000);
    const Json llama3 = {{"rope_type", "llama3"},
                         {"factor", 8.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 8192}};
    const RopeSpec old_form = read(with(base, "rope_scaling", llama3)).rope;
    EXPECT_EQ(old_form.theta, 500000.0);
    EXPECT_EQ(old_form.scaling, RopeSpec::Scaling::llama3);
    EXPECT_EQ(old_form.original_context, 8192);
    const RopeSpec new_form =
        read(with(config("LlamaForCausalLM"), "rope_parameters", with(llama3, "rope_theta", 1e6))).rope;
    EXPECT_EQ(new_form.theta, 1e6);
    EXPECT_EQ(new_form.scaling, RopeSpec::Scaling::llama3);
    EXPECT_EQ(read(with(base, "rope_scaling", {{"type", "linear"}, {"factor", 4}})).rope.scaling,
              RopeSpec::Scaling::linear);
    EXPECT_EQ(read(with(base, "rope_scaling", {{"rope_type", "default"}})).rope.scaling, RopeSpec::Scaling::none);
    EXPECT_EQ(read(with(base, "rope_scaling", nullptr)).rope.scaling, RopeSpec::Scaling::none);
    EXPECT_EQ(error_of(with(base, "rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}})),
              "config.json: rope_scaling of type 'yarn' is not supported; default, linear and llama3 are");
    EXPECT_EQ(error_of(with(base, "rope_scaling", {{"type", "linear"}})),
              "config.json: rope_scaling.factor is missing");
    EXPECT_THAT(error_of(with(base, "rope_scaling", {{"type", "linear"}, {"factor", 0}})), HasSubstr("from 1 to"));
    EXPECT_THAT(error_of(with(base, "rope_scaling", with(llama3, "high_freq_factor", 1.0))),
                HasSubstr("greater than low_freq_factor"));
    EXPECT_THAT(error_of(with(base, "rope_scaling", 3)), HasSubstr("rope_scaling must be an object"));
}

TEST(SpecFromHf, WhatWouldComputeSomethingElseIsRefused) {
    EXPECT_EQ(error_of(config("GPT2LMHeadModel")),
              "config.json: architecture 'GPT2LMHeadModel' is not supported; LlamaForCausalLM, MistralForCausalLM, "
              "Qwen2ForCausalLM and Qwen3ForCausalLM are");
    const Json base = config("LlamaForCausalLM");
    EXPECT_EQ(error_of(with(base, "hidden_act", "gelu")), "config.json: hidden_act 'gelu' is not supported; silu is");
    EXPECT_THAT(error_of(with(base, "quantization_config", Json::object())), HasSubstr("quantization_config"));
    EXPECT_THAT(error_of(with(base, "partial_rotary_factor", 0.5)), HasSubstr("partial_rotary_factor"));
    EXPECT_THAT(error_of(with(base, "architectures", Json::array())), HasSubstr("architectures must be a list"));
}

TEST(SpecFromHf, EverySizeIsCheckedForTypeAndRange) {
    for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                            "num_key_value_heads", "vocab_size", "head_dim", "max_position_embeddings"}) {
        for (const Json& bad : {Json(0), Json(-1), Json(INT64_MAX), Json(UINT64_MAX), Json(1e308), Json(4.5), Json("4"),
                                Json(true), Json::array({4})}) {
            EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), key, bad)),
                        HasSubstr(std::string("config.json: ") + key + " must be an integer from "))
                << bad;
        }
    }
    for (const char* key :
         {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"}) {
        Json json = config("LlamaForCausalLM");
        json.erase(key);
        EXPECT_EQ(error_of(json), std::string("config.json: ") + key + " is missing");
    }
    for (const char* key : {"rms_norm_eps", "rope_theta"}) {
        for (const Json& bad : {Json(-1), Json(0), Json(1e308), Json("1")}) {
            EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), key, bad)),
                        HasSubstr(std::string(key) + " must be a number"))
                << bad;
        }
    }
    EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), "tie_word_embeddings", 1)),
                HasSubstr("tie_word_embeddings must be true or false"));
    EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), "num_key_value_heads", 3)),
                HasSubstr("4 heads cannot share 3"));
    EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), "head_dim", 15)), HasSubstr("it must be even"));
    EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), "hidden_size", 63)),
                HasSubstr("a multiple of num_attention_heads"));
}

TEST(SpecFromHf, ANumberThatIsNullIsRefused) {
    for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                            "vocab_size", "max_position_embeddings"}) {
        EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), key, nullptr)),
                    HasSubstr(std::string("config.json: ") + key + " must be an integer from "));
    }
    for (const char* key : {"rms_norm_eps", "rope_theta", "partial_rotary_factor"}) {
        EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), key, nullptr)),
                    HasSubstr(std::string("config.json: ") + key + " must be a number from "));
    }
    for (const char* key : {"tie_word_embeddings", "attention_bias", "mlp_bias"}) {
        EXPECT_EQ(error_of(with(config("LlamaForCausalLM"), key, nullptr)),
                  std::string("config.json: ") + key + " must be true or false");
    }
    EXPECT_EQ(error_of(with(config("LlamaForCausalLM"), "hidden_act", nullptr)),
              "config.json: hidden_act must be a string");
    const Json windowed = with(with(config("Qwen2ForCausalLM"), "use_sliding_window", true), "sliding_window", 77);
    EXPECT_THAT(error_of(with(windowed, "max_window_layers", nullptr)), HasSubstr("max_window_layers must be"));
    EXPECT_THAT(error_of(with(config("Qwen2ForCausalLM"), "use_sliding_window", nullptr)),
                HasSubstr("use_sliding_window must be"));
    // Hugging Face's own class has a number there and computes nothing without it.
    EXPECT_THAT(error_of(with(config("Qwen3ForCausalLM"), "head_dim", nullptr)),
                HasSubstr("head_dim must be an integer"));
}

TEST(SpecFromHf, ANumberOfTheRopeThatIsNullIsRefused) {
    const Json llama3 = {{"rope_type", "llama3"},   {"rope_theta", 1e6},
                         {"factor", 8.0},           {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
    for (const char* object : {"rope_scaling", "rope_parameters"}) {
        ASSERT_EQ(error_of(with(config("LlamaForCausalLM"), object, llama3)), "none");
        for (const auto& [key, value] : llama3.items()) {
            EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), object, with(llama3, key, nullptr))),
                        HasSubstr(std::string("config.json: ") + object + "." + key + " must be "));
        }
        EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), object, with(llama3, "partial_rotary_factor", nullptr))),
                    HasSubstr("partial_rotary_factor must be"));
    }
}

TEST(SpecFromHf, NullIsReadWhereHuggingFaceWritesItForAbsent) {
    for (const char* architecture : {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"}) {
        Json json = config(architecture);
        for (const char* key : {"num_key_value_heads", "head_dim", "sliding_window", "rope_scaling", "rope_parameters",
                                "bos_token_id", "eos_token_id", "pad_token_id", "quantization_config"}) {
            json[key] = nullptr;
        }
        const ModelSpec spec = read(json, R"({"bos_token_id":null,"eos_token_id":null,"pad_token_id":null})");
        EXPECT_EQ(spec.kv_heads, spec.heads);
        EXPECT_EQ(spec.head_dim, 16);
        EXPECT_EQ(spec.sliding_window, 0);
        EXPECT_EQ(spec.rope.scaling, RopeSpec::Scaling::none);
        EXPECT_EQ(spec.bos_id, -1);
        EXPECT_TRUE(spec.eos_ids.empty());
    }
    EXPECT_EQ(read(with(with(config("x"), "architectures", nullptr), "model_type", "qwen2")).architecture, "qwen2");
}

TEST(SpecFromHf, EndTokensOfAnyOtherTypeAreRefusedInBothFiles) {
    for (const char* bad : {"1.0", "true", "\"2\"", "{}", "[null]", "[1,null]", "[[1]]", "[1.5]", "-1", "1e3"}) {
        EXPECT_THAT(error_of(with(config("LlamaForCausalLM"), "eos_token_id", Json::parse(bad))),
                    HasSubstr("config.json: eos_token_id must be a token id"))
            << bad;
        EXPECT_THAT(error_of(config("LlamaForCausalLM"), std::string("{\"eos_token_id\":") + bad + "}"),
                    HasSubstr("(generation_config.json): eos_token_id must be a token id"))
            << bad;
    }
    // What Python's json module writes for these, which is no JSON.
    for (const char* bad : {"NaN", "Infinity", "-Infinity"}) {
        EXPECT_THAT(error_of(config("LlamaForCausalLM"), std::string("{\"eos_token_id\":") + bad + "}"),
                    HasSubstr("not valid JSON at byte"));
        EXPECT_THAT(spec_from_hf(std::string("{\"rms_norm_eps\":") + bad + "}", "", "c").error().message,
                    HasSubstr("not valid JSON at byte"));
    }
}

TEST(SpecFromHf, OneByteOrderMarkBeforeTheJsonIsPassedOver) {
    const std::string mark = "\xEF\xBB\xBF", json = config("LlamaForCausalLM").dump();
    const auto spec = spec_from_hf(mark + json, mark + R"({"eos_token_id":7})", "config.json");
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->width, 64);
    EXPECT_THAT(spec->eos_ids, ElementsAre(7));
    for (const std::string& bad :
         {mark + mark + json, mark.substr(0, 2) + json, " " + mark + json, json + mark, mark}) {
        const auto refused = spec_from_hf(bad, "", "config.json");
        ASSERT_FALSE(refused) << bad;
        EXPECT_THAT(refused.error().message, HasSubstr("not valid JSON"));
    }
}

TEST(SpecFromHf, MalformedJsonIsOneLine) {
    for (const std::string& bad :
         {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("{\"a\":1,\"a\":2}"),
          std::string("{}\0", 3), std::string("{\"a\":\"\xC3\"}"), std::string("{} {}"), std::string(1'000'000, '['),
          std::string("{\"a\":1e999}")}) {
        const auto spec = spec_from_hf(bad, "", "config.json");
        ASSERT_FALSE(spec);
        EXPECT_THAT(spec.error().message, HasSubstr("config.json: "));
        EXPECT_LT(spec.error().message.size(), 200U);
        EXPECT_EQ(spec.error().message.find('\n'), std::string::npos);
    }
    std::string deep;
    for (int i = 0; i < 1'000'000; ++i) deep += "{\"a\":";
    EXPECT_EQ(spec_from_hf(deep, "", "config.json").error().message, "config.json: JSON nested deeper than 64");
    EXPECT_THAT(spec_from_hf("{\"a\":[" + std::string(2'000'000, '0') + "]}", "", "c").error().message,
                HasSubstr("not valid JSON"));
    std::string many = "{\"a\":[0";
    for (int i = 0; i < 1'000'000; ++i) many += ",0";
    EXPECT_THAT(spec_from_hf(many + "]}", "", "c").error().message, HasSubstr("more than 524288 JSON values"));
}

TEST(Rope, FrequenciesFollowTheScaling) {
    ModelSpec spec;
    spec.head_dim = 4;
    spec.rope.theta = 10000.0;
    EXPECT_THAT(spec.inverse_frequency(), ElementsAre(1.0, ::testing::DoubleEq(0.01)));
    spec.rope.scaling = RopeSpec::Scaling::linear;
    spec.rope.factor = 4.0;
    EXPECT_THAT(spec.inverse_frequency(), ElementsAre(0.25, ::testing::DoubleEq(0.0025)));
    spec.rope.frequency_divisors = {2.0, 5.0};
    EXPECT_THAT(spec.inverse_frequency(), ElementsAre(0.125, ::testing::DoubleEq(0.0005)));
}

TEST(Rope, Llama3KeepsShortWavesStretchesLongOnesAndBlendsBetween) {
    ModelSpec spec;
    spec.head_dim = 128;
    spec.rope.theta = 500000.0;
    const std::vector<double> plain = spec.inverse_frequency();
    spec.rope.scaling = RopeSpec::Scaling::llama3;
    spec.rope.factor = 8.0;
    spec.rope.low_frequency_factor = 1.0;
    spec.rope.high_frequency_factor = 4.0;
    spec.rope.original_context = 8192;
    const std::vector<double> scaled = spec.inverse_frequency();
    for (size_t i = 0; i < plain.size(); ++i) {
        const double wave = 2.0 * M_PI / plain[i];
        const double ratio = plain[i] / scaled[i];
        if (wave < 8192.0 / 4.0) {
            EXPECT_EQ(ratio, 1.0);
        } else if (wave > 8192.0) {
            EXPECT_NEAR(ratio, 8.0, 1e-12);
        } else {
            const double smooth = (8192.0 / wave - 1.0) / (4.0 - 1.0);
            EXPECT_NEAR(scaled[i] / ((1.0 - smooth) * plain[i] / 8.0 + smooth * plain[i]), 1.0, 1e-12);
        }
    }
}

TEST(SpecTensors, CountParametersAsTheModelHasThem) {
    ModelSpec spec = read(config("Qwen2ForCausalLM"));
    const int64_t layer = 2 * 64 + 4 * 64 * 64 + 3 * 64 + 3 * 64 * 96;
    EXPECT_EQ(spec.parameters(), 2 * 100 * 64 + 64 + 2 * layer);
    spec.tied_embeddings = true;
    EXPECT_EQ(spec.parameters(), 100 * 64 + 64 + 2 * layer);
    spec.qk_norm = true;
    spec.output_bias = true;
    spec.mlp_bias = true;
    EXPECT_EQ(spec.parameters(), 100 * 64 + 64 + 2 * (layer + 2 * 16 + 64 + 2 * 96 + 64));
}

}  // namespace
}  // namespace rondo

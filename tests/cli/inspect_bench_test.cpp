#include "tests/cli/rondo_process.hpp"
#include "tests/model/gguf_twin.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using testing::expect_failure;
using ::testing::HasSubstr;
using testing::run_json;
using testing::run_rondo;
using testing::TemporaryFolder;

TEST(Inspect, NamesTheShapeOfTheDemoModel) {
    const auto json = run_json({"inspect", "model"});
    EXPECT_EQ(json.at("architecture"), "llama");
    EXPECT_EQ(json.at("parameters"), 3370176);
    EXPECT_EQ(json.at("layers"), 8);
    EXPECT_EQ(json.at("heads"), 6);
    EXPECT_EQ(json.at("kv_heads"), 3);
    EXPECT_EQ(json.at("vocabulary"), 640);
    EXPECT_EQ(json.at("context_tokens"), 4096);
    EXPECT_EQ(json.at("weight_bytes_by_type").at("bf16"), json.at("weight_bytes"));
    EXPECT_TRUE(json.at("tokenizer"));
    EXPECT_TRUE(json.at("chat_template"));
    const auto plain = run_rondo({"inspect", "model"});
    EXPECT_EQ(plain.status, 0);
    EXPECT_THAT(plain.out, HasSubstr("architecture             \"llama\"\n"));
}

TEST(Inspect, FolderAndGgufOfOneModelAgree) {
    const golden::Case model_case = golden::read_cases("qwen2").at(9);
    const golden::Folder folder(model_case, DType::f32);
    const TemporaryFolder files;
    files.write("twin.gguf", golden::gguf_twin(model_case));
    const auto hf = run_json({"inspect", "model", folder.path()});
    const auto gguf = run_json({"inspect", "model", (files.path() / "twin.gguf").string()});
    EXPECT_EQ(gguf.at("name"), "twin");
    for (const char* field : {"architecture", "parameters", "layers", "width", "heads", "kv_heads", "head_dim",
                              "ffn_width", "vocabulary", "context_tokens", "tied_embeddings", "weight_bytes"}) {
        EXPECT_EQ(hf.at(field), gguf.at(field)) << field;
    }
}

/// A folder that holds nothing but a shape.
class Bench : public ::testing::Test {
protected:
    Bench() { folder_.write("config.json", golden::read_cases("llama").at(0).config_json); }
    std::string path() const { return folder_.path().string(); }

    TemporaryFolder folder_;
};

TEST_F(Bench, GivesFiguresOfAConfigWithoutWeights) {
    for (const char* kind : {"prefill", "decode"}) {
        const auto json = run_json({"bench", kind, "--model", path(), "--weights", "random:1", "--tokens", "16",
                                    "--depth", "20", "--repeat", "3", "--threads", "2"});
        EXPECT_GT(json.at("tokens_per_s").get<double>(), 0.0);
        EXPECT_GE(json.at("tokens_per_s_max"), json.at("tokens_per_s"));
        EXPECT_GE(json.at("tokens_per_s"), json.at("tokens_per_s_min"));
        EXPECT_NEAR(json.at("tokens_per_s").get<double>() * json.at("seconds").get<double>(), 16.0, 1e-6);
        EXPECT_EQ(json.at("bench"), kind);
        EXPECT_EQ(json.at("tokens"), 16);
        EXPECT_EQ(json.at("depth"), 20);
        EXPECT_EQ(json.at("repeat"), 3);
        EXPECT_EQ(json.at("kv"), "bf16");
        EXPECT_EQ(json.at("method"), "dense");
        EXPECT_THAT(json.at("device").get<std::string>(), HasSubstr("cpu (2 threads"));
    }
}

TEST_F(Bench, BatchesCountAllTheirTokens) {
    const auto json = run_json({"bench", "decode", "--model", path(), "--weights", "random:1", "--tokens", "4",
                                "--batch", "5", "--repeat", "2"});
    EXPECT_EQ(json.at("batch"), 5);
    EXPECT_NEAR(json.at("tokens_per_s").get<double>() * json.at("seconds").get<double>(), 20.0, 1e-6);
}

TEST_F(Bench, AMethodIsMeasuredBesideDense) {
    const auto decode = run_json({"bench",     "decode",
                                  "--model",   path(),
                                  "--weights", "random:1",
                                  "--tokens",  "12",
                                  "--depth",   "60",
                                  "--repeat",  "1",
                                  "--batch",   "2",
                                  "--method",  "progressive",
                                  "--set",     "pipeline.decode.attention.budget_tokens=16",
                                  "--set",     "pipeline.decode.attention.reselect_every=4"});
    EXPECT_EQ(decode.at("method"), "progressive");
    EXPECT_GT(decode.at("ratio").get<double>(), 0.0);
    EXPECT_GT(decode.at("selections").get<double>(), 0.0);
    EXPECT_LT(decode.at("density").get<double>(), 0.5);
    EXPECT_GE(decode.at("step_ms").at("p99"), decode.at("step_ms").at("p50"));
    const auto prefill =
        run_json({"bench", "prefill", "--model", path(), "--weights", "random:1", "--tokens", "64", "--depth", "20",
                  "--repeat", "1", "--method", "a_shape", "--set", "pipeline.prefill.attention.min_tokens=0"});
    EXPECT_GT(prefill.at("ratio").get<double>(), 0.0);
    EXPECT_LT(prefill.at("density").get<double>(), 1.0);
    EXPECT_GT(prefill.at("split").at("attend_s").get<double>(), 0.0);
}

TEST_F(Bench, PlainOutputIsALine) {
    const auto outcome = run_rondo({"bench", "prefill", "--tokens", "8", "--repeat", "1"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(outcome.out, ::testing::MatchesRegex("prefill: [0-9.]+ tokens/s [^\n]*demo_model[^\n]*\n"));
}

TEST_F(Bench, RandomWeightsAreTheSeeds) {
    const auto ids = [&](const char* seed) {
        return run_json({"generate", "--model", path(), "--weights", seed, "--tokens", "1,2,3", "--max-tokens", "12",
                         "--temperature", "1", "--seed", "5"})
            .at("ids");
    };
    EXPECT_EQ(ids("random:1"), ids("random:1"));
    EXPECT_NE(ids("random:1"), ids("random:2"));
}

TEST_F(Bench, WhatCannotBeMeasuredIsRefused) {
    expect_failure(run_rondo({"bench", "prefill", "--model", path()}), "no weights");
    expect_failure(run_rondo({"bench", "prefill", "--model", path(), "--weights", "random:x"}), "random:SEED");
    expect_failure(run_rondo({"bench", "decode", "--depth", "4096", "--tokens", "1"}), "4096");
    expect_failure(run_rondo({"bench", "decode", "--depth", "16000000", "--tokens", "1"}), "4096");
    expect_failure(run_rondo({"bench", "prefill", "--tokens", "4097"}), "4096");
    expect_failure(run_rondo({"bench", "decode", "--method", "sparse"}), "dense");
}

}  // namespace
}  // namespace rondo

#include <fstream>

#include "tests/cli/rondo_process.hpp"
#include "tests/cli/svg_check.hpp"
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
    std::ifstream file(std::string(RONDO_SOURCE_DIR) + "/examples/demo_model/config.json");
    const auto config = nlohmann::json::parse(file);
    const auto json = run_json({"inspect", "model"});
    EXPECT_EQ(json.at("architecture"), "llama");
    for (const auto& [name, key] : {std::pair("layers", "num_hidden_layers"),
                                    {"width", "hidden_size"},
                                    {"ffn_width", "intermediate_size"},
                                    {"heads", "num_attention_heads"},
                                    {"kv_heads", "num_key_value_heads"},
                                    {"head_dim", "head_dim"},
                                    {"vocabulary", "vocab_size"},
                                    {"context_tokens", "max_position_embeddings"}})
        EXPECT_EQ(json.at(name), config.at(key)) << name;
    EXPECT_EQ(json.at("weight_bytes"), 2 * json.at("parameters").get<int64_t>());
    EXPECT_EQ(json.at("weight_bytes_by_type").at("bf16"), json.at("weight_bytes"));
    EXPECT_TRUE(json.at("tokenizer"));
    EXPECT_TRUE(json.at("chat_template"));
    const auto plain = run_rondo({"inspect", "model"});
    EXPECT_EQ(plain.status, 0);
    EXPECT_THAT(plain.out, HasSubstr("architecture             \"llama\"\n"));
}

/// A link has the name, and the figures of minutes would be lost with it.
TEST(Inspect, AModelsNameThatIsNoUtf8IsShownInEveryJson) {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "mod\xe9l").string(), name = "mod\xef\xbf\xbdl";
    std::filesystem::create_directory_symlink(std::string(RONDO_SOURCE_DIR) + "/examples/demo_model", path);
    EXPECT_EQ(run_json({"inspect", "model", path}).at("name"), name);
    EXPECT_THAT(run_rondo({"inspect", "model", path}).out, HasSubstr("\"" + name + "\"\n"));
    EXPECT_EQ(run_json({"bench", "decode", "--model", path, "--tokens", "2", "--repeat", "1"}).at("model"), name);
    EXPECT_EQ(run_json({"eval", "--model", path, "--dialogues", "1", "--rounds", "1", "--places", "end", "--methods",
                        "dense"})
                  .at("model"),
              name);
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
        EXPECT_GT(json.at("split").at("product_s").get<double>(), 0.0);
        EXPECT_GT(json.at("split").at("attend_s").get<double>(), 0.0);
        double named = 0.0;
        for (const char* part : {"norm_s", "rope_s", "append_s", "activate_s"}) {
            EXPECT_GT(json.at("rest").at(part).get<double>(), 0.0) << part;
            named += json.at("rest").at(part).get<double>();
        }
        EXPECT_LE(named, json.at("split").at("rest_s").get<double>() + 1e-9);
        double sum = 0.0;
        for (const auto& [name, seconds] : json.at("split").items()) sum += seconds.get<double>();
        EXPECT_NEAR(sum, json.at("seconds").get<double>(), 1e-9);
        EXPECT_THAT(json.at("device").get<std::string>(), HasSubstr("cpu (2 threads"));
        EXPECT_THAT(json.at("device").get<std::string>(), HasSubstr("bf16 in "));
    }
}

/// As a server's is: neither takes more tokens than the window.
TEST_F(Bench, ASlidingWindowIsTheContext) {
    auto config = nlohmann::json::parse(golden::read_cases("mistral").at(0).config_json);
    config["sliding_window"] = 32;
    folder_.write("config.json", config.dump());
    for (const char* kind : {"prefill", "decode"}) {
        const auto at_depth = [&](const char* depth) {
            return run_rondo({"bench", kind, "--model", path(), "--weights", "random:1", "--tokens", "4", "--repeat",
                              "1", "--depth", depth});
        };
        EXPECT_EQ(at_depth("28").status, 0) << kind;
        expect_failure(at_depth("29"), "a depth of 29 and 4 tokens must be at most the context of");
    }
}

TEST_F(Bench, TheWayToMultiplyBf16IsASettingBesideTheFlagsOfADevice) {
    const auto json = run_json({"bench", "prefill", "--model", path(), "--weights", "random:1", "--tokens", "4",
                                "--repeat", "1", "--threads", "2", "--set", "devices.cpu.bf16=floats"});
    EXPECT_THAT(json.at("device").get<std::string>(), HasSubstr("bf16 in floats"));
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
                                  "--repeat",  "3",
                                  "--batch",   "2",
                                  "--method",  "progressive",
                                  "--set",     "pipeline.decode.attention.budget_tokens=16",
                                  "--set",     "pipeline.decode.attention.reselect_every=4"});
    EXPECT_EQ(decode.at("method"), "progressive");
    EXPECT_GT(decode.at("ratio").get<double>(), 0.0);
    EXPECT_GT(decode.at("selections").get<double>(), 0.0);
    EXPECT_LT(decode.at("density").get<double>(), 0.5);
    EXPECT_LT(decode.at("kv_mib_per_step").get<double>(), decode.at("dense_kv_mib_per_step").get<double>());
    for (const char* name : {"step_ms", "dense_step_ms"}) {
        const auto& steps = decode.at(name);
        EXPECT_GT(steps.at("p50").get<double>(), 0.0);
        EXPECT_GE(steps.at("p99"), steps.at("p50"));
        EXPECT_GE(steps.at("p99_over_p50").get<double>(), 1.0);
    }
    const auto prefill =
        run_json({"bench", "prefill", "--model", path(), "--weights", "random:1", "--tokens", "64", "--depth", "20",
                  "--repeat", "1", "--method", "a_shape", "--set", "pipeline.prefill.attention.min_tokens=0"});
    EXPECT_GT(prefill.at("ratio").get<double>(), 0.0);
    EXPECT_LT(prefill.at("density").get<double>(), 1.0);
    EXPECT_GT(prefill.at("split").at("attend_s").get<double>(), 0.0);
}

/// The measured parts of a run and the rest add up to the run.
void expect_whole_split(const nlohmann::json& point) {
    const auto& split = point.at("split");
    double sum = 0.0;
    for (const char* part : {"score_s", "select_s", "gather_s", "attend_s", "product_s", "rest_s"}) {
        EXPECT_GE(split.at(part).get<double>(), 0.0) << part;
        sum += split.at(part).get<double>();
    }
    EXPECT_NEAR(sum, point.at("seconds").get<double>(), 1e-12);
    EXPECT_GT(split.at("rest_s").get<double>(), 0.0);
    EXPECT_GT(split.at("attend_s").get<double>(), 0.0);
    EXPECT_GT(point.at("dense_attend_s").get<double>(), 0.0);
}

TEST_F(Bench, DepthsAreMeasuredInTurn) {
    const auto json =
        run_json({"bench", "decode", "--depths", "32,48,300", "--tokens", "12", "--repeat", "2", "--batch", "2",
                  "--method", "progressive", "--set", "pipeline.decode.attention.budget_tokens=16", "--set",
                  "pipeline.decode.attention.reselect_every=4"});
    EXPECT_EQ(json.at("bench"), "decode");
    EXPECT_EQ(json.at("method"), "progressive");
    EXPECT_EQ(json.at("batch"), 2);
    EXPECT_FALSE(json.contains("tokens_per_s"));
    std::vector<int> depths;
    for (const auto& point : json.at("points")) {
        depths.push_back(point.at("depth"));
        EXPECT_EQ(point.at("tokens"), 12);
        EXPECT_NEAR(point.at("tokens_per_s").get<double>() * point.at("seconds").get<double>(), 24.0, 1e-6);
        EXPECT_GT(point.at("dense_tokens_per_s").get<double>(), 0.0);
        EXPECT_GT(point.at("ratio").get<double>(), 0.0) << "of the rounds' own, so not that of the two rates";
        // Each of two sequences chooses every 4 steps.
        EXPECT_EQ(point.at("selections").get<double>(), 6.0);
        expect_whole_split(point);
        EXPECT_GT(point.at("split").at("gather_s").get<double>(), 0.0);
    }
    EXPECT_THAT(depths, ::testing::ElementsAre(32, 48, 300));
    EXPECT_LT(json.at("points").at(2).at("density"), json.at("points").at(0).at("density"));
}

/// Time and bytes of what they score and move at every step count as theirs.
TEST_F(Bench, MethodsThatChooseWithinAStepAreSplitToo) {
    for (const char* const method : {"quest", "h2o"}) {
        const auto json = run_json({"bench", "decode", "--depth", "300", "--tokens", "12", "--repeat", "1", "--method",
                                    method, "--set", "pipeline.decode.attention.budget_tokens=32"});
        expect_whole_split(json);
        EXPECT_GT(json.at("split").at("score_s").get<double>(), 0.0) << method;
        // More than what is attended to.
        EXPECT_GT(json.at("kv_mib_per_step").get<double>(),
                  json.at("density").get<double>() * json.at("dense_kv_mib_per_step").get<double>() * 1.01)
            << method;
    }
}

/// Of ten rounds and a message behind them, with some of them above the watershed.
TEST_F(Bench, RoundsAreChosenBesideDense) {
    const std::vector<std::string> how = {
        "--tokens", "12", "--depth", "330", "--repeat", "1", "--method", "recent_rounds", "--round-tokens", "30"};
    const auto bench = [&](const std::string& phase) {
        std::vector<std::string> words = {"bench", phase};
        words.insert(words.end(), how.begin(), how.end());
        return run_json(words);
    };
    const auto decode = bench("decode"), prefill = bench("prefill");
    EXPECT_EQ(decode.at("method"), "recent_rounds");
    expect_whole_split(decode);
    // In half of the layers 16 keys of the beginning, one round of ten, and the message's; some answer's in all.
    EXPECT_NEAR(decode.at("density").get<double>(), 0.5 + 0.5 * (16 + 30 + 30) / 330, 0.02);
    EXPECT_LT(decode.at("kv_mib_per_step").get<double>(), decode.at("dense_kv_mib_per_step").get<double>());
    EXPECT_EQ(prefill.at("method"), "recent_rounds");
    EXPECT_EQ(prefill.at("rounds"), (nlohmann::json{{"earlier", 11}, {"chosen", 2}}));
    EXPECT_FALSE(prefill.contains("density")) << "which is of lines";
}

TEST_F(Bench, LengthsAreMeasuredInTurn) {
    const auto json = run_json({"bench", "prefill", "--lengths", "24,160,200", "--repeat", "1", "--depth", "20",
                                "--method", "a_shape", "--set", "pipeline.prefill.attention.min_tokens=100"});
    std::vector<int> lengths;
    for (const auto& point : json.at("points")) {
        lengths.push_back(point.at("tokens"));
        EXPECT_EQ(point.at("depth"), 20);
        expect_whole_split(point);
        EXPECT_EQ(point.at("split").at("gather_s"), 0.0);
    }
    EXPECT_THAT(lengths, ::testing::ElementsAre(24, 160, 200));
    EXPECT_EQ(json.at("points").at(0).at("density"), 1.0) << "44 keys are below min_tokens";
    EXPECT_LT(json.at("points").at(2).at("density"), 1.0);
}

TEST_F(Bench, ADrawingIsWrittenBesideTheFigures) {
    const TemporaryFolder files;
    const std::string plot = (files.path() / "plot.svg").string();
    const auto outcome = run_rondo({"bench", "prefill", "--lengths", "8,16,128", "--repeat", "1", "--plot", plot});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(outcome.out, ::testing::MatchesRegex("prefill, demo_model[^\n]*\n *tokens +tokens/s [^\n]*\n"
                                                     " +8 [^\n]*\n +16 [^\n]*\n +128 [^\n]*\n"));
    std::ifstream file(plot);
    const std::string svg((std::istreambuf_iterator<char>(file)), {});
    testing::expect_sound_svg(svg);
    EXPECT_THAT(svg, HasSubstr("demo_model"));
    const auto nowhere =
        run_rondo({"bench", "decode", "--tokens", "2", "--repeat", "1", "--plot", "/no/such/folder/plot.svg"});
    EXPECT_EQ(nowhere.status, 1);
    EXPECT_THAT(nowhere.err, HasSubstr("/no/such/folder/plot.svg cannot be written"));
    EXPECT_EQ(nowhere.out, "") << "it is said before anything is measured";
}

TEST_F(Bench, BadListsAreRefused) {
    std::string many = "1";
    for (int i = 2; i <= 17; ++i) many.append(",").append(std::to_string(i));
    for (const auto& [kind, list] : {std::pair("prefill", "--lengths"), std::pair("decode", "--depths")}) {
        for (const auto& [text, words] : std::initializer_list<std::pair<std::string, std::string>>{
                 {"", "names no length"},
                 {"0", "names 0, must be 1 or more"},
                 {"16,0", "ascending"},
                 {"16,16", "names 16 behind 16; lengths must be ascending"},
                 {"16,", "must be numbers like 1,2,3"},
                 {"-16", "must be numbers like 1,2,3"},
                 {"16 32", "must be numbers like 1,2,3"},
                 {"99999999999", "must be numbers like 1,2,3"},
                 {many, "names 17 lengths, must be at most 16"},
                 {"16,4097", "4097"},
                 {"16,2147483647", "4096"},
                 {"2147483647,5", "names 5 behind 2147483647"}}) {
            std::vector<std::string> arguments = {"bench", kind, list, ""};
            if (!text.empty()) arguments = {"bench", kind, std::string(list) + "=" + text};
            expect_failure(run_rondo(arguments), words);
        }
    }
    testing::expect_error(run_rondo({"bench", "decode", "--depths", "1,2", "--depth", "3"}), 2, "excludes");
    testing::expect_error(run_rondo({"bench", "prefill", "--lengths", "1,2", "--tokens", "3"}), 2, "excludes");
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
    expect_error(run_rondo({"bench", "prefill", "--model", path(), "--weights", "random:x"}), 2, "random:SEED");
    expect_failure(run_rondo({"bench", "decode", "--depth", "4096", "--tokens", "1"}), "4096");
    expect_failure(run_rondo({"bench", "decode", "--depth", "16000000", "--tokens", "1"}), "4096");
    expect_failure(run_rondo({"bench", "prefill", "--tokens", "4097"}), "4096");
    expect_error(run_rondo({"bench", "decode", "--method", "sparse"}), 2, "dense");
    expect_failure(
        run_rondo({"bench", "decode", "--method", "progressive", "--set", "pipeline.decode.attention.cold_tokens=4"}),
        "cold_tokens: has no effect in bench decode");
}

}  // namespace
}  // namespace rondo

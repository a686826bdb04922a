#include <gtest/gtest.h>

#include <cmath>

#include "golden_models.hpp"
#include "kernels/backend.hpp"
#include "model/generator.hpp"
#include "model/model.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

/// The whole engine against a float64 program that shares no code with it: 4 architectures × GQA 1, 2, 7 × head sizes
/// 32, 64, 128 × tied and untied.
class Golden : public ::testing::TestWithParam<golden::Case> {
protected:
    /// The logits of the case's rows, of a model whose weights and KV have these types, prefilled in chunks.
    std::vector<float> logits(DType weights, DType kv, int64_t chunk_tokens, const char* device_name = "cpu:2") {
        const golden::Case& model_case = GetParam();
        const golden::Folder folder(model_case, weights);
        auto device = open_device(parse_device(device_name).value());
        EXPECT_TRUE(device.is_ok());
        auto model = load_model(folder.path(), {}, **device);
        EXPECT_TRUE(model.is_ok()) << (model.is_ok() ? "" : model.error().message);
        if (!model.is_ok()) return {};
        auto generator = Generator::create(*model, **device, {chunk_tokens, kv, 0});
        EXPECT_TRUE(generator.is_ok());
        std::vector<float> all;
        const Status status = (*generator)->score(model_case.ids, [&](std::span<const float> rows) {
            all.insert(all.end(), rows.begin(), rows.end());
        });
        EXPECT_TRUE(status.is_ok()) << (status.is_ok() ? "" : status.error().message);
        std::vector<float> chosen;
        for (const int64_t row : model_case.rows) {
            const auto begin = all.begin() + row * model_case.vocabulary;
            chosen.insert(chosen.end(), begin, begin + model_case.vocabulary);
        }
        return chosen;
    }
};

TEST_P(Golden, FloatWeightsAndKvMatchWithinOneInAHundredThousand) {
    EXPECT_LE(golden::relative_error(logits(DType::f32, DType::f32, 512), GetParam().f32), 1e-5);
}

TEST_P(Golden, Bf16WeightsAndKvMatchWithinTwoInAHundred) {
    EXPECT_LE(golden::relative_error(logits(DType::bf16, DType::bf16, 512), GetParam().bf16), 2e-2);
}

TEST_P(Golden, F16WeightsMatchWithinThreeInAThousand) {
    EXPECT_LE(golden::relative_error(logits(DType::f16, DType::f32, 512), GetParam().f32), 3e-3);
}

TEST_P(Golden, EveryChunkSizeGivesTheSameLogits) {
    const std::vector<float> whole = logits(DType::f32, DType::f32, 512);
    for (const int64_t chunk : {1, 7, 64}) {
        EXPECT_LE(golden::relative_error(logits(DType::f32, DType::f32, chunk), whole), 1e-5) << "chunk " << chunk;
    }
}

TEST_P(Golden, Int8KvStaysClose) {
    EXPECT_LE(golden::relative_error(logits(DType::f32, DType::i8, 512), GetParam().f32), 3e-2);
}

TEST_P(Golden, TheGpuMatchesToo) {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
    EXPECT_LE(golden::relative_error(logits(DType::f32, DType::f32, 7, "cuda:0"), GetParam().f32), 1e-5);
    EXPECT_LE(golden::relative_error(logits(DType::bf16, DType::bf16, 512, "cuda:0"), GetParam().bf16), 2e-2);
}

/// The case as a folder of two shards with their index, its tensors dealt out in turn.
void write_shards(const golden::Case& model, const testing::TemporaryFolder& folder) {
    const std::string names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
    nlohmann::json headers[2], index;
    std::string data[2];
    size_t turn = 0;
    for (const golden::HostTensor& tensor : golden::tensors(model)) {
        const size_t shard = turn++ % 2;
        const auto bytes = golden::encode(tensor.values, DType::f32);
        const size_t begin = data[shard].size();
        data[shard].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        headers[shard][tensor.name] = {
            {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data[shard].size()}}};
        index["weight_map"][tensor.name] = names[shard];
    }
    for (size_t shard = 0; shard < 2; ++shard) {
        std::string file;
        testing::append(file, static_cast<uint64_t>(headers[shard].dump().size()));
        folder.write(names[shard], file + headers[shard].dump() + data[shard]);
    }
    folder.write("model.safetensors.index.json", index.dump());
    folder.write("config.json", model.config_json);
}

TEST(GoldenShards, GiveTheLogitsAndTokensOfTheSingleFile) {
    const auto device = testing::need(open_device(testing::need(parse_device("cpu:2"))));
    for (const char* name : {"llama_gqa2_head32_untied", "qwen2_gqa1_head32_tied"}) {
        const golden::Case model_case = golden::read_case(name);
        const testing::TemporaryFolder folder;
        write_shards(model_case, folder);
        const Model sharded = testing::need(load_model(folder.path(), {}, *device));
        const Model single = testing::load_case(model_case, DType::f32, *device);
        const auto run = [&](const Model& model, std::vector<float>& logits) {
            const auto generator =
                testing::need(Generator::create(model, *device, {.chunk_tokens = 64, .kv_type = DType::f32}));
            testing::need(generator->prefill(model_case.ids));
            logits.assign(generator->logits().begin(), generator->logits().end());
            generator->truncate(0);
            return testing::need(generator->generate(model_case.ids, {.tokens_max = 16, .ignore_eos = true})).ids;
        };
        std::vector<float> of_shards, of_single;
        EXPECT_EQ(run(sharded, of_shards), run(single, of_single)) << name;
        EXPECT_EQ(of_shards, of_single) << name;
    }
}

/// A suite of no cases passes.
TEST(GoldenModels, AreAllThere) {
    EXPECT_EQ(golden::read_all_cases().size(), 72U);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, ::testing::ValuesIn(golden::read_all_cases()),
                         [](const ::testing::TestParamInfo<golden::Case>& info) { return info.param.name; });

}  // namespace
}  // namespace rondo

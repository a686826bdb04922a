#include <gtest/gtest.h>

#include <cmath>

#include "golden_models.hpp"
#include "kernels/backend.hpp"
#include "model/generator.hpp"
#include "model/model.hpp"

namespace rondo {
namespace {

/// The whole engine against a float64 program that shares no code with it: 4 architectures × GQA 1, 2, 7 × head sizes
/// 32, 64, 128 × tied and untied.
class Golden : public testing::TestWithParam<golden::Case> {
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
        const Status status = (*generator)->score(model_case.tokens, [&](std::span<const float> rows) {
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

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(golden::read_all_cases()),
                         [](const testing::TestParamInfo<golden::Case>& info) { return info.param.name; });

}  // namespace
}  // namespace rondo

#include "model/random_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <thread>

#include "model/files/spec_tensors.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;

ModelSpec small_spec() {
    ModelSpec spec;
    spec.architecture = "qwen2";
    spec.layers = 2;
    spec.width = 96;
    spec.heads = 6;
    spec.kv_heads = 2;
    spec.head_dim = 16;
    spec.ffn_width = 130;
    spec.vocabulary = 333;
    spec.attention_bias = true;
    return spec;
}

std::unique_ptr<WeightsFile> make(uint64_t seed, DType dtype) {
    auto weights = random_weights(small_spec(), seed, dtype, "m");
    EXPECT_TRUE(weights) << weights.error().message;
    return std::move(weights).value();
}

std::string bytes_of_tensor(const WeightsFile& weights, const std::string& name) {
    const FileTensor* tensor = weights.find(name);
    return std::string(reinterpret_cast<const char*>(tensor->data), tensor->bytes);
}

std::vector<float> values(const WeightsFile& weights, const std::string& name) {
    const std::string bytes = bytes_of_tensor(weights, name);
    std::vector<float> out(bytes.size() / 4);
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

TEST(RandomWeights, HoldWhatTheSpecNeeds) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
        const Status checked = check_weights(small_spec(), *make(1, dtype), "m");
        EXPECT_TRUE(checked) << checked.error().message;
    }
    EXPECT_EQ(make(1, DType::bf16)->find("nothing"), nullptr);
}

TEST(RandomWeights, SameSeedSameBytesAlsoAfterBeingGivenBack) {
    const auto first = make(7, DType::bf16), second = make(7, DType::bf16), other = make(8, DType::bf16);
    for (const SpecTensor& tensor : spec_tensors(small_spec())) {
        const std::string bytes = bytes_of_tensor(*first, tensor.name);
        EXPECT_EQ(bytes, bytes_of_tensor(*second, tensor.name)) << tensor.name;
        if (tensor.kind != SpecTensor::Kind::norm) {
            EXPECT_NE(bytes, bytes_of_tensor(*other, tensor.name)) << tensor.name;
        }
        second->done_with(*second->find(tensor.name));
        EXPECT_EQ(bytes, bytes_of_tensor(*second, tensor.name)) << tensor.name;
    }
    EXPECT_NE(bytes_of_tensor(*first, "model.layers.0.mlp.up_proj.weight"),
              bytes_of_tensor(*first, "model.layers.1.mlp.up_proj.weight"));
}

TEST(RandomWeights, AreAboutNormalWithNormsOfOne) {
    const auto weights = make(3, DType::f32);
    double sum = 0, squares = 0, rows_alike = 0;
    const std::vector<float> table = values(*weights, "model.embed_tokens.weight");
    for (const float value : table) {
        sum += value;
        squares += double{value} * value;
    }
    const auto count = static_cast<double>(table.size());
    EXPECT_NEAR(sum / count, 0.0, 0.002);
    EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.002);
    for (size_t row = 1; row < table.size() / 96; ++row)
        rows_alike += std::memcmp(&table[0], &table[row * 96], 96 * 4) == 0;
    EXPECT_EQ(rows_alike, 0);
    for (const float one : values(*weights, "model.norm.weight")) EXPECT_EQ(one, 1.0F);
}

TEST(RandomWeights, TwoReadersOfOneTensorDoNotDisturbEachOther) {
    const auto weights = make(5, DType::bf16);
    const std::string name = "lm_head.weight";
    const std::string expected = bytes_of_tensor(*weights, name);
    const FileTensor& tensor = *weights->find(name);
    std::vector<std::thread> readers;
    std::vector<int> wrong(4);
    for (int r = 0; r < 4; ++r) {
        readers.emplace_back([&, r] {
            for (int i = 0; i < 200; ++i) {
                weights->will_need(tensor);
                wrong[static_cast<size_t>(r)] += std::memcmp(tensor.data, expected.data(), expected.size()) != 0;
                weights->done_with(tensor);
            }
        });
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST(RandomWeights, MoreThanTheMachineHasIsAnErrorAndNotAnAllocation) {
    ModelSpec spec = small_spec();
    spec.layers = 1024;
    spec.width = spec.ffn_width = 1 << 20;
    spec.heads = spec.kv_heads = 1024;
    spec.head_dim = 512;
    const auto weights = random_weights(spec, 1, DType::f32, "m");
    ASSERT_FALSE(weights);
    EXPECT_EQ(weights.error().code, ErrorCode::out_of_memory);
    EXPECT_THAT(weights.error().message, HasSubstr("m: random weights need "));
}

}  // namespace
}  // namespace rondo

#include "tests/model/gguf_twin.hpp"

#include <gtest/gtest.h>

#include "kernels/quant.hpp"
#include "model/generator.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;

struct Computed {
    std::vector<float> logits;  // of every token of the prompt
    std::vector<int32_t> greedy;
};

Computed run(const Model& model, Device& device, std::span<const int32_t> prompt) {
    const auto scoring = need(Generator::create(model, device, {.chunk_tokens = 64, .kv_type = DType::f32}));
    Computed out;
    need(scoring->score(
        prompt, [&](std::span<const float> rows) { out.logits.insert(out.logits.end(), rows.begin(), rows.end()); }));
    const auto answering = need(Generator::create(model, device, {.chunk_tokens = 64, .kv_type = DType::f32}));
    out.greedy = need(answering->generate(prompt, {.tokens_max = 64, .ignore_eos = true})).ids;
    return out;
}

/// One model from its Hugging Face folder and from the GGUF file a converter makes of it.
class GgufTwin : public ::testing::TestWithParam<golden::Case> {};

TEST_P(GgufTwin, GivesTheFoldersLogitsAndGreedyTokens) {
    const golden::Case& model_case = GetParam();
    const auto device = need(open_device(need(parse_device("cpu:2"))));
    const testing::TemporaryFolder files;
    files.write("twin.gguf", golden::gguf_twin(model_case));
    const Model gguf = need(load_model(files.path() / "twin.gguf", {}, *device));
    const Model folder = testing::load_case(model_case, DType::f32, *device);
    const Computed from_gguf = run(gguf, *device, model_case.ids);
    const Computed from_folder = run(folder, *device, model_case.ids);
    EXPECT_EQ(from_folder.greedy.size(), 64U);
    EXPECT_EQ(from_gguf.greedy, from_folder.greedy);
    // llama3's scaling comes as float divisors in the file, so its angles differ in the last bits.
    if (folder.spec.rope.scaling == RopeSpec::Scaling::llama3) {
        EXPECT_LE(golden::relative_error(from_gguf.logits, from_folder.logits), 1e-6);
    } else {
        EXPECT_EQ(from_gguf.logits, from_folder.logits);
    }
}

/// All of llama's cases; of the others every fifth, which still meets each GQA ratio and head size, tied and untied.
std::vector<golden::Case> twin_cases() {
    std::vector<golden::Case> out;
    for (const char* architecture : {"llama", "mistral", "qwen2", "qwen3"}) {
        const std::vector<golden::Case> all = golden::read_cases(architecture);
        for (size_t i = 0; i < all.size(); i += std::string_view(architecture) == "llama" ? 1 : 5)
            out.push_back(all[i]);
    }
    return out;
}

INSTANTIATE_TEST_SUITE_P(Models, GgufTwin, ::testing::ValuesIn(twin_cases()),
                         [](const ::testing::TestParamInfo<golden::Case>& info) { return info.param.name; });

TEST(GgufTwin, QuantizedWeightsAreTheRoundedOnes) {
    // The reference is a folder whose weights are what Q8_0 stands for, in F32: what is left is the kernels' own
    // rounding.
    const golden::Case model_case = golden::read_case("llama_gqa7_head64_untied");
    const auto device = need(open_device(need(parse_device("cpu:2"))));
    const Model quantized = testing::load_case(model_case, DType::q8_0, *device);
    const Model exact = testing::load_case(model_case, DType::f32, *device);
    EXPECT_LE(golden::relative_error(run(quantized, *device, model_case.ids).logits,
                                     run(exact, *device, model_case.ids).logits),
              3e-2);
    EXPECT_LT(quantized.weights->bytes(), exact.weights->bytes() / 3);
}

TEST(GgufTwin, QuantizesToTheNearestCode) {
    std::mt19937 random(30);
    std::vector<float> values(96), read(96);
    for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random())) * 1e-9F;
    std::fill_n(values.begin() + 32, 32, 0.0F);
    const std::string bytes = golden::quantize_q8_0(values);
    ASSERT_EQ(bytes.size(), bytes_of(DType::q8_0, 96));
    dequantize_row(DType::q8_0, reinterpret_cast<const std::byte*>(bytes.data()), read.data(), 96);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(read[i], values[i], 2.2F / 127.0F * 0.51F) << i;
}

}  // namespace
}  // namespace rondo

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "model/generator.hpp"
#include "tests/model/gguf_twin.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;

/// Models of GGUF's quantized types against a float64 program with dequantizers of its own, in numpy.
class QuantizedGolden : public ::testing::TestWithParam<golden::Case> {
protected:
    static DType type_of(std::string_view name) {
        for (int i = 0; i <= static_cast<int>(DType::iq4_xs); ++i) {
            if (name == "quantized_" + std::string(traits(static_cast<DType>(i)).name)) return static_cast<DType>(i);
        }
        throw std::runtime_error("no type for " + std::string(name));
    }

    /// The logits of the case's rows from its file, prefilled in chunks.
    static std::vector<float> logits(bool dequantized, int64_t chunk_tokens, const char* device_name = "cpu:2") {
        const golden::Case& model_case = GetParam();
        const testing::TemporaryFolder folder;
        folder.write("m.gguf", golden::gguf_of_blocks(model_case, type_of(model_case.name), dequantized));
        const auto device = need(open_device(need(parse_device(device_name))));
        const Model model = need(load_model(folder.path() / "m.gguf", {}, *device));
        const auto generator = need(Generator::create(model, *device, {chunk_tokens, DType::f32, 0}));
        std::vector<float> all, chosen;
        need(generator->score(model_case.ids,
                              [&](std::span<const float> rows) { all.insert(all.end(), rows.begin(), rows.end()); }));
        for (const int64_t row : model_case.rows) {
            const auto begin = all.begin() + row * model_case.vocabulary;
            chosen.insert(chosen.end(), begin, begin + model_case.vocabulary);
        }
        return chosen;
    }
};

TEST_P(QuantizedGolden, TheDequantizersValuesGiveTheReferencesLogits) {
    EXPECT_LE(golden::relative_error(logits(true, 512), GetParam().f32), 1e-5);
}

/// What rounding activations to int8 costs in models this small: 0.3 to 3.3 in a hundred, by chance more than by type.
constexpr double int8_error = 4e-2;

TEST_P(QuantizedGolden, ManyRowsMatchWithinTheErrorOfInt8) {
    EXPECT_LE(golden::relative_error(logits(false, 512), GetParam().f32), int8_error);
}

TEST_P(QuantizedGolden, FewRowsMatchWithinTheErrorOfInt8) {
    EXPECT_LE(golden::relative_error(logits(false, 7), GetParam().f32), int8_error);
}

TEST_P(QuantizedGolden, TheGpuMatchesToo) {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
    EXPECT_LE(golden::relative_error(logits(false, 512, "cuda:0"), GetParam().f32), 3e-2);
}

/// A suite of no cases passes.
TEST(QuantizedGoldenCases, EveryQuantizedTypeHasACase) {
    EXPECT_EQ(golden::read_cases("quantized").size(), 12U);
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedGolden, ::testing::ValuesIn(golden::read_cases("quantized")),
                         [](const ::testing::TestParamInfo<golden::Case>& info) { return info.param.name; });

}  // namespace
}  // namespace rondo

#include "model/weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/quant.hpp"
#include "model/files/spec_tensors.hpp"
#include "model/model_files.hpp"
#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using testing::need;

/// A file whose tensors lie as in several parts: the first ones at the highest addresses. Counts what is asked for.
class Parts final : public WeightsFile {
public:
    explicit Parts(const WeightsFile& from) {
        size_t bytes = 0;
        for (const FileTensor& tensor : from.tensors()) bytes += tensor.bytes;
        memory_.resize(bytes);
        for (const FileTensor& tensor : from.tensors()) {
            bytes -= tensor.bytes;
            std::copy_n(tensor.data, tensor.bytes, memory_.data() + bytes);
            tensors_.push_back(tensor);
            tensors_.back().data = memory_.data() + bytes;
        }
    }
    const FileTensor* find(std::string_view name) const override {
        const auto found = std::ranges::find(tensors_, name, &FileTensor::name);
        return found == tensors_.end() ? nullptr : &*found;
    }
    const std::vector<FileTensor>& tensors() const override { return tensors_; }
    void will_need(const FileTensor& tensor) const override { asked.push_back(tensor.name); }
    void done_with(const FileTensor& tensor) const override { done.push_back(tensor.name); }

    mutable std::vector<std::string> asked, done;

    /// Keeps one tensor of the file in another type.
    void convert(std::string_view name, DType type) {
        const auto tensor = std::ranges::find(tensors_, name, &FileTensor::name);
        ASSERT_NE(tensor, tensors_.end());
        std::vector<float> values(static_cast<size_t>(tensor->shape[0] * tensor->shape[1]));
        dequantize_row(tensor->dtype, tensor->data, values.data(), std::ssize(values));
        converted_ = golden::encode(values, type);
        tensor->dtype = type;
        tensor->data = converted_.data();
        tensor->bytes = converted_.size();
    }

private:
    std::vector<std::byte> memory_, converted_;
    std::vector<FileTensor> tensors_;
};

class WeightsLoading : public ::testing::Test {
protected:
    std::unique_ptr<Device> device_ = need(open_device(need(parse_device("cpu:2"))));
};

TEST_F(WeightsLoading, ActivationsAreFloatUnlessWeightsAreBf16) {
    const golden::Case model_case = golden::read_case("llama_gqa2_head32_untied");
    EXPECT_EQ(testing::load_case(model_case, DType::f32, *device_).weights->activation, DType::f32);
    EXPECT_EQ(testing::load_case(model_case, DType::bf16, *device_).weights->activation, DType::bf16);
    EXPECT_EQ(testing::load_case(model_case, DType::f16, *device_).weights->activation, DType::f32);
    EXPECT_EQ(testing::load_case(model_case, DType::q8_0, *device_).weights->activation, DType::f32);
}

/// Rounded inputs would cost the products of all weights bits that an f16 or f32 weight has.
TEST_F(WeightsLoading, OneWeightOfAnotherTypeKeepsActivationsInFloat) {
    for (const char* tying : {"qwen2_gqa1_head32_tied", "qwen2_gqa1_head32_untied"}) {
        const bool tied = std::string_view(tying).ends_with("_tied");
        const auto activation = [&](DType type, const char* name, DType other) {
            const golden::Folder folder(golden::read_case(tying), type);
            const ModelFiles files = need(open_model_files(folder.path(), {}));
            Parts parts(*files.weights);
            parts.convert(name, other);
            return need(load_weights(files.spec, parts, *device_))->activation;
        };
        for (const char* name : {"model.layers.0.mlp.down_proj.weight", "model.layers.1.self_attn.k_proj.weight"}) {
            EXPECT_EQ(activation(DType::f16, name, DType::bf16), DType::f32) << tying << ", " << name;
            EXPECT_EQ(activation(DType::bf16, name, DType::f16), DType::f32) << tying << ", " << name;
            EXPECT_EQ(activation(DType::bf16, name, DType::bf16), DType::bf16) << tying << ", " << name;
        }
        EXPECT_EQ(activation(DType::bf16, "model.embed_tokens.weight", DType::f32), tied ? DType::f32 : DType::bf16);
        if (!tied) EXPECT_EQ(activation(DType::bf16, "lm_head.weight", DType::f32), DType::f32);
    }
}

TEST_F(WeightsLoading, TiedModelsShareOneTable) {
    const Model tied = testing::load_case(golden::read_case("qwen2_gqa1_head32_tied"), DType::bf16, *device_);
    EXPECT_EQ(tied.weights->head, nullptr);
    EXPECT_EQ(&tied.weights->output_head(), tied.weights->embedding.get());
    const Model untied = testing::load_case(golden::read_case("qwen2_gqa1_head32_untied"), DType::bf16, *device_);
    EXPECT_EQ(&untied.weights->output_head(), untied.weights->head.get());
}

TEST_F(WeightsLoading, OptionalPartsAreThereWhereTheArchitectureHasThem) {
    const auto first_layer = [&](const char* name, auto check) {
        const Model model = testing::load_case(golden::read_case(name), DType::bf16, *device_);
        check(model.weights->layers.front());
    };
    first_layer("llama_gqa1_head32_untied", [](const LayerWeights& layer) {
        for (const Buffer* none :
             {&layer.qkv_bias, &layer.output_bias, &layer.gate_up_bias, &layer.down_bias, &layer.q_norm}) {
            EXPECT_EQ(none->data(), nullptr);
        }
    });
    first_layer("llama_gqa1_head64_untied", [](const LayerWeights& layer) {
        EXPECT_EQ(layer.qkv_bias.bytes(), 3 * 2 * 64 * sizeof(float));
        EXPECT_EQ(layer.output_bias.bytes(), 96 * sizeof(float));
        EXPECT_EQ(layer.down_bias.data(), nullptr);
    });
    first_layer("llama_gqa1_head128_tied", [](const LayerWeights& layer) {
        EXPECT_EQ(layer.gate_up_bias.bytes(), 2 * 136 * sizeof(float));
        EXPECT_EQ(layer.down_bias.bytes(), 64 * sizeof(float));
    });
    first_layer("qwen3_gqa7_head64_tied", [](const LayerWeights& layer) {
        EXPECT_EQ(layer.q_norm.bytes(), 64 * sizeof(float));
        EXPECT_EQ(layer.k_norm.bytes(), 64 * sizeof(float));
        EXPECT_EQ(layer.qkv->outputs(), (7 + 2) * 64);
        EXPECT_EQ(layer.qkv->inputs(), 64);
    });
}

TEST_F(WeightsLoading, ProgressRisesToTheWhole) {
    const golden::Folder folder(golden::read_case("mistral_gqa2_head32_untied"), DType::bf16);
    std::vector<double> shares;
    need(load_model(folder.path(), {}, *device_, [&](double share) { shares.push_back(share); }));
    ASSERT_FALSE(shares.empty());
    EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
    EXPECT_GT(shares.front(), 0.0);
    EXPECT_DOUBLE_EQ(shares.back(), 1.0);
}

TEST_F(WeightsLoading, AsksForTensorsInTheOrderOfLoading) {
    const golden::Folder folder(golden::read_case("qwen2_gqa1_head32_tied"), DType::bf16);
    const ModelFiles files = need(open_model_files(folder.path(), {}));
    const Parts parts(*files.weights);
    need(load_weights(files.spec, parts, *device_));
    const std::vector<SpecTensor> order = spec_tensors(files.spec);
    ASSERT_EQ(parts.asked.size(), order.size());
    for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(parts.asked[i], order[i].name);
}

TEST_F(WeightsLoading, PackingKeepsOneCopy) {
    const golden::Case model_case = golden::read_case("llama_gqa7_head128_untied");
    size_t elements = 0;
    for (const golden::HostTensor& tensor : golden::tensors(model_case)) elements += tensor.values.size();
    for (const DType type : {DType::f32, DType::bf16}) {
        const size_t file = bytes_of(type, static_cast<int64_t>(elements));
        const size_t packed = testing::load_case(model_case, type, *device_).weights->bytes();
        EXPECT_GE(packed, file) << traits(type).name;
        // Models this small pay for panels that are not full; a second copy would be twice the file.
        EXPECT_LE(packed, file + file * 30 / 100) << traits(type).name;
    }
}

}  // namespace
}  // namespace rondo

#include "model/model_fingerprint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/flip_bit.hpp"
#include "tests/model/gguf_twin.hpp"
#include "tests/model/golden_models.hpp"
#include "tests/model/model_bytes.hpp"

/// Stored KV is found only under its model's name: whatever changes the KV must change the name.
namespace rondo {
namespace {

/// Another file's tensors, in memory that a test may change.
class ChangeableWeights final : public WeightsFile {
public:
    explicit ChangeableWeights(const WeightsFile& of) : tensors_(of.tensors()) {
        for (FileTensor& tensor : tensors_) {
            bytes_.emplace_back(tensor.data, tensor.data + tensor.bytes);
            tensor.data = bytes_.back().data();
        }
    }
    const FileTensor* find(std::string_view name) const override {
        const auto found = std::ranges::find(tensors_, name, &FileTensor::name);
        return found == tensors_.end() ? nullptr : &*found;
    }
    const std::vector<FileTensor>& tensors() const override { return tensors_; }
    void will_need(const FileTensor& /*tensor*/) const override {}
    void done_with(const FileTensor& /*tensor*/) const override {}

    void flip(size_t tensor, size_t byte) { bytes_[tensor][byte] ^= std::byte{1}; }
    std::vector<FileTensor>& changeable() { return tensors_; }

private:
    std::vector<FileTensor> tensors_;
    std::vector<std::vector<std::byte>> bytes_;
};

ModelFiles files_of(const char* name = "qwen2_gqa1_head32_tied") {
    const golden::Folder folder(golden::read_case(name), DType::bf16);
    ModelFiles files = std::move(open_model_files(folder.path(), {})).value();
    files.weights = std::make_unique<ChangeableWeights>(*files.weights);
    return files;
}

ChangeableWeights& weights_of(ModelFiles& files) {
    return static_cast<ChangeableWeights&>(*files.weights);
}

/// The fingerprint of a model on the disk; all zeros, and a failure, where the model does not open.
StoreName fingerprint_at(const std::filesystem::path& path) {
    const auto files = open_model_files(path, {});
    if (files) return fingerprint_of(*files, {});
    ADD_FAILURE() << files.error().message;
    return {};
}

void write_tiny_model(const testing::TemporaryFolder& folder, const nlohmann::json& patch = nlohmann::json::object()) {
    nlohmann::json config = nlohmann::json::parse(testing::tiny_config);
    config.update(patch);
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", testing::safetensors_of(spec_tensors(testing::tiny_spec())));
}

TEST(ModelFingerprint, IsThatOfTheSameFilesWhereverTheyLie) {
    ModelFiles one = files_of(), other = files_of();
    other.name = "elsewhere";
    other.chat_template = "{{ messages }}";
    other.spec.context_tokens /= 2;
    EXPECT_EQ(fingerprint_of(one, {}), fingerprint_of(other, {}));
    EXPECT_NE(fingerprint_of(one, {}), fingerprint_of(files_of("llama_gqa7_head128_untied"), {}));
}

TEST(ModelFingerprint, EachBitOfAWeightCounts) {
    ModelFiles files = files_of();
    ChangeableWeights& weights = weights_of(files);
    const StoreName name = fingerprint_of(files, {});
    for (size_t i = 0; i < weights.tensors().size(); ++i) {
        const size_t bytes = weights.tensors()[i].bytes;
        for (const size_t byte : {size_t{0}, bytes / 2, bytes - 1}) {
            weights.flip(i, byte);
            EXPECT_NE(fingerprint_of(files, {}), name) << weights.tensors()[i].name << ", byte " << byte;
            weights.flip(i, byte);
        }
    }
    EXPECT_EQ(fingerprint_of(files, {}), name);
}

TEST(ModelFingerprint, WhatATensorIsCounts) {
    ModelFiles files = files_of();
    const StoreName name = fingerprint_of(files, {});
    FileTensor& tensor = weights_of(files).changeable().front();
    const FileTensor before = tensor;
    tensor.file_type = "F16";
    EXPECT_NE(fingerprint_of(files, {}), name) << "the same bytes are other numbers";
    tensor = before;
    std::ranges::reverse(tensor.shape);
    EXPECT_NE(fingerprint_of(files, {}), name);
    tensor = before;
    tensor.name += "x";
    EXPECT_NE(fingerprint_of(files, {}), name);
    tensor = before;
    EXPECT_EQ(fingerprint_of(files, {}), name);
}

TEST(ModelFingerprint, EachFieldThatChangesKvCounts) {
    ModelFiles files = files_of();
    const ModelSpec spec = files.spec;
    const std::vector<std::function<void(ModelSpec&)>> changes{
        [](auto& s) { s.architecture += "x"; },
        [](auto& s) { ++s.layers; },
        [](auto& s) { ++s.width; },
        [](auto& s) { ++s.heads; },
        [](auto& s) { ++s.kv_heads; },
        [](auto& s) { ++s.head_dim; },
        [](auto& s) { ++s.ffn_width; },
        [](auto& s) { ++s.vocabulary; },
        [](auto& s) { s.norm_eps *= 2; },
        [](auto& s) { s.attention_bias = !s.attention_bias; },
        [](auto& s) { s.output_bias = !s.output_bias; },
        [](auto& s) { s.mlp_bias = !s.mlp_bias; },
        [](auto& s) { s.qk_norm = !s.qk_norm; },
        [](auto& s) { s.paired_neighbours = !s.paired_neighbours; },
        [](auto& s) { ++s.sliding_window; },
        [](auto& s) { s.rope.theta += 1; },
        [](auto& s) { s.rope.scaling = RopeSpec::Scaling::linear; },
        [](auto& s) { s.rope.scaling = RopeSpec::Scaling::llama3; },
        [](auto& s) { s.rope.factor += 1; },
        [](auto& s) { s.rope.low_frequency_factor += 1; },
        [](auto& s) { s.rope.high_frequency_factor += 1; },
        [](auto& s) { ++s.rope.original_context; },
        [](auto& s) { s.rope.frequency_divisors.push_back(2.0); },
    };
    std::set<StoreName> names{fingerprint_of(files, {})};
    for (const auto& change : changes) {
        files.spec = spec;
        change(files.spec);
        names.insert(fingerprint_of(files, {}));
    }
    EXPECT_EQ(names.size(), changes.size() + 1);
}

TEST(ModelFingerprint, EachTensorOfAFolderCounts) {
    const testing::TemporaryFolder folder;
    write_tiny_model(folder);
    const std::filesystem::path file = folder.path() / "model.safetensors";
    const StoreName name = fingerprint_at(folder.path());
    EXPECT_EQ(fingerprint_at(folder.path()), name);
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(file));
    std::map<std::string, int64_t> middles;  // offsets in the file, which ends with its last tensor
    {
        const auto files = open_model_files(folder.path(), {});
        ASSERT_TRUE(files) << files.error().message;
        const std::byte* end = nullptr;
        for (const FileTensor& tensor : files->weights->tensors()) end = std::max(end, tensor.data + tensor.bytes);
        for (const FileTensor& tensor : files->weights->tensors())
            middles[tensor.name] = bytes - (end - tensor.data) + static_cast<int64_t>(tensor.bytes / 2);
    }
    EXPECT_EQ(middles.size(), spec_tensors(testing::tiny_spec()).size());
    std::set<StoreName> names{name};
    for (const auto& [tensor, middle] : middles) {
        testing::flip_bit(file, static_cast<uint64_t>(middle));
        EXPECT_TRUE(names.insert(fingerprint_at(folder.path())).second) << tensor;
        testing::flip_bit(file, static_cast<uint64_t>(middle));
    }
    EXPECT_EQ(fingerprint_at(folder.path()), name);
}

TEST(ModelFingerprint, EachTensorOfAQuantizedFileCounts) {
    const testing::TemporaryFolder folder;
    folder.write("q8_0.gguf", golden::gguf_twin(golden::read_case("llama_gqa1_head32_untied"), DType::q8_0));
    folder.write("q4_k.gguf", golden::gguf_of_blocks(golden::read_case("quantized_q4_k"), DType::q4_k));
    for (const char* file : {"q8_0.gguf", "q4_k.gguf"}) {
        auto opened = open_model_files(folder.path() / file, {});
        ASSERT_TRUE(opened) << opened.error().message;
        ModelFiles files = std::move(opened).value();
        const StoreName name = fingerprint_of(files, {});
        files.weights = std::make_unique<ChangeableWeights>(*files.weights);
        EXPECT_EQ(fingerprint_of(files, {}), name);
        EXPECT_EQ(fingerprint_at(folder.path() / file), name);
        ChangeableWeights& weights = weights_of(files);
        for (size_t i = 0; i < weights.tensors().size(); ++i) {
            weights.flip(i, weights.tensors()[i].bytes / 2);
            EXPECT_NE(fingerprint_of(files, {}), name) << file << ": " << weights.tensors()[i].name;
            weights.flip(i, weights.tensors()[i].bytes / 2);
        }
    }
}

TEST(ModelFingerprint, EachConfigThatComputesOtherwiseHasItsOwn) {
    using nlohmann::json;
    const auto llama3 = [](double factor, double low, double high, int context) {
        return json{{"rope_scaling",
                     {{"rope_type", "llama3"},
                      {"factor", factor},
                      {"low_freq_factor", low},
                      {"high_freq_factor", high},
                      {"original_max_position_embeddings", context}}}};
    };
    const std::vector<json> patches{
        json::object(),
        {{"rope_theta", 10001}},
        {{"rms_norm_eps", 1e-5}},
        {{"architectures", {"MistralForCausalLM"}}},
        {{"architectures", {"MistralForCausalLM"}}, {"sliding_window", nullptr}},
        {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 4}}}},
        {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}}},
        llama3(4, 1, 4, 32),
        llama3(2, 1, 4, 32),
        llama3(4, 2, 4, 32),
        llama3(4, 1, 8, 32),
        llama3(4, 1, 4, 64),
    };
    std::set<StoreName> names;
    for (const json& patch : patches) {
        const testing::TemporaryFolder folder;
        write_tiny_model(folder, patch);
        EXPECT_TRUE(names.insert(fingerprint_at(folder.path())).second) << patch;
    }
}

TEST(ModelFingerprint, WhatChangesNoKvDoesNotCount) {
    const testing::TemporaryFolder plain, other;
    write_tiny_model(plain);
    write_tiny_model(other, {{"max_position_embeddings", 64}, {"eos_token_id", 4}, {"torch_dtype", "float16"}});
    other.write("generation_config.json", R"({"eos_token_id":[3,4]})");
    other.write("tokenizer_config.json", R"({"chat_template":"T","bos_token":"<s>"})");
    EXPECT_EQ(fingerprint_at(plain.path()), fingerprint_at(other.path()));
}

TEST(ModelFingerprint, RandomWeightsAreThoseOfTheirSeedAndType) {
    const ModelFiles files = files_of();
    WeightsChoice one, other;
    one.random_seed = 1;
    other.random_seed = 2;
    std::set<StoreName> names{fingerprint_of(files, {}), fingerprint_of(files, one), fingerprint_of(files, other)};
    one.random_dtype = DType::f32;
    names.insert(fingerprint_of(files, one));
    one.random_seed = 0;
    names.insert(fingerprint_of(files, one));
    EXPECT_EQ(names.size(), 5U);
}

}  // namespace
}  // namespace rondo

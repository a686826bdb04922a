#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dtype.hpp"

/// The models of tests/fixtures/golden: 4 architectures × GQA ratios 1, 2, 7 × head sizes 32, 64, 128 × tied and
/// untied, with the logits an independent float64 program computed (tools/make_golden.py, which documents how weights
/// come from a seed).
///
///     for (const golden::Case& model : golden::read_cases("qwen2")) {
///         const golden::Folder folder(model, DType::bf16);       // config.json + model.safetensors, gone with the
///         object …load folder.path(), run model.ids, keep the logits of positions model.rows…
///         EXPECT_LE(golden::relative_error(logits, model.bf16), 2e-2) << model.name;
///     }
///
/// For tests only: what is wrong with a fixture is thrown as std::exception.
namespace rondo::golden {

struct Case {
    std::string name;  ///< "qwen2_gqa7_head64_tied"
    std::string config_json;
    uint64_t seed = 0;
    int64_t vocabulary = 0;
    std::vector<int32_t> ids;
    std::vector<int64_t> rows;  ///< the positions whose logits follow
    std::vector<float> f32;     ///< [rows, vocabulary], of the float weights
    std::vector<float> bf16;    ///< the same of the weights rounded to bf16 (all else still float64)
};

/// The cases of "llama", "mistral", "qwen2" or "qwen3"; those of "quantized" have no `bf16`, and weights of their
/// own (gguf_of_blocks).
std::vector<Case> read_cases(const std::string& architecture);
/// The one of this name.
Case read_case(const std::string& name);
/// All of them, for INSTANTIATE_TEST_SUITE_P.
std::vector<Case> read_all_cases();

/// The case with another number of layers, made from its seed as the first ones are; what it answers nobody has
/// computed.
Case with_layers(Case model, int layers);

/// The numbers that a tensor is made of, one after the other.
class BitStream {
public:
    BitStream(uint64_t seed, std::string_view tensor);
    uint64_t next();

private:
    uint64_t state_;
};

struct HostTensor {
    std::string name;            ///< Hugging Face's
    std::vector<int64_t> shape;  ///< outermost first
    std::vector<float> values;
};

/// The case's weights in float32, in the order files list them.
std::vector<HostTensor> tensors(const Case& model);
/// Values as a file of this type (f32, bf16 or f16) holds them.
std::vector<std::byte> encode(std::span<const float> values, DType dtype);

/// A Hugging Face folder of the case in the system's temporary directory.
class Folder {
public:
    Folder(const Case& model, DType dtype);
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

/// |actual − reference| / |reference|; infinite where the lengths differ or a value is not finite.
double relative_error(std::span<const float> actual, std::span<const float> reference);

}  // namespace rondo::golden

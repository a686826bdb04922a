#pragma once

#include <string>

#include "tests/model/golden_models.hpp"

/// The same model as a GGUF file, written the way llama.cpp's converter does it: Llama's q and k rows permuted so that
/// rotated pairs are neighbours, vectors in F32, llama3's RoPE scaling as the tensor rope_freqs.weight.
namespace rondo::golden {

/// The bytes of the file, without a vocabulary. Matrices are F32 or Q8_0; Mistral becomes a "llama", as in llama.cpp.
std::string gguf_twin(const Case& model, DType matrices = DType::f32);

/// The GGUF file of one of the "quantized" cases, whose matrices are random blocks of this type, or the F32 values that
/// those stand for.
std::string gguf_of_blocks(const Case& model, DType matrices, bool dequantized = false);

/// Values as blocks of Q8_0: 32 of them and their scale.
std::string quantize_q8_0(std::span<const float> values);

}  // namespace rondo::golden

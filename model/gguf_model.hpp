#pragma once

#include <string>

#include "config/result.hpp"
#include "model/files/gguf.hpp"
#include "model/files/spec.hpp"
#include "model/text/tokenizer.hpp"

namespace rondo {

/// The spec of a GGUF file: architectures llama (Mistral's files among them), qwen2 and qwen3. Of a split model the
/// tensors of all parts must be there, because they tell ties and biases.
Result<ModelSpec> spec_from_gguf(const GgufFile& file);

/// The tokenizer's fields; `tokens` is empty when the file has none.
Result<GgufVocabulary> vocabulary_from_gguf(const GgufFile& file);

/// tokenizer.chat_template, "" when absent.
Result<std::string> chat_template_from_gguf(const GgufFile& file);

}  // namespace rondo

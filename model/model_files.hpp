#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/result.hpp"
#include "model/files/spec.hpp"
#include "model/files/weights_file.hpp"
#include "model/text/tokenizer.hpp"

namespace rondo {

/// Where the weights come from: the model's own file, or a generator (then no weights need be there).
struct WeightsChoice {
    std::optional<uint64_t> random_seed;
    DType random_dtype = DType::bf16;  ///< or f32
    bool fingerprint = false;          ///< the model's is wanted, for which all weights are read once more
    size_t kv_bytes = 0;               ///< that a KV pool will fill beside them, in the same memory
};

/// What to do about a model's weights: a tokenizer needs none.
enum class WeightsNeed : uint8_t { needed, if_there, not_read };

/// Reads "auto", "file" (the same) or "random:SEED".
Result<WeightsChoice> parse_weights_choice(std::string_view text);

/// All that a model's files hold. The tokenizer's source is one of two; both are empty for a folder without
/// tokenizer.json.
struct ModelFiles {
    ModelSpec spec;
    std::unique_ptr<WeightsFile> weights;  ///< none unless they were needed, or were there to be read
    std::string tokenizer_json;
    std::optional<AroundText> around_text;  ///< in place of what tokenizer_json says
    std::optional<GgufVocabulary> gguf_vocabulary;
    std::string chat_template;  ///< Jinja; "" when the model has none
    std::string bos_token;
    std::string eos_token;
    std::string name;  ///< of the folder, or of the file without its ending
};

/// Opens a Hugging Face folder or a GGUF file (recognised by its first bytes) and checks that its tensors are what its
/// configuration needs. Tensor data is mapped, not read.
Result<ModelFiles> open_model_files(const std::filesystem::path& path, const WeightsChoice& choice,
                                    WeightsNeed need = WeightsNeed::needed);

/// Every id a tokenizer can give must have a row in the embedding. For whoever has made the tokenizer.
Status check_vocabulary(const ModelSpec& spec, int64_t tokenizer_vocabulary, const std::string& where);

}  // namespace rondo

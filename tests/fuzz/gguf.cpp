#include "model/files/gguf.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "model/files/mapped_file.hpp"
#include "model/files/mapped_weights.hpp"
#include "model/files/spec_tensors.hpp"
#include "model/gguf_model.hpp"
#include "tests/model/model_bytes.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t size_max);

/// Starts from a whole small model, which chance would not find, and goes on by libFuzzer's own mutations.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t size_max, unsigned) {
    if (size >= 24) return LLVMFuzzerMutate(data, size, size_max);
    static const std::string whole = [] {
        rondo::testing::GgufBytes bytes = rondo::testing::gguf_metadata("llama");
        bytes.tensor("rope_freqs.weight", {8}, 0, std::string(32, '?'));
        return bytes.tensor("token_embd.weight", {64, 5}, 0, std::string(1280, '\0')).file();
    }();
    const size_t copied = std::min(whole.size(), size_max);
    std::memcpy(data, whole.data(), copied);
    return copied;
}

/// What a tokenizer that loads must do with any text: give ids of its own, and text back.
static void tokenize(const rondo::GgufVocabulary& vocabulary) {
    const auto tokenizer = rondo::tokenizer_from_gguf(vocabulary, "fuzz");
    if (!tokenizer) return;
    const auto ids = (*tokenizer)->encode("ab <|im_end|> \xC3\xA9\n12", true);
    if (!ids) return;
    for (const int32_t id : *ids) {
        if (id < 0 || id >= (*tokenizer)->vocabulary()) std::abort();
    }
    (void)(*tokenizer)->decode(*ids, true);
}

/// A GGUF file: container, spec, vocabulary with its tokenizer, and the check of its tensors against the spec.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    const auto gguf = rondo::GgufFile::parse(bytes, "fuzz");
    if (!gguf) return 0;
    const rondo::MappedFile file = rondo::MappedFile::over(bytes);
    unsigned sum = 0;
    for (const rondo::FileTensor& tensor : gguf->tensors()) {
        if (!file.contains({tensor.data, tensor.bytes})) std::abort();
        for (size_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
    }
    volatile unsigned read = sum;
    (void)read;
    if (const auto vocabulary = rondo::vocabulary_from_gguf(*gguf)) tokenize(*vocabulary);
    (void)rondo::chat_template_from_gguf(*gguf).is_ok();
    const auto spec = rondo::spec_from_gguf(*gguf);
    const auto weights = rondo::make_mapped_weights({}, gguf->tensors(), "fuzz");
    if (!spec || !weights) return 0;
    (void)rondo::check_weights(*spec, **weights, "fuzz").is_ok();
    (void)spec->inverse_frequency();
    return 0;
}

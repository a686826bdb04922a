#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/gguf_model.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using testing::as_bytes;
using ::testing::ElementsAre;
using testing::gguf_metadata;
using testing::GgufBytes;
using ::testing::HasSubstr;

Result<ModelSpec> spec_of(const GgufBytes& bytes) {
    const std::string file = bytes.file();
    RONDO_ASSIGN(const GgufFile gguf, GgufFile::parse(as_bytes(file), "x.gguf"));
    return spec_from_gguf(gguf);
}

std::string spec_error(const GgufBytes& bytes) {
    const auto spec = spec_of(bytes);
    return spec ? "none" : spec.error().message;
}

TEST(SpecFromGguf, ReadsTheShape) {
    GgufBytes bytes = gguf_metadata("llama");
    testing::add_gguf_tensors(bytes);
    const auto spec = spec_of(bytes);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->architecture, "llama");
    EXPECT_EQ(spec->layers, 2);
    EXPECT_EQ(spec->width, 64);
    EXPECT_EQ(spec->heads, 4);
    EXPECT_EQ(spec->kv_heads, 2);
    EXPECT_EQ(spec->head_dim, 16);
    EXPECT_EQ(spec->ffn_width, 96);
    EXPECT_EQ(spec->vocabulary, 5);
    EXPECT_EQ(spec->context_tokens, 512);
    EXPECT_FLOAT_EQ(spec->norm_eps, 1e-5F);
    EXPECT_EQ(spec->rope.theta, 50000.0);
    EXPECT_EQ(spec->bos_id, 4);
    EXPECT_TRUE(spec->tied_embeddings);
    EXPECT_TRUE(spec->paired_neighbours);
    EXPECT_FALSE(spec->attention_bias || spec->output_bias || spec->mlp_bias || spec->qk_norm);
}

TEST(SpecFromGguf, ControlTokensThatEndATurnEndAnAnswer) {
    EXPECT_THAT(spec_of(gguf_metadata("qwen2"))->eos_ids, ElementsAre(3, 4));
    EXPECT_THAT(spec_of(gguf_metadata("qwen2").u32("tokenizer.ggml.eot_token_id", 1))->eos_ids, ElementsAre(3, 1, 4));
    EXPECT_THAT(spec_of(gguf_metadata("qwen2").u32("tokenizer.ggml.eot_token_id", UINT32_MAX))->eos_ids,
                ElementsAre(3, 4));
    EXPECT_THAT(spec_error(gguf_metadata("qwen2").u32("tokenizer.ggml.eot_token_id", 5)),
                HasSubstr("'tokenizer.ggml.eot_token_id' must be an integer from -1 to 4"));
}

TEST(SpecFromGguf, WhatEndsATurnIsControlWhateverTheFileCallsIt) {
    for (const int32_t type : {1, 4}) {
        const std::string file = GgufBytes()
                                     .string("tokenizer.ggml.model", "gpt2")
                                     .strings("tokenizer.ggml.tokens", {"a", "<|im_end|>", "<|end|>", "<|ends|>"})
                                     .numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, type, type, type})
                                     .file();
        const auto vocabulary = vocabulary_from_gguf(*GgufFile::parse(as_bytes(file), "x"));
        ASSERT_TRUE(vocabulary) << vocabulary.error().message;
        EXPECT_THAT(vocabulary->types, ElementsAre(1, 3, 3, type));
    }
    EXPECT_THAT(spec_of(gguf_metadata("qwen2").u32("tokenizer.ggml.eom_token_id", 1))->eos_ids, ElementsAre(3, 1, 4));
}

TEST(SpecFromGguf, TensorsTellBiasesAndTies) {
    GgufBytes bytes = gguf_metadata("qwen2");
    bytes.tensor("output.weight", {1}, 0, "1234").tensor("blk.0.attn_q.bias", {1}, 0, "1234");
    bytes.tensor("blk.0.attn_output.bias", {1}, 0, "1234").tensor("blk.0.ffn_gate.bias", {1}, 0, "1234");
    const auto spec = spec_of(bytes);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_FALSE(spec->tied_embeddings);
    EXPECT_TRUE(spec->attention_bias && spec->output_bias && spec->mlp_bias);
    EXPECT_FALSE(spec->paired_neighbours);
    EXPECT_TRUE(spec_of(gguf_metadata("qwen3"))->qk_norm);
}

TEST(SpecFromGguf, VocabularyComesFromTheKeyThenTheTableThenTheTokens) {
    EXPECT_EQ(spec_of(gguf_metadata("llama"))->vocabulary, 5);
    GgufBytes table = gguf_metadata("llama");
    table.tensor("token_embd.weight", {1, 8}, 0, std::string(32, '\0'));
    EXPECT_EQ(spec_of(table)->vocabulary, 8);
    EXPECT_EQ(spec_of(table.u32("llama.vocab_size", 9))->vocabulary, 9);
    EXPECT_THAT(spec_error(gguf_metadata("llama").u32("llama.vocab_size", 4)),
                HasSubstr("token id 4 is not below the vocabulary, 4"));
}

TEST(SpecFromGguf, FrequencyDivisorsAreTakenExactly) {
    std::string divisors;
    for (int i = 0; i < 8; ++i) testing::append(divisors, 1.0F + static_cast<float>(i) / 3.0F);
    GgufBytes bytes = gguf_metadata("llama");
    bytes.tensor("rope_freqs.weight", {8}, 0, divisors);
    const auto spec = spec_of(bytes);
    ASSERT_TRUE(spec) << spec.error().message;
    ModelSpec plain = *spec;
    plain.rope.frequency_divisors.clear();
    for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(spec->inverse_frequency()[i],
                  plain.inverse_frequency()[i] / static_cast<double>(1.0F + static_cast<float>(i) / 3.0F));
    }
    const auto with_divisors = [&](uint64_t count, uint32_t type, const std::string& data) {
        return spec_error(gguf_metadata("llama").tensor("rope_freqs.weight", {count}, type, data));
    };
    EXPECT_THAT(with_divisors(7, 0, divisors), HasSubstr("'rope_freqs.weight' must be 8 positive F32 numbers"));
    EXPECT_THAT(with_divisors(8, 1, divisors), HasSubstr("F32"));
    EXPECT_THAT(with_divisors(8, 0, std::string(32, '\0')), HasSubstr("positive"));
    EXPECT_THAT(with_divisors(8, 0, std::string(32, '\xFF')), HasSubstr("positive"));
}

TEST(SpecFromGguf, ScalingsAndVariantsThatAreNotComputedAreNamed) {
    const auto linear = spec_of(
        gguf_metadata("llama").string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0F));
    ASSERT_TRUE(linear) << linear.error().message;
    EXPECT_EQ(linear->rope.scaling, RopeSpec::Scaling::linear);
    EXPECT_EQ(linear->rope.factor, 4.0);
    EXPECT_EQ(spec_of(gguf_metadata("llama").f32("llama.rope.scale_linear", 2.0F))->rope.factor, 2.0);
    EXPECT_EQ(spec_of(gguf_metadata("llama").string("llama.rope.scaling.type", "none"))->rope.scaling,
              RopeSpec::Scaling::none);
    EXPECT_EQ(spec_of(gguf_metadata("llama"))->rope.scaling, RopeSpec::Scaling::none);
    const auto untyped = spec_of(gguf_metadata("llama").f32("llama.rope.scaling.factor", 8.0F));
    ASSERT_TRUE(untyped) << untyped.error().message;
    EXPECT_EQ(untyped->rope.scaling, RopeSpec::Scaling::linear);
    EXPECT_EQ(untyped->rope.factor, 8.0);
    EXPECT_THAT(spec_error(gguf_metadata("llama").string("llama.rope.scaling.type", "yarn")),
                HasSubstr("'yarn' is not supported; none, linear"));
    EXPECT_THAT(spec_error(gguf_metadata("llama").u32("llama.rope.dimension_count", 8)),
                HasSubstr("dimension_count' must be an integer from 16 to 16"));
    EXPECT_EQ(spec_of(gguf_metadata("llama").u32("llama.attention.key_length", 32))->head_dim, 32);
    EXPECT_THAT(
        spec_error(
            gguf_metadata("llama").u32("llama.attention.key_length", 32).u32("llama.attention.value_length", 16)),
        HasSubstr("value_length"));
    EXPECT_EQ(spec_error(gguf_metadata("gemma")),
              "x.gguf: architecture 'gemma' is not supported; llama, qwen2 and qwen3 are");
    EXPECT_THAT(spec_error(GgufBytes()), HasSubstr("architecture '' is not supported"));
    EXPECT_THAT(spec_error(GgufBytes().string("general.architecture", "llama")),
                HasSubstr("'llama.block_count' is missing"));
}

TEST(SpecFromGguf, FilesThatAreNoDenseLanguageModelAreNamed) {
    const auto of_type = [](const char* type) {
        return spec_error(gguf_metadata("llama").string("general.type", type));
    };
    EXPECT_EQ(of_type("model"), "none");
    EXPECT_EQ(of_type("adapter"),
              "x.gguf: an adapter (LoRA), not a model; merge it into its base model and give that file");
    EXPECT_EQ(of_type("mmproj"),
              "x.gguf: the image or sound part of a model (mmproj); give the language model's own file");
    EXPECT_EQ(spec_error(GgufBytes().string("general.architecture", "clip")), of_type("mmproj"));
    EXPECT_EQ(of_type("imatrix"), "x.gguf: an importance matrix, not a model; give the model's own file");
    EXPECT_THAT(spec_error(gguf_metadata("llama").u32("general.type", 1)),
                HasSubstr("'general.type' must be a string"));
    EXPECT_EQ(spec_error(gguf_metadata("llama").u32("llama.expert_count", 0)), "none");
    for (const char* architecture : {"llama", "qwen3moe", "deepseek2"}) {
        EXPECT_EQ(spec_error(gguf_metadata(architecture).u32(std::string(architecture) + ".expert_count", 8)),
                  "x.gguf: a mixture of experts (" + std::string(architecture) +
                      ".expert_count is 8), which is not supported; take a dense llama, qwen2 or qwen3 model");
    }
}

/// The metadata of gguf_metadata("llama") with one entry of another type or value: last, and so the one that is missing
/// where it stood. GGUF has no null; what stands in for it is a wrong type, NaN, or a number out of range.
GgufBytes metadata_with(const std::string& key, uint32_t type, const std::string& payload) {
    GgufBytes out;
    out.string("general.architecture", "llama").raw(key, type, payload);
    const auto add_u32 = [&](const char* name, uint32_t value) {
        if (key != name) out.u32(name, value);
    };
    const auto add_f32 = [&](const char* name, float value) {
        if (key != name) out.f32(name, value);
    };
    add_u32("llama.block_count", 2);
    add_u32("llama.context_length", 512);
    add_u32("llama.embedding_length", 64);
    add_u32("llama.feed_forward_length", 96);
    add_u32("llama.attention.head_count", 4);
    add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    out.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a", "b"});
    return out;
}

template <class T>
std::string bytes_of(T value) {
    std::string out;
    testing::append(out, value);
    return out;
}

TEST(SpecFromGguf, EveryNumberOfAWrongTypeIsRefused) {
    ASSERT_EQ(spec_error(metadata_with("llama.attention.head_count_kv", 4, bytes_of(uint32_t{2}))), "none");
    const std::pair<uint32_t, std::string> no_integers[] = {{6, bytes_of(2.0F)},
                                                            {6, bytes_of(std::nanf(""))},
                                                            {7, bytes_of(uint8_t{1})},
                                                            {8, GgufBytes::text("2")},
                                                            {9, GgufBytes::array_head(4, 1) + bytes_of(uint32_t{2})},
                                                            {10, bytes_of(UINT64_MAX)},
                                                            {11, bytes_of(INT64_MIN)},
                                                            {12, bytes_of(2.0)}};
    for (const std::string name :
         {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
          "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.sliding_window",
          "rope.dimension_count", "expert_count", "vocab_size"}) {
        for (const auto& [type, payload] : no_integers) {
            EXPECT_THAT(spec_error(metadata_with("llama." + name, type, payload)),
                        HasSubstr("metadata 'llama." + name + "' must be an integer from "))
                << type;
        }
    }
    for (const std::string name : {"bos_token_id", "eos_token_id", "eot_token_id", "unknown_token_id"}) {
        for (const auto& [type, payload] : no_integers) {
            EXPECT_THAT(spec_error(metadata_with("tokenizer.ggml." + name, type, payload)),
                        HasSubstr("'tokenizer.ggml." + name + "' must be an integer from "))
                << type;
        }
    }
}

TEST(SpecFromGguf, EveryFloatThatIsNoNumberIsRefused) {
    ASSERT_EQ(spec_error(metadata_with("llama.rope.freq_base", 12, bytes_of(5e4))), "none");
    const std::pair<uint32_t, std::string> no_floats[] = {
        {6, bytes_of(std::nanf(""))}, {6, bytes_of(-INFINITY)},     {6, bytes_of(INFINITY)},
        {6, bytes_of(0.0F)},          {12, bytes_of(std::nan(""))}, {12, bytes_of(-1.0)},
        {4, bytes_of(uint32_t{1})},   {7, bytes_of(uint8_t{1})},    {8, GgufBytes::text("1e-5")}};
    for (const std::string name :
         {"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scale_linear", "rope.scaling.factor"}) {
        for (const auto& [type, payload] : no_floats) {
            EXPECT_THAT(spec_error(metadata_with("llama." + name, type, payload)),
                        HasSubstr("metadata 'llama." + name + "' must be a float from "))
                << type;
        }
    }
}

TEST(GgufVocabulary, IsFilledFromTheMetadata) {
    const std::string file = gguf_metadata("qwen2").boolean("tokenizer.ggml.add_bos_token", true).file();
    const auto gguf = GgufFile::parse(as_bytes(file), "x");
    ASSERT_TRUE(gguf);
    const auto vocabulary = vocabulary_from_gguf(*gguf);
    ASSERT_TRUE(vocabulary) << vocabulary.error().message;
    EXPECT_EQ(vocabulary->model, "gpt2");
    EXPECT_EQ(vocabulary->pre, "qwen2");
    EXPECT_THAT(vocabulary->tokens, ElementsAre("a", "b", "ab", "<|im_end|>", "<|endoftext|>"));
    EXPECT_THAT(vocabulary->types, ElementsAre(1, 1, 1, 3, 3));
    EXPECT_THAT(vocabulary->merges, ElementsAre("a b"));
    EXPECT_EQ(vocabulary->eos_id, 3);
    EXPECT_EQ(vocabulary->unknown_id, -1);
    EXPECT_TRUE(vocabulary->add_bos);
    EXPECT_EQ(*chat_template_from_gguf(*gguf), "{{ messages }}");
}

TEST(GgufVocabulary, WithoutAWordOnBosItIsAddedAsLlamaCppDoes) {
    const auto adds_bos = [](const std::string& model, const std::string& pre, int bos, const char* said = "") {
        GgufBytes bytes;
        bytes.string("tokenizer.ggml.model", model).string("tokenizer.ggml.pre", pre);
        bytes.strings("tokenizer.ggml.tokens", {"a", "b"});
        if (bos >= 0) bytes.u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(bos));
        if (*said != '\0') bytes.boolean("tokenizer.ggml.add_bos_token", *said == 'y');
        const std::string file = bytes.file();
        return vocabulary_from_gguf(*GgufFile::parse(as_bytes(file), "x"))->add_bos;
    };
    EXPECT_TRUE(adds_bos("llama", "default", 0));
    for (const char* pre : {"llama3", "llama-v3", "llama-bpe", "tekken"}) {
        EXPECT_TRUE(adds_bos("gpt2", pre, 0)) << pre;
        EXPECT_FALSE(adds_bos("gpt2", pre, -1)) << pre << " without a BOS token";
        EXPECT_FALSE(adds_bos("gpt2", pre, 0, "no")) << pre;
    }
    for (const char* pre : {"qwen2", "gpt-2", "default", ""}) {
        EXPECT_FALSE(adds_bos("gpt2", pre, 0)) << pre;
        EXPECT_TRUE(adds_bos("gpt2", pre, 0, "yes")) << pre;
    }
}

/// Converters have named it since May 2024.
TEST(GgufVocabulary, WithoutAPreTokenizerItIsItsFamilys) {
    const auto pre = [](const std::string& architecture, size_t tokens, const std::string& model = "gpt2") {
        std::vector<std::string> texts;
        for (size_t i = 0; i < tokens; ++i) texts.push_back(std::to_string(i));
        const std::string file = GgufBytes()
                                     .string("general.architecture", architecture)
                                     .string("tokenizer.ggml.model", model)
                                     .strings("tokenizer.ggml.tokens", texts)
                                     .file();
        return vocabulary_from_gguf(*GgufFile::parse(as_bytes(file), "x"))->pre;
    };
    EXPECT_EQ(pre("qwen2", 10), "qwen2");
    EXPECT_EQ(pre("llama", 128256), "llama-bpe");
    EXPECT_EQ(pre("llama", 10), "");
    EXPECT_EQ(pre("llama", 128256, "llama"), "");
}

TEST(GgufVocabulary, SentencePieceHasIdsOfItsOwnWhereTheFileHasNone) {
    const auto read = [](const std::string& model, bool says_none) {
        GgufBytes bytes;
        bytes.string("tokenizer.ggml.model", model).strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a"});
        if (says_none) bytes.u32("tokenizer.ggml.eos_token_id", UINT32_MAX);
        const std::string file = bytes.file();
        return vocabulary_from_gguf(*GgufFile::parse(as_bytes(file), "x")).value();
    };
    const GgufVocabulary pieces = read("llama", false), bytes = read("gpt2", false);
    EXPECT_EQ(pieces.bos_id, 1);
    EXPECT_EQ(pieces.eos_id, 2);
    EXPECT_EQ(pieces.unknown_id, 0);
    EXPECT_EQ(read("llama", true).eos_id, -1) << "the file says that there is none";
    for (const int32_t id : {bytes.bos_id, bytes.eos_id, bytes.unknown_id}) EXPECT_EQ(id, -1);
}

TEST(GgufVocabulary, ListsOfDifferentLengthsAreRefused) {
    const std::string types = GgufBytes()
                                  .strings("tokenizer.ggml.tokens", {"a", "b"})
                                  .numbers<int32_t>("tokenizer.ggml.token_type", 5, {1})
                                  .file();
    EXPECT_EQ(vocabulary_from_gguf(*GgufFile::parse(as_bytes(types), "x")).error().message,
              "x: 1 token types for 2 tokens");
    const std::string scores = GgufBytes()
                                   .strings("tokenizer.ggml.tokens", {"a", "b"})
                                   .numbers<float>("tokenizer.ggml.scores", 6, {1, 2, 3})
                                   .file();
    EXPECT_EQ(vocabulary_from_gguf(*GgufFile::parse(as_bytes(scores), "x")).error().message,
              "x: 3 token scores for 2 tokens");
    const std::string id =
        GgufBytes().strings("tokenizer.ggml.tokens", {"a", "b"}).u32("tokenizer.ggml.bos_token_id", 2).file();
    EXPECT_THAT(vocabulary_from_gguf(*GgufFile::parse(as_bytes(id), "x")).error().message, HasSubstr("from -1 to 1"));
}

}  // namespace
}  // namespace rondo

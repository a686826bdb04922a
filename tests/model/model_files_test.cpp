#include "model/model_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "kernels/backend.hpp"
#include "model/files/spec_tensors.hpp"
#include "model/model.hpp"
#include "model/random_weights.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using testing::GgufBytes;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::tiny_config;
using testing::tiny_spec;

/// The tensors of the tiny model after a change.
template <class Change>
std::string weights_after(Change change) {
    std::vector<SpecTensor> tensors = spec_tensors(tiny_spec());
    change(tensors);
    return testing::safetensors_of(tensors);
}

void write_tiny(const TemporaryFolder& folder) {
    folder.write("config.json", tiny_config);
    folder.write("model.safetensors", weights_after([](auto&) {}));
}

std::string files_error(const std::filesystem::path& path, const WeightsChoice& choice = {}) {
    const auto files = open_model_files(path, choice);
    return files ? "none" : files.error().message;
}

TEST(ModelFiles, OpenAFolder) {
    const TemporaryFolder folder;
    write_tiny(folder);
    folder.write("generation_config.json", R"({"eos_token_id":[3,4]})");
    folder.write("tokenizer.json", "{\"model\":1}");
    folder.write("tokenizer_config.json", R"({"chat_template":"T","bos_token":"<s>","eos_token":{"content":"</s>"}})");
    const auto files = open_model_files(folder.path(), {});
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_THAT(files->spec.eos_ids, ElementsAre(3, 4));
    EXPECT_NE(files->weights->find("lm_head.weight"), nullptr);
    EXPECT_EQ(files->tokenizer_json, "{\"model\":1}");
    EXPECT_FALSE(files->gguf_vocabulary);
    EXPECT_EQ(files->chat_template, "T");
    EXPECT_EQ(files->bos_token, "<s>");
    EXPECT_EQ(files->eos_token, "</s>");
    EXPECT_EQ(files->name, folder.path().filename());
    EXPECT_EQ(open_model_files(folder.path() / "", {})->name, folder.path().filename());
}

TEST(ModelFiles, ChatTemplateMayBeAListOrAFile) {
    const TemporaryFolder folder;
    write_tiny(folder);
    folder.write(
        "tokenizer_config.json",
        R"({"chat_template":[{"name":"tool_use","template":"U"},{"name":"default","template":"D"}],"bos_token":null})");
    EXPECT_EQ(open_model_files(folder.path(), {})->chat_template, "D");
    EXPECT_EQ(open_model_files(folder.path(), {})->bos_token, "");
    folder.write("chat_template.jinja", "J");
    EXPECT_EQ(open_model_files(folder.path(), {})->chat_template, "J");
    folder.write("tokenizer_config.json", R"({"chat_template":7})");
    EXPECT_THAT(files_error(folder.path()), HasSubstr("tokenizer_config.json: chat_template must be a string"));
    folder.write("tokenizer_config.json", R"({"chat_template":["x"]})");
    EXPECT_THAT(files_error(folder.path()), HasSubstr("list of {name, template}"));
    folder.write("tokenizer_config.json", R"({"bos_token":{"content":7}})");
    EXPECT_THAT(files_error(folder.path()), HasSubstr("bos_token.content must be a string"));
    folder.write("tokenizer_config.json", "{}");
    folder.write("chat_template.jinja", std::string((1 << 20) + 1, 'x'));
    EXPECT_THAT(files_error(folder.path()), HasSubstr("at most 1048576"));
}

/// A base model that was tuned for chats names its new end in the tokenizer's configuration alone.
TEST(ModelFiles, TheTokenizersEndEndsAnAnswerToo) {
    const TemporaryFolder folder;
    write_tiny(folder);
    folder.write("generation_config.json", R"({"eos_token_id":3})");
    folder.write("tokenizer.json",
                 R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"<s>":2,"</s>":3},"merges":[]},)"
                 R"("decoder":{"type":"Fuse"},"added_tokens":[{"id":4,"content":"<|im_end|>","special":true}]})");
    const auto ends = [&](const std::string& config) {
        folder.write("tokenizer_config.json", config);
        return load_model_text(folder.path()).value().spec.eos_ids;
    };
    EXPECT_THAT(ends(R"({"eos_token":"<|im_end|>"})"), ElementsAre(3, 4));
    EXPECT_THAT(ends(R"({"eos_token":"</s>"})"), ElementsAre(3));
    EXPECT_THAT(ends(R"({"eos_token":"unknown"})"), ElementsAre(3));
    EXPECT_THAT(ends("{}"), ElementsAre(3));
}

/// As Hugging Face's Llama classes do whatever tokenizer.json says, which DeepSeek's relies on.
TEST(ModelFiles, LlamaTokenizersPutTheirTokensAroundAText) {
    const TemporaryFolder folder;
    write_tiny(folder);
    folder.write("tokenizer.json", R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"<s>":2,"</s>":3},"merges":[]},)"
                                   R"("decoder":{"type":"Fuse"}})");
    const auto ids = [&](const std::string& config) {
        folder.write("tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"</s>")" + config + "}");
        return load_model_text(folder.path()).value().encode_text("ab").value();
    };
    EXPECT_THAT(ids(R"(,"tokenizer_class":"PreTrainedTokenizerFast","add_bos_token":true)"), ElementsAre(0, 1));
    EXPECT_THAT(ids(R"(,"tokenizer_class":"LlamaTokenizerFast")"), ElementsAre(2, 0, 1));
    EXPECT_THAT(ids(R"(,"tokenizer_class":"LlamaTokenizer","add_eos_token":true)"), ElementsAre(2, 0, 1, 3));
    EXPECT_THAT(ids(R"(,"tokenizer_class":"LlamaTokenizerFast","add_bos_token":false)"), ElementsAre(0, 1));
    folder.write(
        "tokenizer.json",
        R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"<s>":2,"</s>":3},"merges":[]},"decoder":{"type":"Fuse"},)"
        R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
        R"({"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"<s>":{"id":"<s>","ids":[2]}}}})");
    folder.write("tokenizer_config.json", R"({"tokenizer_class":"LlamaTokenizer"})");
    EXPECT_THAT(load_model_text(folder.path()).value().encode_text("ab").value(), ElementsAre(2, 0, 1))
        << "where the configuration does not name it, it is the file's";
}

TEST(ModelFiles, ATemplateThatCannotBeReadLeavesPlainTexts) {
    const TemporaryFolder folder;
    write_tiny(folder);
    folder.write("tokenizer.json",
                 R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},"decoder":{"type":"Fuse"}})");
    folder.write("tokenizer_config.json", R"({"chat_template":"{% include 'x' %}"})");
    const auto model = load_model_text(folder.path());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_THAT(model->encode_text("ab").value(), ElementsAre(0, 1));
    EXPECT_THAT(model->encode_chat({{"user", "a"}}).error().message, HasSubstr("tag 'include' is not supported"));
}

TEST(ModelFiles, NullAndAByteOrderMarkInTokenizerConfig) {
    const TemporaryFolder folder;
    write_tiny(folder);
    const std::string mark = "\xEF\xBB\xBF";
    folder.write("tokenizer_config.json", mark + R"({"bos_token":null,"eos_token":null,"chat_template":null,)"
                                                 R"("model_max_length":null,"pad_token":null})");
    const auto files = open_model_files(folder.path(), {});
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_EQ(files->bos_token + files->eos_token + files->chat_template, "");
    folder.write("tokenizer_config.json", R"({"bos_token":{"content":null}})");
    EXPECT_THAT(files_error(folder.path()), HasSubstr("tokenizer_config.json: bos_token.content must be a string"));
    folder.write("tokenizer_config.json", R"({"eos_token":3})");
    EXPECT_THAT(files_error(folder.path()), HasSubstr("tokenizer_config.json: eos_token must be a string"));
    folder.write("tokenizer_config.json", R"({"chat_template":[{"name":"default","template":null}]})");
    EXPECT_THAT(files_error(folder.path()), HasSubstr("chat_template[].template must be a string"));
    // A template is text, where the mark is a character as any other: the prompts are those of Hugging Face's.
    folder.write("tokenizer_config.json", "{}");
    folder.write("chat_template.jinja", mark + "T");
    EXPECT_EQ(open_model_files(folder.path(), {})->chat_template, mark + "T");
}

TEST(ModelFiles, RandomWeightsNeedNoWeights) {
    const TemporaryFolder folder;
    folder.write("config.json", tiny_config);
    EXPECT_THAT(files_error(folder.path()), HasSubstr("no weights"));
    const auto files = open_model_files(folder.path(), {.random_seed = 7});
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_TRUE(check_weights(files->spec, *files->weights, "m"));
    EXPECT_EQ(files->weights->find("model.norm.weight")->dtype, DType::bf16);
    EXPECT_EQ(open_model_files(folder.path(), {.random_seed = 7, .random_dtype = DType::f32})
                  ->weights->find("model.norm.weight")
                  ->dtype,
              DType::f32);
}

TEST(ModelFiles, WhoNeedsNoWeightsOpensAFolderWithoutThem) {
    const TemporaryFolder folder;
    folder.write("config.json", tiny_config);
    for (const WeightsNeed need : {WeightsNeed::if_there, WeightsNeed::not_read}) {
        const auto files = open_model_files(folder.path(), {}, need);
        ASSERT_TRUE(files) << files.error().message;
        EXPECT_EQ(files->weights, nullptr);
        EXPECT_EQ(files->spec.layers, 2);
    }
    folder.write("model.safetensors", weights_after([](auto&) {}));
    EXPECT_NE(open_model_files(folder.path(), {}, WeightsNeed::if_there)->weights, nullptr);
    EXPECT_EQ(open_model_files(folder.path(), {}, WeightsNeed::not_read)->weights, nullptr);
    // Weights that are there must be right, unless nobody reads them.
    folder.write("model.safetensors", "short");
    EXPECT_FALSE(open_model_files(folder.path(), {}, WeightsNeed::if_there));
    EXPECT_TRUE(open_model_files(folder.path(), {}, WeightsNeed::not_read));
}

TEST(ModelFiles, ATokenizerNeedsNoWeights) {
    const TemporaryFolder folder;
    const auto demo = std::filesystem::path(RONDO_SOURCE_DIR) / "examples/demo_model";
    for (const char* name : {"config.json", "tokenizer.json"}) std::filesystem::copy(demo / name, folder.path() / name);
    const auto model = load_model_text(folder.path());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->weights, nullptr);
    const auto ids = model->encode_text("The code");
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(*ids, *load_model_text(demo)->encode_text("The code"));
}

TEST(ModelFiles, WeightsChoiceIsReadStrictly) {
    EXPECT_FALSE(parse_weights_choice("auto")->random_seed);
    EXPECT_FALSE(parse_weights_choice("file")->random_seed);
    EXPECT_EQ(parse_weights_choice("random:18446744073709551615")->random_seed, UINT64_MAX);
    for (const char* bad :
         {"", "random", "random:", "random:-1", "random:1x", "random:18446744073709551616", "Random:1", "files"}) {
        EXPECT_THAT(parse_weights_choice(bad).error().message, HasSubstr("must be auto, file or random:SEED")) << bad;
    }
}

TEST(ModelFiles, MissingWrongAndSurplusTensorsAreNamed) {
    const TemporaryFolder folder;
    write_tiny(folder);
    const auto name = [](std::vector<SpecTensor>& tensors, const std::string& wanted) -> SpecTensor& {
        return *std::find_if(tensors.begin(), tensors.end(), [&](const SpecTensor& t) { return t.name == wanted; });
    };
    const auto after = [&](auto change) {
        folder.write("model.safetensors", weights_after(change));
        return files_error(folder.path());
    };
    const std::string k = "model.layers.1.self_attn.k_proj.weight";
    EXPECT_EQ(after([](auto&) {}), "none");
    EXPECT_THAT(after([&](auto& t) { name(t, k).name = "rotary_emb.inv_freq"; }),
                HasSubstr("tensor '" + k + "' is missing; the model needs it with shape [4, 8]"));
    EXPECT_THAT(after([&](auto& t) {
                    name(t, k).shape = {8, 4};
                }),
                HasSubstr("'" + k + "' has shape [8, 4]; the model needs [4, 8]"));
    EXPECT_THAT(after([&](auto& t) { name(t, k).shape = {32}; }), HasSubstr("has shape [32]"));
    EXPECT_THAT(after([&](auto& t) {
                    t.push_back({"model.layers.1.self_attn.k_proj.bias", SpecTensor::Kind::bias, {4}});
                }),
                HasSubstr("'model.layers.1.self_attn.k_proj.bias' has no place in a llama model of 2 layers"));
    EXPECT_THAT(after([&](auto& t) {
                    t.push_back({"model.layers.2.mlp.up_proj.weight", SpecTensor::Kind::matrix, {1}});
                }),
                HasSubstr("has no place"));
    EXPECT_EQ(after([&](auto& t) {
                  t.push_back({"model.layers.1.self_attn.rotary_emb.inv_freq", SpecTensor::Kind::bias, {4}});
              }),
              "none");
}

TEST(ModelFiles, TiedModelMayHaveAnOutputMatrixOrNot) {
    const TemporaryFolder folder;
    nlohmann::json config = nlohmann::json::parse(tiny_config);
    config["tie_word_embeddings"] = true;
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", weights_after([](auto&) {}));
    EXPECT_EQ(files_error(folder.path()), "none");
    folder.write("model.safetensors", weights_after([](auto& t) { t.pop_back(); }));
    EXPECT_EQ(files_error(folder.path()), "none");
    folder.write("config.json", tiny_config);
    EXPECT_THAT(files_error(folder.path()), HasSubstr("'lm_head.weight' is missing"));
}

/// safetensors' save_model writes a shared tensor once, under the name that sorts first.
TEST(ModelFiles, TheTableOfATiedModelMayHaveTheNameOfTheOutputMatrix) {
    const TemporaryFolder folder;
    nlohmann::json config = nlohmann::json::parse(tiny_config);
    config["tie_word_embeddings"] = true;
    folder.write("config.json", config.dump());
    const std::string only_head = weights_after([](auto& t) { t.erase(t.begin()); });
    folder.write("model.safetensors", only_head);
    ASSERT_EQ(files_error(folder.path()), "none");
    const auto device = open_device(*parse_device("cpu:1"));
    const auto model = load_model(folder.path(), {}, **device);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(&model->weights->output_head(), model->weights->embedding.get());

    std::filesystem::rename(folder.path() / "model.safetensors", folder.path() / "shard.safetensors");
    nlohmann::json index;
    for (const SpecTensor& tensor : spec_tensors(tiny_spec()))
        if (tensor.name != "model.embed_tokens.weight") index["weight_map"][tensor.name] = "shard.safetensors";
    folder.write("model.safetensors.index.json", index.dump());
    EXPECT_EQ(files_error(folder.path()), "none");
    // Without a tie they are two tables.
    folder.write("config.json", tiny_config);
    EXPECT_THAT(files_error(folder.path()), HasSubstr("'model.embed_tokens.weight' is missing"));
    config["vocab_size"] = 11;
    folder.write("config.json", config.dump());
    EXPECT_THAT(files_error(folder.path()), HasSubstr("has shape [10, 8]; the model needs [11, 8]"));
}

TEST(ModelFiles, TypeThatCannotBeUsedIsNamed) {
    const TemporaryFolder folder;
    write_tiny(folder);
    std::string file = weights_after([](auto&) {});
    const size_t at = file.find("\"dtype\":\"BF16\"");
    folder.write("model.safetensors", file.replace(at, 14, "\"dtype\":\"I16\" "));
    EXPECT_THAT(files_error(folder.path()), HasSubstr("has type 'I16'; F32, F16, BF16, Q8_0"));
}

TEST(ModelFiles, OpenAGgufFileWhateverItsName) {
    const TemporaryFolder folder;
    GgufBytes bytes = testing::gguf_metadata("llama");
    testing::add_gguf_tensors(bytes);
    folder.write("tiny.model", bytes.file());
    const auto files = open_model_files(folder.path() / "tiny.model", {});
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_EQ(files->name, "tiny");
    EXPECT_TRUE(files->spec.paired_neighbours);
    ASSERT_TRUE(files->gguf_vocabulary);
    EXPECT_EQ(files->gguf_vocabulary->tokens.size(), 5U);
    EXPECT_EQ(files->chat_template, "{{ messages }}");
    EXPECT_EQ(files->bos_token, "<|endoftext|>");
    EXPECT_EQ(files->eos_token, "<|im_end|>");
    EXPECT_EQ(files->weights->find("model.layers.1.mlp.down_proj.weight")->shape, (std::vector<int64_t>{64, 96}));

    const auto random = open_model_files(folder.path() / "tiny.model", {.random_seed = 1});
    ASSERT_TRUE(random) << random.error().message;
    EXPECT_EQ(random->weights->find("model.norm.weight")->dtype, DType::bf16);
}

TEST(ModelFiles, GgufTensorsAreCheckedToo) {
    const TemporaryFolder folder;
    const auto with = [&](const std::string& name, const std::vector<uint64_t>& shape, uint32_t type, size_t data) {
        GgufBytes bytes = testing::gguf_metadata("llama");
        testing::add_gguf_tensors(bytes);
        folder.write("m.gguf", bytes.tensor(name, shape, type, std::string(data, '\0')).file());
        return files_error(folder.path() / "m.gguf");
    };
    EXPECT_THAT(with("blk.1.attn_sinks.weight", {4}, 0, 16), HasSubstr("'blk.1.attn_sinks.weight' has no place"));
    EXPECT_THAT(with("model.norm.weight", {64}, 0, 256), HasSubstr("'model.norm.weight' is there twice"));
    EXPECT_THAT(with("output.weight", {64, 5}, 16, 320), HasSubstr("'lm_head.weight' has type 'IQ2_XXS'"));
}

/// Random weights whose types a test may change.
class ChangedWeights final : public WeightsFile {
public:
    explicit ChangedWeights(const WeightsFile& from) : tensors_(from.tensors()) {}
    FileTensor& at(std::string_view name) { return const_cast<FileTensor&>(*find(name)); }

    const FileTensor* find(std::string_view name) const override {
        const auto found =
            std::find_if(tensors_.begin(), tensors_.end(), [&](const FileTensor& t) { return t.name == name; });
        return found == tensors_.end() ? nullptr : &*found;
    }
    const std::vector<FileTensor>& tensors() const override { return tensors_; }
    void will_need(const FileTensor&) const override {}
    void done_with(const FileTensor&) const override {}

private:
    std::vector<FileTensor> tensors_;
};

TEST(ModelFiles, OnlyMatricesMayBeQuantized) {
    const auto random = random_weights(tiny_spec(), 1, DType::f32, "m");
    ASSERT_TRUE(random);
    ChangedWeights weights(**random);
    weights.at("lm_head.weight").dtype = DType::q8_0;
    EXPECT_TRUE(check_weights(tiny_spec(), weights, "m"));
    weights.at("model.norm.weight").dtype = DType::q8_0;
    weights.at("model.norm.weight").file_type = "Q8_0";
    EXPECT_EQ(check_weights(tiny_spec(), weights, "m").error().message,
              "m: tensor 'model.norm.weight' has type 'Q8_0'; F32, F16 and BF16 are supported here");
}

TEST(ModelFiles, TokenizerMayNotGoBeyondTheEmbedding) {
    EXPECT_TRUE(check_vocabulary(tiny_spec(), 10, "m"));
    EXPECT_EQ(check_vocabulary(tiny_spec(), 11, "m").error().message,
              "m: the tokenizer has ids up to 10; the model's embedding has 10 rows");
}

TEST(ModelFiles, DemoModelOpens) {
    const auto folder = std::filesystem::path(RONDO_SOURCE_DIR) / "examples/demo_model";
    const auto files = open_model_files(folder, {});
    ASSERT_TRUE(files) << files.error().message;
    uint64_t header_bytes = 0;
    std::ifstream(folder / "model.safetensors", std::ios::binary).read(reinterpret_cast<char*>(&header_bytes), 8);
    const uint64_t weight_bytes = std::filesystem::file_size(folder / "model.safetensors") - 8 - header_bytes;
    EXPECT_EQ(2 * static_cast<uint64_t>(files->spec.parameters()), weight_bytes) << "all of them in bf16";
    EXPECT_THAT(files->spec.eos_ids, ElementsAre(636));
    EXPECT_FALSE(files->chat_template.empty());
}

}  // namespace
}  // namespace rondo

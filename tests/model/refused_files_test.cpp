#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "model/model_files.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using ::testing::AllOf;
using testing::GgufBytes;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::tiny_config;
using testing::tiny_spec;

constexpr const char* lfs_pointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 988097824\n";

/// Paths are shown whole, so what an error says stands behind the path of the temporary folder.
class RefusedFiles : public ::testing::Test {
protected:
    std::string path(const std::string& name = "") const { return (folder_.path() / name).string(); }

    /// The one line for a path, without the folder before it.
    std::string line(const std::string& name, WeightsNeed need = WeightsNeed::needed) const {
        const auto files = open_model_files(name.empty() ? folder_.path() : folder_.path() / name, {}, need);
        if (files) return "none";
        const std::string message = files.error().message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        EXPECT_TRUE(message.starts_with(folder_.path().string())) << message;
        return message.substr(folder_.path().string().size());
    }
    /// The same of a file with this content.
    std::string line_of(const std::string& name, const std::string& content) const {
        folder_.write(name, content);
        return line(name);
    }

    TemporaryFolder folder_;
};

TEST_F(RefusedFiles, GitLfsPointersAreNamedWhicheverFileTheyStandFor) {
    const std::string words =
        ": a Git LFS pointer, not the file that it stands for; run 'git lfs pull' in its folder or download the file";
    EXPECT_EQ(line_of("m.gguf", lfs_pointer), "/m.gguf" + words);
    folder_.write("config.json", tiny_config);
    EXPECT_EQ((folder_.write("model.safetensors", lfs_pointer), line("")), "/model.safetensors" + words);
    EXPECT_EQ((folder_.write("tokenizer.json", lfs_pointer), line("")), "/tokenizer.json" + words);
    EXPECT_EQ(line("", WeightsNeed::not_read), "/tokenizer.json" + words);
    std::filesystem::remove(path("tokenizer.json"));
    std::filesystem::remove(path("model.safetensors"));
    folder_.write("model.safetensors.index.json", R"({"weight_map":{"a":"s1.safetensors"}})");
    EXPECT_EQ((folder_.write("s1.safetensors", lfs_pointer), line("")), "/s1.safetensors" + words);
    EXPECT_EQ((folder_.write("model.safetensors.index.json", lfs_pointer), line("")),
              "/model.safetensors.index.json" + words);
}

TEST_F(RefusedFiles, EmptyFilesAreNamed) {
    const std::string words = ": an empty file; download it again";
    EXPECT_EQ(line_of("m.gguf", ""), "/m.gguf" + words);
    EXPECT_EQ((folder_.write("config.json", ""), line("")), "/config.json" + words);
    folder_.write("config.json", tiny_config);
    folder_.write("model.safetensors", "");
    EXPECT_EQ(line(""), "/model.safetensors" + words);
    EXPECT_EQ((folder_.write("tokenizer.json", ""), line("")), "/tokenizer.json" + words);
}

TEST_F(RefusedFiles, OtherFormatsAreNamedByContentOrEnding) {
    const std::string pytorch =
        ": PyTorch's format, which is not read; convert it to safetensors (save_pretrained of transformers) or take a "
        "GGUF file of the model";
    const std::string framework =
        ": another framework's format, which is not read; take the model's safetensors folder or a GGUF file";
    EXPECT_EQ(line_of("pytorch_model.bin", "PK\x03\x04"), "/pytorch_model.bin" + pytorch);
    EXPECT_EQ(line_of("noending", "PK\x03\x04"), "/noending" + pytorch);
    EXPECT_EQ(line_of("old.bin", "\x80\x02"), "/old.bin" + pytorch);
    EXPECT_EQ(line_of("m.pt", "x"), "/m.pt" + pytorch);
    EXPECT_EQ(line_of("M.PTH", "x"), "/M.PTH" + pytorch);
    EXPECT_EQ(line_of("m.onnx", "\x08\x07"), "/m.onnx" + framework);
    EXPECT_EQ(line_of("tf_model.h5", "\x89HDF"), "/tf_model.h5" + framework);
    EXPECT_EQ(line_of("model.safetensors", "{"),
              "/model.safetensors: a safetensors file alone; give the folder that has it beside its config.json");
    EXPECT_EQ(line_of("config.json", "{}"), "/config.json: a JSON file alone; give the folder that holds it");
    EXPECT_EQ(line_of("m.zip", "PK\x03\x04"), "/m.zip: an archive; unpack it and give the folder or .gguf file in it");
    EXPECT_EQ(line_of("m.gguf", "\x1F\x8B"), "/m.gguf: an archive; unpack it and give the folder or .gguf file in it");
    EXPECT_EQ(line_of("m.gguf", "<!DOCTYPE html>"), "/m.gguf: a web page, not a model; download the file itself");
    EXPECT_EQ(line_of("ggml-model.bin", "tjgg"),
              "/ggml-model.bin: a GGML file from before GGUF; take the model as a GGUF file");
    EXPECT_EQ(line_of("m.gguf", "GGU"), "/m.gguf: no GGUF file, though its name ends so; download it again");
    EXPECT_EQ(line_of("notes", "hello"), "/notes: neither a folder with config.json and safetensors nor a GGUF file");
}

TEST_F(RefusedFiles, GgufFilesThatAreNoModelHere) {
    EXPECT_EQ(line_of("m.gguf", testing::gguf_metadata("gemma3").file()),
              "/m.gguf: architecture 'gemma3' is not supported; llama, qwen2 and qwen3 are");
    EXPECT_EQ(line_of("m.gguf", GgufBytes(0x03000000).file()),
              "/m.gguf: a big-endian GGUF file; take the little-endian one of the same model");
    EXPECT_EQ(line_of("m.gguf", GgufBytes(1).file()),
              "/m.gguf: GGUF version 1 is not supported; 2 and 3 are, which newer converters write");
    EXPECT_EQ(line_of("m.gguf", testing::gguf_metadata("llama").string("general.type", "adapter").file()),
              "/m.gguf: an adapter (LoRA), not a model; merge it into its base model and give that file");
    EXPECT_THAT(line_of("mmproj.gguf", GgufBytes().string("general.architecture", "clip").file()),
                HasSubstr("/mmproj.gguf: the image or sound part of a model (mmproj); give the language model's"));
    EXPECT_THAT(line_of("m.gguf", testing::gguf_metadata("llama").u32("llama.expert_count", 8).file()),
                HasSubstr("/m.gguf: a mixture of experts (llama.expert_count is 8), which is not supported"));
}

TEST_F(RefusedFiles, AVocabularyAloneIsATokenizerAndNoModel) {
    EXPECT_EQ(line_of("vocab.gguf", testing::gguf_metadata("llama").file()),
              "/vocab.gguf: a vocabulary without weights; it is enough for 'rondo tokenize', but to run the model take "
              "its whole file");
    EXPECT_EQ(line("vocab.gguf", WeightsNeed::not_read), "none");
    EXPECT_EQ(open_model_files(path("vocab.gguf"), {}, WeightsNeed::if_there)->weights, nullptr);
}

TEST_F(RefusedFiles, FoldersWithoutAConfigSayWhatTheyMayBe) {
    const auto words = [&](const std::string& name) {
        folder_.write(name, "x");
        const std::string out = line("");
        std::filesystem::remove(path(name));
        return out;
    };
    const std::string missing = ": no config.json in this folder; ";
    EXPECT_EQ(line(""), missing +
                            "a model is a Hugging Face folder (config.json, tokenizer.json, safetensors) or a "
                            ".gguf file");
    EXPECT_EQ(words("adapter_config.json"),
              missing + "it is an adapter (LoRA): merge it into its base model and give that folder");
    EXPECT_EQ(words("B.gguf"), missing + "give the .gguf file itself: " + path("B.gguf"));
    EXPECT_EQ(words("snapshots"), missing + "it is the hub's cache of a model: give the folder inside its 'snapshots'");
    EXPECT_EQ(words("model_index.json"), missing + "it is a diffusion pipeline, not a language model");
    EXPECT_EQ(words("consolidated.00.pth"), missing +
                                                "it is a checkpoint in its maker's own format: take the Hugging Face "
                                                "folder or a GGUF file");
}

TEST_F(RefusedFiles, FoldersWithOtherWeightsNameThem) {
    folder_.write("config.json", tiny_config);
    const auto words = [&](const std::string& name) {
        folder_.write(name, "x");
        const std::string out = line("");
        EXPECT_EQ(line("", WeightsNeed::if_there), out) << name;
        EXPECT_EQ(line("", WeightsNeed::not_read), "none") << name;
        std::filesystem::remove(path(name));
        return out;
    };
    EXPECT_EQ(words("pytorch_model.bin"),
              ": no weights to read: pytorch_model.bin has PyTorch's format, which is not read; convert it to "
              "safetensors (save_pretrained of transformers) or take a GGUF file of the model");
    EXPECT_THAT(words("pytorch_model-00001-of-00002.bin"), HasSubstr("pytorch_model-00001-of-00002.bin has PyTorch's"));
    EXPECT_THAT(words("consolidated.00.pth"), HasSubstr("consolidated.00.pth has PyTorch's format"));
    EXPECT_THAT(words("model.onnx"), HasSubstr("model.onnx has another framework's format"));
    EXPECT_THAT(words("tf_model.h5"), HasSubstr("tf_model.h5 has another framework's format"));
    EXPECT_EQ(words("model-00001-of-00002.safetensors"),
              ": no weights to read: model-00001-of-00002.safetensors is there, but what is read is model.safetensors "
              "or the files that model.safetensors.index.json lists; download the missing one too");
    EXPECT_THAT(words("adapter_model.safetensors"), HasSubstr("it has an adapter's alone (LoRA); merge it"));
    EXPECT_EQ(words("m.gguf"), ": no weights to read: give the .gguf file itself: " + path("m.gguf"));
    // What a trainer leaves beside the weights is no weights.
    folder_.write("training_args.bin", "x");
    folder_.write("optimizer.pt", "x");
    EXPECT_EQ(line(""), ": no weights; model.safetensors or model.safetensors.index.json is read");
    EXPECT_EQ(line("", WeightsNeed::if_there), "none");
}

/// What 'cp -r' makes of a folder of the hub's cache, whose links lead out of it.
TEST_F(RefusedFiles, LinksThatLeadNowhereAreNamed) {
    const std::string words =
        ": a link to a file that is not there; a model in the hub's cache consists of links, so copy it with their "
        "files (cp -rL)";
    const auto links_to_nothing = [&](const std::string& name) {
        std::filesystem::create_symlink("gone", path(name));
        const std::string out = line("");
        EXPECT_EQ(line("", WeightsNeed::if_there), out) << name;
        std::filesystem::remove(path(name));
        return out;
    };
    EXPECT_EQ(links_to_nothing("config.json"), "/config.json" + words);
    folder_.write("config.json", tiny_config);
    for (const std::string name : {"model.safetensors", "model.safetensors.index.json", "generation_config.json",
                                   "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
        EXPECT_EQ(links_to_nothing(name), "/" + name + words);
    std::filesystem::create_symlink("gone", path("m.gguf"));
    EXPECT_EQ(line("m.gguf"), "/m.gguf" + words);
}

TEST_F(RefusedFiles, ConfigsOfExpertsAndQuantizedWeightsAreNamed) {
    const auto with = [&](const nlohmann::json& patch) {
        nlohmann::json config = nlohmann::json::parse(tiny_config);
        config.update(patch);
        folder_.write("config.json", config.dump());
        return line("");
    };
    for (const char* key : {"num_local_experts", "n_routed_experts", "num_experts"}) {
        EXPECT_EQ(with({{"architectures", {"MixtralForCausalLM"}}, {key, 8}}),
                  "/config.json: a mixture of experts (" + std::string(key) +
                      " is 8), which is not supported; take a dense Llama, Mistral, Qwen2 or Qwen3 model");
        for (const nlohmann::json& none : {nlohmann::json(), nlohmann::json(0), nlohmann::json(1)})
            EXPECT_THAT(with({{key, none}}), HasSubstr("no weights")) << key << none;
    }
    for (const char* method : {"awq", "gptq", "fp8"}) {
        EXPECT_EQ(with({{"quantization_config", {{"quant_method", method}, {"bits", 4}}}}),
                  "/config.json: weights quantized by '" + std::string(method) +
                      "' (quantization_config) are not supported; take the F32, F16 or BF16 safetensors or a GGUF file "
                      "of the model");
    }
    EXPECT_THAT(with({{"quantization_config", 4}}), HasSubstr("weights quantized (quantization_config)"));
}

TEST_F(RefusedFiles, SafetensorsOfOtherTypesNameTheTensorAndWhatIsRead) {
    folder_.write("config.json", tiny_config);
    for (const auto& [type, bytes] : {std::pair("F8_E4M3", 1), std::pair("I8", 1), std::pair("I32", 4)}) {
        nlohmann::json header = nlohmann::json::object();
        int64_t end = 0;
        for (const SpecTensor& tensor : spec_tensors(tiny_spec())) {
            const int64_t begin = end;
            end += tensor.elements() * bytes;
            header[tensor.name] = {{"dtype", type}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
        }
        folder_.write("model.safetensors", testing::safetensors_file(header.dump(), static_cast<size_t>(end)));
        EXPECT_EQ(line(""), ": tensor 'model.embed_tokens.weight' has type '" + std::string(type) +
                                "'; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL "
                                "and IQ4_XS are supported");
    }
}

TEST_F(RefusedFiles, PathsThatLeadNowhereMayBeHubNamesOrUrls) {
    const auto of = [](const std::string& path) { return open_model_files(path, {}).error().message; };
    EXPECT_EQ(of("Qwen/Qwen2-0.5B"),
              "Qwen/Qwen2-0.5B: no such file or folder; if it is a name on the Hugging Face hub, download it (hf "
              "download Qwen/Qwen2-0.5B --local-dir FOLDER) and give FOLDER");
    for (const char* url : {"https://huggingface.co/Qwen/Qwen2-0.5B", "hf.co/Qwen/Qwen2-0.5B-GGUF"}) {
        EXPECT_EQ(of(url),
                  std::string(url) + ": a URL, not a path; download the model and give its folder or .gguf file");
    }
    // An owner that is a folder here, a file's ending, or more parts: a path that is wrong.
    for (const char* wrong : {"tests/Qwen2-0.5B", "models/m.gguf", "a/b/c", "absent", "./Qwen/Qwen2", "/absent/x", "a/",
                              "../a", "~/m", "Qwen/Qwen 2"}) {
        EXPECT_EQ(of(wrong), std::string(wrong) + ": cannot open: No such file or directory");
    }
    EXPECT_EQ(of(""), ": cannot open: No such file or directory");
    std::filesystem::create_symlink("loop", folder_.path() / "loop");
    EXPECT_EQ(line("loop"), "/loop: cannot open: Too many levels of symbolic links");
    EXPECT_THAT(of("/dev/zero"), HasSubstr("not a regular file"));
    EXPECT_EQ(of(std::string(300, 'x')), std::string(300, 'x') + ": cannot open: File name too long");
}

TEST_F(RefusedFiles, LongPathsAreShownWholeAndOnOneLine) {
    const std::string deep = std::string(200, 'a') + "/" + std::string(200, 'b');
    std::filesystem::create_directories(folder_.path() / deep);
    EXPECT_THAT(line(deep), HasSubstr(deep + ": no config.json"));
    folder_.write(deep + "/config.json", tiny_config);
    folder_.write(deep + "/model.safetensors", "short");
    EXPECT_THAT(line(deep), HasSubstr(deep + "/model.safetensors: 5 bytes; a safetensors file starts"));
    folder_.write(deep + "/config.json", "{");
    EXPECT_THAT(line(deep), HasSubstr(deep + "/config.json: "));
    folder_.write("two\nlines.gguf", "GGUF");
    EXPECT_THAT(open_model_files(folder_.path() / "two\nlines.gguf", {}).error().message,
                AllOf(HasSubstr("/two?lines.gguf: the file ends inside its header"), ::testing::Not(HasSubstr("\n"))));
}

/// Inside the hub's cache the names are links to files that are called by their hashes.
TEST_F(RefusedFiles, LinksKeepTheirOwnNames) {
    GgufBytes bytes = testing::gguf_metadata("llama");
    testing::add_gguf_tensors(bytes);
    folder_.write("3fa9b2", bytes.file());
    std::filesystem::create_symlink("3fa9b2", folder_.path() / "tiny.gguf");
    EXPECT_EQ(open_model_files(path("tiny.gguf"), {})->name, "tiny");
}

}  // namespace
}  // namespace rondo

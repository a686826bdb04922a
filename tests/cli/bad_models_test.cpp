#include <fstream>
#include <iterator>

#include "tests/cli/rondo_process.hpp"
#include "tests/model/gguf_twin.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using testing::expect_failure;
using testing::run_rondo;
using testing::TemporaryFolder;

std::string content_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A right model, as a folder and as a GGUF file, to be spoilt.
class BadModels : public ::testing::Test {
protected:
    BadModels() {
        const golden::Folder right(case_, DType::bf16);
        weights_ = content_of(std::filesystem::path(right.path()) / "model.safetensors");
        folder_.write("config.json", case_.config_json);
        folder_.write("model.safetensors", weights_);
    }

    std::string path(const std::string& name = "") const { return (folder_.path() / name).string(); }

    void expect_refused(const std::string& model, const std::string& words) const {
        expect_failure(run_rondo({"generate", "--model", model, "--tokens", "1,2", "--max-tokens", "2"}), words);
        expect_failure(run_rondo({"inspect", "model", model}), words);
    }

    uint64_t header_bytes() const {
        uint64_t bytes = 0;
        std::memcpy(&bytes, weights_.data(), sizeof bytes);
        return bytes;
    }
    /// The weights file with another header before the same data.
    void write_header(const std::string& header) const {
        std::string file;
        testing::append(file, static_cast<uint64_t>(header.size()));
        folder_.write("model.safetensors", file + header + weights_.substr(8 + header_bytes()));
    }
    template <class Change>
    void change_header(Change change) const {
        json header = json::parse(weights_.substr(8, header_bytes()));
        change(header);
        write_header(header.dump());
    }
    void change_config(const json& patch) const {
        json config = json::parse(case_.config_json);
        config.update(patch);
        folder_.write("config.json", config.dump());
    }

    const golden::Case case_ = golden::read_cases("llama").at(0);
    TemporaryFolder folder_;
    std::string weights_;
};

constexpr const char* some_tensor = "model.layers.1.mlp.up_proj.weight";

TEST_F(BadModels, RightOnesRun) {
    EXPECT_EQ(run_rondo({"generate", "--model", path(), "--tokens", "1,2", "--max-tokens", "2"}).status, 0);
    folder_.write("twin.gguf", golden::gguf_twin(case_));
    EXPECT_EQ(run_rondo({"generate", "--model", path("twin.gguf"), "--tokens", "1,2", "--max-tokens", "2"}).status, 0);
}

TEST_F(BadModels, MissingFilesAreNamed) {
    expect_refused(path("nothing"), "nothing");
    expect_refused(path("config.json"), "give the folder that holds it");
    std::filesystem::remove(path("model.safetensors"));
    expect_failure(run_rondo({"generate", "--model", path(), "--tokens", "1,2", "--max-tokens", "2"}), "no weights");
    EXPECT_EQ(testing::run_json({"inspect", "model", path()}).at("weights"), "no weights");
    std::filesystem::remove(path("config.json"));
    expect_refused(path(), "config.json");
    std::filesystem::create_directory(path("model.gguf"));
    expect_refused(path("model.gguf"), "config.json");
    expect_refused("/dev/zero", "");
}

TEST_F(BadModels, TruncatedSafetensorsAreRefusedWhereverTheyEnd) {
    const size_t header = 8 + header_bytes();
    for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{9}, header / 2, header - 1, header, header + 1,
                              (header + weights_.size()) / 2, weights_.size() - 1}) {
        SCOPED_TRACE("cut at " + std::to_string(size) + " of " + std::to_string(weights_.size()));
        folder_.write("model.safetensors", weights_.substr(0, size));
        expect_refused(path(), "model.safetensors");
    }
}

TEST_F(BadModels, TruncatedGgufIsRefusedWhereverItEnds) {
    const std::string twin = golden::gguf_twin(case_);
    const size_t names = twin.find("blk.1.ffn_up"), data = names + 4000;
    for (const size_t size : {size_t{0}, size_t{3}, size_t{4}, size_t{8}, size_t{23}, size_t{24}, size_t{30},
                              size_t{200}, names, names + 20, data, twin.size() / 2, twin.size() - 1}) {
        SCOPED_TRACE("cut at " + std::to_string(size) + " of " + std::to_string(twin.size()));
        folder_.write("twin.gguf", twin.substr(0, size));
        expect_refused(path("twin.gguf"), "twin.gguf");
    }
}

TEST_F(BadModels, LyingSafetensorsHeadersAreRefused) {
    for (const uint64_t length : {uint64_t{UINT64_MAX}, uint64_t{1} << 62, uint64_t{1} << 40, uint64_t{200} << 20}) {
        std::string file = weights_;
        std::memcpy(file.data(), &length, sizeof length);
        folder_.write("model.safetensors", file);
        expect_refused(path(), "model.safetensors");
    }
    write_header("{\"a\":");
    expect_refused(path(), "model.safetensors");
    write_header(std::string(1'000'000, '['));
    expect_refused(path(), "model.safetensors");
    change_header([](json& header) { header[some_tensor]["dtype"] = "F4"; });
    expect_refused(path(), some_tensor);
    change_header([](json& header) { header[some_tensor]["data_offsets"][0] = 0; });
    expect_refused(path(), "");
    change_header([](json& header) { header[some_tensor]["data_offsets"] = {UINT64_MAX - 1, UINT64_MAX}; });
    expect_refused(path(), some_tensor);
    change_header([](json& header) { header[some_tensor]["shape"] = {int64_t{1} << 40, int64_t{1} << 40}; });
    expect_refused(path(), some_tensor);
    change_header([](json& header) { header[some_tensor]["shape"][0] = -1; });
    expect_refused(path(), some_tensor);
}

TEST_F(BadModels, OverlappingTensorsAreRefused) {
    change_header([](json& header) {
        header[some_tensor]["data_offsets"] = header["model.layers.0.mlp.up_proj.weight"]["data_offsets"];
    });
    expect_refused(path(), "model.safetensors");
}

TEST_F(BadModels, MissingTensorsAndWrongShapesAreNamed) {
    change_header([](json& header) {
        header["another"] = header[some_tensor];
        header.erase(some_tensor);
    });
    expect_refused(path(), some_tensor);
    change_header([](json& header) {
        auto& shape = header[some_tensor]["shape"];
        std::swap(shape[0], shape[1]);
    });
    expect_refused(path(), some_tensor);
    folder_.write("model.safetensors", weights_);
    change_config({{"hidden_size", 128}});
    expect_refused(path(), "shape");
    change_config({{"num_hidden_layers", 3}});
    expect_refused(path(), "model.layers.2");
}

TEST_F(BadModels, ConfigsThatCannotBeAreRefused) {
    const std::pair<json, const char*> wrong[] = {
        {{{"architectures", {"GPT9ForCausalLM"}}, {"model_type", "gpt9"}}, "GPT9"},
        {{{"num_attention_heads", 0}}, "num_attention_heads"},
        {{{"num_key_value_heads", 3}}, "heads"},
        {{{"hidden_size", -64}}, "hidden_size"},
        {{{"hidden_size", 1e300}}, "hidden_size"},
        {{{"vocab_size", int64_t{1} << 60}}, "vocab_size"},
        {{{"num_hidden_layers", 1000000}}, "num_hidden_layers"},
        {{{"max_position_embeddings", 0}}, "max_position_embeddings"},
        {{{"rms_norm_eps", "small"}}, "rms_norm_eps"},
        {{{"rope_scaling", {{"rope_type", "spiral"}, {"factor", 2}}}}, "spiral"},
        {{{"vocab_size", 98}}, "shape"},
    };
    for (const auto& [patch, words] : wrong) {
        SCOPED_TRACE(patch.dump());
        change_config(patch);
        expect_refused(path(), words);
    }
    folder_.write("config.json", case_.config_json.substr(0, case_.config_json.size() / 2));
    expect_refused(path(), "config.json");
    folder_.write("config.json", std::string(2'000'000, '['));
    expect_refused(path(), "config.json");
}

TEST_F(BadModels, TokenizerBeyondTheEmbeddingIsRefused) {
    std::filesystem::copy_file(std::string(RONDO_SOURCE_DIR) + "/examples/demo_model/tokenizer.json",
                               path("tokenizer.json"));
    expect_failure(run_rondo({"generate", "--model", path(), "--prompt", "a"}), "ids up to 639");
    folder_.write("tokenizer.json", "{\"model\":{}}");
    expect_failure(run_rondo({"generate", "--model", path(), "--prompt", "a"}), "tokenizer.json");
    std::filesystem::remove(path("tokenizer.json"));
    expect_failure(run_rondo({"generate", "--model", path(), "--prompt", "a"}), "no tokenizer");
    expect_failure(run_rondo({"chat", "--model", path()}, "Hello!\n"), "no tokenizer");
    expect_failure(run_rondo({"tokenize", "--model", path(), "--text", "a"}), "no tokenizer");
}

TEST_F(BadModels, LyingGgufIsRefused) {
    const std::string twin = golden::gguf_twin(case_);
    const auto with = [&](size_t at, auto value) {
        std::string file = twin;
        std::memcpy(file.data() + at, &value, sizeof value);
        folder_.write("twin.gguf", file);
        expect_refused(path("twin.gguf"), "twin.gguf");
    };
    const size_t tensor = twin.find("blk.1.ffn_up.weight") + std::string("blk.1.ffn_up.weight").size();
    with(4, uint32_t{1});                        // a version with other lengths
    with(8, UINT64_MAX);                         // tensors
    with(16, uint64_t{1} << 40);                 // metadata entries
    with(24, uint64_t{1} << 60);                 // the length of the first key
    with(tensor, uint32_t{1'000'000});           // dimensions
    with(tensor + 4, uint64_t{1} << 63);         // the inner one
    with(tensor + 4 + 16, uint32_t{99});         // type
    with(tensor + 4 + 16 + 4, uint64_t{32});     // offset: inside another tensor
    with(tensor + 4 + 16 + 4, UINT64_MAX - 31);  // offset: far outside
    with(twin.find("llama", 24), std::array{'g', 'p', 't', '-', '9'});
}

}  // namespace
}  // namespace rondo

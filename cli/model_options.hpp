#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "model/generator.hpp"
#include "model/model.hpp"

namespace rondo::cli {

/// The options that say which model runs where, the same in every command.
struct ModelOptions {
    std::string model;  ///< folder, .gguf, or "" for the demo model
    std::string weights = "auto";
    std::string device = "cpu";
    int threads = 0;
    std::string kv = "bf16";
    std::string method = "dense";
    int64_t chunk_tokens = 512;

    void add_text_side(CLI::App& app);
    void add_all(CLI::App& app);

    std::filesystem::path path() const;
    Result<Model> load_text() const;
};

/// A loaded model on its device, and the one conversation a command has with it.
struct Runner {
    std::unique_ptr<Device> device;
    Model model;
    std::unique_ptr<Generator> generator;

    static Result<std::unique_ptr<Runner>> open(const ModelOptions& options, int64_t context_tokens_max = 0);
};

/// "bf16", "f32" or "int8".
Result<DType> parse_kv_type(const std::string& text);
/// "1,2,3" as ids.
Result<std::vector<int32_t>> parse_ids(const std::string& text);
/// Everything on standard input, bounded.
Result<std::string> read_standard_input();
Result<std::string> read_file(const std::string& path);

}  // namespace rondo::cli

#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/attention_methods.hpp"
#include "config/result.hpp"
#include "config/setting_keys.hpp"
#include "config/settings.hpp"
#include "kernels/device.hpp"
#include "model/generator.hpp"
#include "model/model.hpp"

namespace rondo::cli {

/// The options that say which model runs where, the same in every command. They are settings that stand on the command
/// line: what is not given comes from the pipeline file, and from the defaults without one.
struct ModelOptions {
    std::string config_file;
    std::vector<std::string> overrides;  ///< a.b=c
    std::string model;                   ///< folder, .gguf, or "" for the demo model
    std::string weights;
    std::string device;
    int threads = 0;
    std::string kv;
    std::string method;
    int chunk_tokens = 0;

    void add_text_side(CLI::App& app);
    /// Adds the options that say where the model runs.
    void add_place(CLI::App& app);
    /// Adds those, and the options that say how prompts are computed.
    void add_all(CLI::App& app);

    Result<Settings> settings() const;
    /// For a command that runs prompts alone, or answers alone: an error where --method is for the other phase.
    Status check_method(MethodSlot phase, std::string_view command) const;
    Result<Model> load_text() const;

private:
    Status check_overrides() const;
};

/// A loaded model on its device, and the one conversation a command has with it.
struct Runner {
    Settings settings;
    std::unique_ptr<Device> device;
    Model model;
    std::unique_ptr<Generator> generator;

    static Result<std::unique_ptr<Runner>> open(const ModelOptions& options, int64_t context_tokens_max = 0);
    /// Without the conversation.
    static Result<std::unique_ptr<Runner>> open_model(const ModelOptions& options);
};

/// An error where a flag and a --set on one command line give the same key. `value` is the flag's, "" without the flag.
/// `key` is what such a --set begins with.
Status check_single(std::string_view flag, const std::string& value, std::string_view key,
                    const std::vector<std::string>& overrides);
std::string_view name_of(MemorySettings::KvType type);
/// "1,2,3" as numbers; an error says what they should have been.
Result<std::vector<int32_t>> parse_numbers(const std::string& text, const std::string& what);
/// Everything on standard input, or an error when that is more than `bytes_max`.
Result<std::string> read_standard_input(size_t bytes_max);
/// The next line of standard input without its end; nothing at the end of the input.
Result<std::optional<std::string>> read_line(size_t bytes_max);
Result<std::string> read_file(const std::string& path, size_t bytes_max);
Status write_file(const std::string& path, const std::string& text);
/// Whether a file can be written, before what it is to tell is measured; an empty path is no file.
Status check_writable(const std::string& path);
/// No text of more bytes fits into a context of this many tokens: what is longer is refused before it is tokenized.
size_t text_bytes_max(int64_t context_tokens);

}  // namespace rondo::cli

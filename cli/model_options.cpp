#include "cli/model_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/progress.hpp"
#include "config/device_roles.hpp"
#include "config/limits.hpp"
#include "config/setting_keys.hpp"
#include "config/yaml_tree.hpp"
#include "kernels/backend.hpp"

namespace rondo::cli {

namespace {

Error too_long(const std::string& where, size_t bytes_max) {
    return make_error(ErrorCode::out_of_range,
                      where + " is too long, must be at most " + std::to_string(bytes_max) + " bytes");
}

Result<std::string> read_bounded(std::istream& in, const std::string& where, size_t bytes_max) {
    std::string text;
    char piece[65536];
    while (in.read(piece, sizeof piece) || in.gcount() > 0) {
        text.append(piece, static_cast<size_t>(in.gcount()));
        if (text.size() > bytes_max) return too_long(where, bytes_max);
    }
    if (in.bad()) return make_error(ErrorCode::io, where + " cannot be read");  // a folder, or the disk failed
    return text;
}

/// An option's check: a word that `parse` does not take is wrong use. Its error says what is wrong with which option.
template <class Parse>
auto taken_by(Parse parse) {
    return [parse](const std::string& word) {
        if (const auto parsed = parse(word); !parsed)
            throw CLI::ParseError(parsed.error().message, CLI::ExitCodes::ValidationError);
        return std::string();
    };
}

}  // namespace

std::string_view name_of(MemorySettings::KvType type) {
    switch (type) {
        case MemorySettings::KvType::bf16:
            return "bf16";
        case MemorySettings::KvType::f32:
            return "f32";
        case MemorySettings::KvType::int8:
            return "int8";
    }
    return "?";
}

void ModelOptions::add_text_side(CLI::App& app) {
    app.add_option("--model", model, "Hugging Face folder or .gguf file (default: the demo model)")->type_name("MODEL");
}

void ModelOptions::add_place(CLI::App& app) {
    add_text_side(app);
    app.add_option("--config", config_file, "pipeline file (config/reference.yaml documents every key)")
        ->type_name("FILE");
    app.add_option("--set", overrides, "a.b=c: a key of the pipeline file (may be repeated)")->allow_extra_args(false);
    app.add_option("--weights", weights, "auto, or random:SEED to run a config.json without weights")
        ->check(taken_by(parse_weights_choice));
    app.add_option("--device", device, "cpu, cpu:THREADS, cuda or cuda:ORDINAL")
        ->type_name("{cpu,cuda}")
        ->check(taken_by(parse_device));
    app.add_option("--threads", threads, "threads of a CPU device (default: all cores)")->check(CLI::Range(1, 1024));
    app.add_option("--kv", kv, "type of the KV cache")->check(CLI::IsMember({"bf16", "f32", "int8"}));
}

void ModelOptions::add_all(CLI::App& app) {
    add_place(app);
    app.add_option("--chunk", chunk_tokens, "tokens of a prefill chunk")->check(CLI::Range(1, 1 << 16));
    std::string names;
    for (const std::string_view name : names_of_methods(MethodSlot::any))
        names += (names.empty() ? "{" : ",") + std::string(name);
    app.add_option("--method", method,
                   "how to attend: dense, loopserve, rondo, or one phase's method (config/reference.yaml)")
        ->type_name(names + "}")
        ->check(taken_by(method_settings));
}

namespace {

/// --device and --threads in place of what the file says of the pipeline's devices.
Status choose_devices(const ModelOptions& options, Settings& settings) {
    DeviceOptions chosen;
    if (!options.device.empty()) {
        RONDO_ASSIGN(chosen, parse_device(options.device));
    }
    const auto has = [](const std::vector<std::string>& on, const std::string& name) {
        return std::ranges::find(on, name) != on.end();
    };
    for (DeviceSettings& device : settings.devices) {
        if (!has(settings.pipeline.prefill.on, device.name) && !has(settings.pipeline.decode.on, device.name)) continue;
        if (!options.device.empty()) {
            device.kind = chosen.kind == DeviceKind::cuda ? DeviceSettings::Kind::cuda : DeviceSettings::Kind::cpu;
            device.ordinal = chosen.ordinal;
            device.threads = chosen.threads;
        }
        if (options.threads == 0) continue;
        if (device.kind != DeviceSettings::Kind::cpu)
            return make_error(ErrorCode::invalid_argument, "--threads is for CPU devices; the device must be one");
        if (chosen.threads > 0 && chosen.threads != options.threads)
            return make_error(ErrorCode::invalid_argument, "--device " + options.device + " and --threads " +
                                                               std::to_string(options.threads) +
                                                               ": there must be only one of them");
        device.threads = options.threads;
    }
    return Status::ok();
}

}  // namespace

namespace {

/// Whether an override gives a key as a part of a map: "memory={kv_dtype: f32}" says memory.kv_dtype. A value is none.
bool says_in_map(const std::string& text, std::string_view path) {
    const size_t equals = std::min(text.find('='), text.size());
    if (!path.starts_with(text.substr(0, equals) + ".")) return false;
    const std::string_view leaf = path.substr(path.rfind('.') + 1);
    const auto is_of_a_word = [&](size_t at) {
        return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
    };
    for (size_t at = text.find(leaf, equals); at != std::string::npos; at = text.find(leaf, at + 1)) {
        const size_t behind = text.find_first_not_of(" '\"", at + leaf.size());
        if (!is_of_a_word(at - 1) && behind != std::string::npos && text[behind] == ':') return true;
    }
    return false;
}

}  // namespace

Status check_single(std::string_view flag, const std::string& value, std::string_view key,
                    const std::vector<std::string>& overrides) {
    if (value.empty()) return Status::ok();
    const std::string_view path = key.substr(0, key.find('='));
    const auto same = std::ranges::find_if(overrides, [&](const std::string& text) {
        if (text.starts_with(key)) return text.find(".bf16=") == std::string::npos;  // which no flag says
        return says_in_map(text, path);
    });
    if (same == overrides.end()) return Status::ok();
    return make_error(ErrorCode::invalid_argument,
                      std::string(flag) + " " + value + " and --set " + *same + ": there must be only one of them");
}

Status ModelOptions::check_overrides() const {
    const auto number = [](int value) { return value > 0 ? std::to_string(value) : std::string(); };
    RONDO_TRY(check_single("--model", model, "model.path=", overrides));
    RONDO_TRY(check_single("--weights", weights, "model.weights=", overrides));
    RONDO_TRY(check_single("--device", device, "devices", overrides));
    RONDO_TRY(check_single("--threads", number(threads), "devices", overrides));
    RONDO_TRY(check_single("--kv", kv, "memory.kv_dtype=", overrides));
    return check_single("--chunk", number(chunk_tokens), "pipeline.prefill.chunk_tokens=", overrides);
}

Result<Settings> ModelOptions::settings() const {
    RONDO_TRY(check_overrides());
    std::vector<std::string> all = overrides;
    if (!method.empty()) {
        RONDO_ASSIGN(const std::vector<std::string> both, method_settings(method));
        for (const std::string& text : overrides)
            if (text.starts_with("preset=") || text.find(".attention.method=") != std::string::npos ||
                text.starts_with("pipeline.rounds.method=") || says_in_map(text, "pipeline.prefill.attention.method") ||
                says_in_map(text, "pipeline.decode.attention.method") || says_in_map(text, "pipeline.rounds.method"))
                return make_error(ErrorCode::invalid_argument,
                                  "--method " + method + " and --set " + text + ": there must be only one of them");
        all.insert(all.end(), both.begin(), both.end());
    }
    const auto change = [this](Settings& read) { return choose_devices(*this, read); };
    RONDO_ASSIGN(Settings settings, config_file.empty() ? settings_from_yaml("", "settings", all, change)
                                                        : settings_from_file(config_file, all, change));
    for (const std::string& note : settings.notes) std::fprintf(stderr, "%s\n", note.c_str());
    if (!model.empty()) settings.model.path = model;
    if (!weights.empty()) settings.model.weights = weights == "file" ? "auto" : weights;
    if (chunk_tokens > 0) settings.pipeline.prefill.chunk_tokens = chunk_tokens;
    if (kv == "bf16") settings.memory.kv_dtype = MemorySettings::KvType::bf16;
    if (kv == "f32") settings.memory.kv_dtype = MemorySettings::KvType::f32;
    if (kv == "int8") settings.memory.kv_dtype = MemorySettings::KvType::int8;
    return settings;
}

Status ModelOptions::check_method(MethodSlot phase, std::string_view command) const {
    const auto is_of = [this](MethodSlot slot) { return std::ranges::count(names_of_methods(slot), method) > 0; };
    const bool is_of_both = is_of(MethodSlot::preset) || is_of(MethodSlot::rounds);
    if (method.empty() || is_of_both || is_of(phase) || !is_of(MethodSlot::any)) return Status::ok();
    const bool prompts = phase == MethodSlot::prefill;
    return make_error(ErrorCode::invalid_argument,
                      "--method " + method + " says how " + (prompts ? "answers" : "prompts") + " attend, and " +
                          std::string(command) + " runs " + (prompts ? "prompts" : "answers") + ": it must be " +
                          listed(names_of_methods(MethodSlot::preset)) + ", or one of " +
                          listed(names_of_methods(phase)));
}

Result<Model> ModelOptions::load_text() const {
    RONDO_ASSIGN(const Settings chosen, settings());
    return load_model_text(model_path(chosen.model.path));
}

Result<std::unique_ptr<Runner>> Runner::open_model(const ModelOptions& options) {
    auto runner = std::make_unique<Runner>();
    RONDO_ASSIGN(runner->settings, options.settings());
    const Settings& settings = runner->settings;
    RONDO_ASSIGN(const WeightsChoice choice, parse_weights_choice(settings.model.weights));
    RONDO_ASSIGN(const DeviceRoles roles, checked_device_roles(settings));
    RONDO_ASSIGN(runner->device, open_device(device_options(*settings.device(roles.names[roles.answers]))));
    const std::filesystem::path path = model_path(settings.model.path);
    Progress progress("loading " + path.filename().string());
    RONDO_ASSIGN(runner->model, load_model(path, choice, *runner->device, [&](double share) { progress.show(share); }));
    progress.finish();
    return runner;
}

Result<std::unique_ptr<Runner>> Runner::open(const ModelOptions& options, int64_t context_tokens_max) {
    RONDO_ASSIGN(auto runner, open_model(options));
    const Settings& settings = runner->settings;
    Generator::Options how;
    how.chunk_tokens = settings.pipeline.prefill.chunk_tokens;
    how.kv_type = kv_dtype(settings.memory.kv_dtype);
    how.context_tokens_max = context_tokens_max;
    how.kv_bytes_max = static_cast<size_t>(settings.memory.device_kv_mib) << 20;
    how.prefill = settings.pipeline.prefill.attention;
    how.decode = settings.pipeline.decode.attention;
    how.rounds = settings.pipeline.rounds;
    RONDO_ASSIGN(runner->generator, Generator::create(runner->model, *runner->device, how));
    return runner;
}

Result<std::vector<int32_t>> parse_numbers(const std::string& text, const std::string& what) {
    std::vector<int32_t> ids;
    for (const char *at = text.data(), *const end = at + text.size(); at <= end && !text.empty();) {
        int32_t id = 0;
        const auto [next, error] = std::from_chars(at, end, id);
        if (error != std::errc() || id < 0 || (next != end && *next != ',')) {
            return make_error(ErrorCode::invalid_argument,
                              what + " \"" + text.substr(0, 40) + "\" must be numbers like 1,2,3");
        }
        ids.push_back(id);
        at = next + 1;
    }
    return ids;
}

namespace {

/// The stream does not tell the end from an error.
Status check_standard_input() {
    if (std::ferror(stdin) == 0) return Status::ok();
    return make_error(ErrorCode::io, "standard input cannot be read");  // it is closed, or a folder
}

}  // namespace

Result<std::string> read_standard_input(size_t bytes_max) {
    RONDO_ASSIGN(std::string text, read_bounded(std::cin, "standard input", bytes_max));
    RONDO_TRY(check_standard_input());
    return text;
}

Result<std::optional<std::string>> read_line(size_t bytes_max) {
    std::string line;
    for (int byte = std::cin.get(); byte != '\n'; byte = std::cin.get()) {
        if (byte == std::char_traits<char>::eof()) {
            RONDO_TRY(check_standard_input());
            return line.empty() ? std::nullopt : std::optional<std::string>(std::move(line));
        }
        if (line.size() >= bytes_max) return too_long("a line of standard input", bytes_max);
        line += static_cast<char>(byte);
    }
    return std::optional<std::string>(std::move(line));
}

size_t text_bytes_max(int64_t context_tokens) {
    return std::min(limits::prompt_bytes_max, static_cast<size_t>(context_tokens) * limits::prompt_bytes_per_token_max);
}

Result<std::string> read_file(const std::string& path, size_t bytes_max) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return make_error(ErrorCode::not_found, path + " cannot be read");
    return read_bounded(in, path, bytes_max);
}

Status write_file(const std::string& path, const std::string& text) {
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) return make_error(ErrorCode::io, path + " cannot be written: " + std::strerror(errno));
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) == 0 && written) return Status::ok();
    return make_error(ErrorCode::io, path + " could not be written whole");
}

Status check_writable(const std::string& path) {
    if (path.empty()) return Status::ok();
    std::error_code none;
    const std::filesystem::path file = path, parent = file.has_parent_path() ? file.parent_path() : ".";
    if (std::filesystem::is_directory(file, none))
        return make_error(ErrorCode::io, path + " cannot be written: " + std::strerror(EISDIR));
    if (::access(std::filesystem::exists(file, none) ? path.c_str() : parent.c_str(), W_OK) == 0) return Status::ok();
    return make_error(ErrorCode::io, path + " cannot be written: " + std::strerror(errno));
}

}  // namespace rondo::cli

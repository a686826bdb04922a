#include "cli/model_options.hpp"

#include <charconv>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cli/progress.hpp"
#include "config/limits.hpp"
#include "kernels/backend.hpp"

namespace rondo::cli {

namespace {

Result<std::string> read_bounded(std::istream& in, const std::string& where) {
    std::string text;
    char piece[65536];
    while (in.read(piece, sizeof piece) || in.gcount() > 0) {
        text.append(piece, static_cast<size_t>(in.gcount()));
        if (text.size() <= limits::prompt_bytes_max) continue;
        return make_error(ErrorCode::out_of_range,
                          where + " holds more than " + std::to_string(limits::prompt_bytes_max) + " bytes");
    }
    return text;
}

}  // namespace

Result<DType> parse_kv_type(const std::string& text) {
    if (text == "bf16") return DType::bf16;
    if (text == "f32") return DType::f32;
    if (text == "int8") return DType::i8;
    return make_error(ErrorCode::invalid_argument, "--kv " + text + "; bf16, f32 or int8 would be right");
}

void ModelOptions::add_text_side(CLI::App& app) {
    app.add_option("--model", model, "Hugging Face folder or .gguf file (default: the demo model)");
}

void ModelOptions::add_all(CLI::App& app) {
    add_text_side(app);
    app.add_option("--weights", weights, "file, or random:SEED to run a config.json without weights");
    app.add_option("--device", device, "cpu, cpu:THREADS, cuda or cuda:ORDINAL");
    app.add_option("--threads", threads, "threads of a CPU device (default: all cores)")->check(CLI::Range(1, 1024));
    app.add_option("--kv", kv, "type of the KV cache: bf16, f32 or int8");
    app.add_option("--chunk", chunk_tokens, "tokens of a prefill chunk")->check(CLI::Range(1, 1 << 16));
    app.add_option("--method", method, "attention method: dense");
}

std::filesystem::path ModelOptions::path() const {
    return model.empty() ? demo_model_path() : std::filesystem::path(model);
}

Result<Model> ModelOptions::load_text() const {
    RONDO_ASSIGN(const WeightsChoice choice, parse_weights_choice(weights));
    return load_model_text(path(), choice);
}

Result<std::unique_ptr<Runner>> Runner::open(const ModelOptions& options, int64_t context_tokens_max) {
    if (options.method != "dense") {
        return make_error(ErrorCode::unsupported, "--method " + options.method + "; dense would be right");
    }
    RONDO_ASSIGN(const DType kv_type, parse_kv_type(options.kv));
    RONDO_ASSIGN(const WeightsChoice choice, parse_weights_choice(options.weights));
    RONDO_ASSIGN(DeviceOptions device_options, parse_device(options.device));
    if (options.threads > 0) device_options.threads = options.threads;
    auto runner = std::make_unique<Runner>();
    RONDO_ASSIGN(runner->device, open_device(device_options));
    Progress progress("loading " + options.path().filename().string());
    RONDO_ASSIGN(runner->model, load_model(options.path(), choice, *runner->device, [&](double share) { progress.show(share); }));
    progress.finish();
    Generator::Options generator_options;
    generator_options.chunk_tokens = options.chunk_tokens;
    generator_options.kv_type = kv_type;
    generator_options.context_tokens_max = context_tokens_max;
    RONDO_ASSIGN(runner->generator, Generator::create(runner->model, *runner->device, generator_options));
    return runner;
}

Result<std::vector<int32_t>> parse_ids(const std::string& text) {
    std::vector<int32_t> ids;
    for (const char *at = text.data(), *const end = at + text.size(); at <= end && !text.empty();) {
        int32_t id = 0;
        const auto [next, error] = std::from_chars(at, end, id);
        if (error != std::errc() || id < 0 || (next != end && *next != ',')) {
            return make_error(ErrorCode::invalid_argument,
                              "token ids \"" + text.substr(0, 40) + "\"; numbers like 1,2,3 would be right");
        }
        ids.push_back(id);
        at = next + 1;
    }
    return ids;
}

Result<std::string> read_standard_input() {
    return read_bounded(std::cin, "standard input");
}

Result<std::string> read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return make_error(ErrorCode::not_found, path + " cannot be read");
    return read_bounded(in, path);
}

}  // namespace rondo::cli

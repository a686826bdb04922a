#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "actors/gateway/bodies/json_text.hpp"
#include "cli/commands.hpp"
#include "cli/model_options.hpp"
#include "model/model_files.hpp"

namespace rondo::cli {

namespace {

struct InspectOptions {
    std::string model;
    bool json = false;
};

std::string_view scaling_name(RopeSpec::Scaling scaling) {
    switch (scaling) {
        case RopeSpec::Scaling::none:
            return "none";
        case RopeSpec::Scaling::linear:
            return "linear";
        case RopeSpec::Scaling::llama3:
            return "llama3";
    }
    return "?";
}

Status inspect(const InspectOptions& options) {
    const std::filesystem::path path = options.model.empty() ? demo_model_path() : std::filesystem::path(options.model);
    RONDO_ASSIGN(const ModelFiles files, open_model_files(path, {}, WeightsNeed::if_there));
    const ModelSpec& spec = files.spec;
    std::map<std::string, size_t> bytes_by_type;
    size_t bytes = 0;
    if (files.weights != nullptr) {
        for (const FileTensor& tensor : files.weights->tensors()) {
            bytes_by_type[std::string(traits(tensor.dtype).name)] += tensor.bytes;
            bytes += tensor.bytes;
        }
    }
    nlohmann::ordered_json out = {{"name", files.name},
                                  {"architecture", spec.architecture},
                                  {"parameters", spec.parameters()},
                                  {"layers", spec.layers},
                                  {"width", spec.width},
                                  {"heads", spec.heads},
                                  {"kv_heads", spec.kv_heads},
                                  {"head_dim", spec.head_dim},
                                  {"ffn_width", spec.ffn_width},
                                  {"vocabulary", spec.vocabulary},
                                  {"context_tokens", spec.context_tokens},
                                  {"tied_embeddings", spec.tied_embeddings},
                                  {"rope_theta", spec.rope.theta},
                                  {"rope_scaling", scaling_name(spec.rope.scaling)},
                                  {"eos_ids", spec.eos_ids},
                                  {"weights", files.weights != nullptr ? "there" : "no weights"},
                                  {"weight_bytes", bytes},
                                  {"weight_bytes_by_type", bytes_by_type},
                                  {"kv_bytes_per_token_bf16", 4 * int64_t{spec.layers} * spec.kv_heads * spec.head_dim},
                                  {"tokenizer", !files.tokenizer_json.empty() || files.gguf_vocabulary.has_value()},
                                  {"chat_template", !files.chat_template.empty()}};
    if (options.json) {
        std::printf("%s\n", json_text(out).c_str());
        return Status::ok();
    }
    for (const auto& [key, value] : out.items()) std::printf("%-24s %s\n", key.c_str(), json_text(value).c_str());
    return Status::ok();
}

}  // namespace

void add_inspect(CLI::App& app, Action& run) {
    auto options = std::make_shared<InspectOptions>();
    CLI::App* const command =
        app.add_subcommand("inspect", "what is in a model or a store, and what a model attends to");
    command->require_subcommand(1);
    CLI::App* const model = command->add_subcommand("model", "shape, types and sizes of a model");
    model->add_option("path", options->model, "Hugging Face folder or .gguf file (default: the demo model)")
        ->type_name("MODEL");
    model->add_flag("--json", options->json);
    model->callback([options, &run] { run = [options] { return inspect(*options); }; });
    add_inspect_store(*command, run);
    add_inspect_attention(*command, run);
}

}  // namespace rondo::cli

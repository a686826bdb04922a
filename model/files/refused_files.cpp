#include "model/files/refused_files.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

#include "model/files/path_text.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view no_pytorch =
    "PyTorch's format, which is not read; convert it to safetensors (save_pretrained of transformers) or take a GGUF "
    "file of the model";
constexpr std::string_view no_framework =
    "another framework's format, which is not read; take the model's safetensors folder or a GGUF file";

/// A kind of file by its first bytes, its name's ending, or both.
struct Kind {
    std::string_view begins;
    std::string_view ends;
    std::string_view what;
};

constexpr std::string_view archive = "an archive; unpack it and give the folder or .gguf file in it";
constexpr std::string_view old_ggml = "a GGML file from before GGUF; take the model as a GGUF file";
constexpr std::string_view web_page = "a web page, not a model; download the file itself";

constexpr Kind kinds[] = {
    {"<!", "", web_page},
    {"<html", "", web_page},
    {"lmgg", "", old_ggml},
    {"fmgg", "", old_ggml},
    {"tjgg", "", old_ggml},
    {"PK\x03\x04", ".zip", archive},
    {"PK\x03\x04", "", no_pytorch},
    {"\x1F\x8B", "", archive},
    {"\xFD"
     "7zXZ",
     "", archive},
    {"\x28\xB5\x2F\xFD", "", archive},
    {"", ".tar", archive},
    {"", ".safetensors", "a safetensors file alone; give the folder that has it beside its config.json"},
    {"", ".bin", no_pytorch},
    {"", ".pt", no_pytorch},
    {"", ".pth", no_pytorch},
    {"", ".ckpt", no_pytorch},
    {"", ".onnx", no_framework},
    {"", ".h5", no_framework},
    {"", ".msgpack", no_framework},
    {"", ".json", "a JSON file alone; give the folder that holds it"},
    {"", ".gguf", "no GGUF file, though its name ends so; download it again"},
};

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

Error unsupported(const std::string& where, std::string_view what) {
    return make_error(ErrorCode::unsupported, where + ": " + std::string(what));
}

/// The names in a folder, sorted; of a huge one only some.
std::vector<std::string> names_in(const fs::path& folder) {
    constexpr size_t names_max = 4096;
    std::vector<std::string> names;
    std::error_code problem;
    for (fs::directory_iterator at(folder, problem), end; !problem && at != end && names.size() < names_max;
         at.increment(problem)) {
        names.push_back(at->path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

/// The first name with one of these endings; "" when there is none.
std::string first_with(const std::vector<std::string>& names, std::initializer_list<std::string_view> endings) {
    for (const std::string& name : names) {
        for (const std::string_view ending : endings) {
            if (lower(name).ends_with(ending)) return path_text(name);
        }
    }
    return "";
}

/// Those that begin as the names of weights do: what a trainer leaves beside them (optimizer.pt) is none.
std::vector<std::string> names_of_weights(const std::vector<std::string>& names) {
    std::vector<std::string> out;
    for (const std::string& name : names) {
        for (const char* begin : {"model", "pytorch_model", "consolidated", "tf_model", "flax_model"}) {
            if (name.starts_with(begin)) out.push_back(name);
        }
    }
    return out;
}

bool has(const std::vector<std::string>& names, const char* name) {
    return std::binary_search(names.begin(), names.end(), name);
}

/// OWNER/NAME, of the characters that a hub allows, where OWNER is no folder here.
bool is_hub_name(const fs::path& path) {
    const std::string text = path.string();
    const size_t slash = text.find('/');
    if (slash == 0 || slash == std::string::npos || slash + 1 == text.size()) return false;
    const auto allowed = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
    };
    const std::string owner = text.substr(0, slash), name = text.substr(slash + 1);
    std::error_code ignored;
    return std::all_of(owner.begin(), owner.end(), allowed) && std::all_of(name.begin(), name.end(), allowed) &&
           owner.front() != '.' && !lower(name).ends_with(".gguf") && !fs::exists(owner, ignored);
}

}  // namespace

Status check_downloaded(std::span<const std::byte> bytes, const std::string& where) {
    constexpr std::string_view pointer = "version https://git-lfs.github.com/spec/";
    if (bytes.empty()) return make_error(ErrorCode::corrupt, where + ": an empty file; download it again");
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), pointer.size()));
    if (text != pointer) return {};
    return make_error(ErrorCode::corrupt, where +
                                              ": a Git LFS pointer, not the file that it stands for; run 'git lfs "
                                              "pull' in its folder or download the file");
}

std::optional<Error> link_to_nowhere(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_symlink(path, ignored)) return std::nullopt;
    return make_error(ErrorCode::not_found, path_text(path) +
                                                ": a link to a file that is not there; a model in the hub's cache "
                                                "consists of links, so copy it with their files (cp -rL)");
}

Error no_such_model(const fs::path& path, const Error& cause) {
    const std::string where = path_text(path);
    if (cause.code != ErrorCode::not_found) return cause;
    if (const auto link = link_to_nowhere(path)) return *link;
    if (where.find(":/") != std::string::npos || where.starts_with("hf.co/") || where.starts_with("huggingface.co/")) {
        return make_error(ErrorCode::not_found,
                          where + ": a URL, not a path; download the model and give its folder or .gguf file");
    }
    if (is_hub_name(path)) {
        return make_error(ErrorCode::not_found, where +
                                                    ": no such file or folder; if it is a name on the Hugging Face "
                                                    "hub, download it (hf download " +
                                                    where + " --local-dir FOLDER) and give FOLDER");
    }
    return cause;
}

Error not_a_model_file(const fs::path& path, std::span<const std::byte> bytes, const std::string& where) {
    const std::string_view content(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 16));
    const std::string name = lower(path.filename().string());
    for (const Kind& kind : kinds) {
        if (content.starts_with(kind.begins) && name.ends_with(kind.ends)) return unsupported(where, kind.what);
    }
    return unsupported(where, "neither a folder with config.json and safetensors nor a GGUF file");
}

Error no_config(const fs::path& folder, const std::string& where) {
    if (const auto link = link_to_nowhere(folder / "config.json")) return *link;
    const std::vector<std::string> names = names_in(folder);
    const auto missing = [&](const std::string& what) {
        return make_error(ErrorCode::not_found, where + ": no config.json in this folder; " + what);
    };
    if (has(names, "adapter_config.json")) {
        return missing("it is an adapter (LoRA): merge it into its base model and give that folder");
    }
    if (const std::string gguf = first_with(names, {".gguf"}); !gguf.empty()) {
        return missing("give the .gguf file itself: " + (where.ends_with('/') ? where : where + "/") + gguf);
    }
    if (has(names, "snapshots")) {
        return missing("it is the hub's cache of a model: give the folder inside its 'snapshots'");
    }
    if (has(names, "model_index.json")) return missing("it is a diffusion pipeline, not a language model");
    if (has(names, "params.json") || !first_with(names, {".pth"}).empty()) {
        return missing("it is a checkpoint in its maker's own format: take the Hugging Face folder or a GGUF file");
    }
    return missing("a model is a Hugging Face folder (config.json, tokenizer.json, safetensors) or a .gguf file");
}

std::optional<Error> other_weights(const fs::path& folder, const std::string& where) {
    for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
        if (auto link = link_to_nowhere(folder / name)) return link;
    }
    const std::vector<std::string> names = names_in(folder);
    const auto refused = [&](const std::string& what) { return unsupported(where + ": no weights to read", what); };
    if (has(names, "adapter_model.safetensors") || has(names, "adapter_model.bin")) {
        return refused("it has an adapter's alone (LoRA); merge it into its base model and give that folder");
    }
    const std::vector<std::string> weights = names_of_weights(names);
    if (const std::string name = first_with(weights, {".safetensors"}); !name.empty()) {
        return refused(name + " is there, but what is read is model.safetensors or the files that " +
                       "model.safetensors.index.json lists; download the missing one too");
    }
    if (const std::string name = first_with(weights, {".bin", ".pth", ".pt", ".ckpt"}); !name.empty()) {
        return refused(name + " has " + std::string(no_pytorch));
    }
    if (const std::string name = first_with(weights, {".onnx", ".h5", ".msgpack"}); !name.empty()) {
        return refused(name + " has " + std::string(no_framework));
    }
    if (const std::string name = first_with(names, {".gguf"}); !name.empty()) {
        return refused("give the .gguf file itself: " + (where.ends_with('/') ? where : where + "/") + name);
    }
    return std::nullopt;
}

}  // namespace rondo

#include "model/model_files.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/gguf.hpp"
#include "model/files/gguf_parts.hpp"
#include "model/files/mapped_file.hpp"
#include "model/files/mapped_weights.hpp"
#include "model/files/path_text.hpp"
#include "model/files/refused_files.hpp"
#include "model/files/safetensors.hpp"
#include "model/files/spec_tensors.hpp"
#include "model/files/strict_json.hpp"
#include "model/gguf_model.hpp"
#include "model/random_weights.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

/// The text of a file of a model's folder, which must not be empty.
Result<std::string> text_of(const fs::path& path, size_t bytes_max) {
    const std::string where = path_text(path);
    RONDO_ASSIGN(std::string text, read_text_file(path, where, bytes_max));
    RONDO_TRY(check_downloaded(std::as_bytes(std::span(text)), where));
    return text;
}

/// The same of a file that may be absent: "" then.
Result<std::string> optional_text(const fs::path& path, size_t bytes_max) {
    auto text = text_of(path, bytes_max);
    if (text || text.error().code != ErrorCode::not_found) return text;
    if (auto link = link_to_nowhere(path)) return *link;
    return std::string();
}

/// A file of a model's folder that holds a JSON object; an empty one where the file is absent.
struct JsonFile {
    std::string where;
    nlohmann::json object = nlohmann::json::object();

    static Result<JsonFile> open(const fs::path& path) {
        JsonFile out{path_text(path)};
        RONDO_ASSIGN(const std::string text, optional_text(path, limits::config_bytes_max));
        if (!text.empty()) {
            RONDO_ASSIGN(out.object, parse_json_object(text, out.where));
        }
        return out;
    }
    JsonFields fields() const { return JsonFields(object, where); }
};

/// A special token, written as a string or as an object with its content.
Result<std::string> token_text(const JsonFile& file, const std::string& key) {
    const JsonFields fields = file.fields();
    const auto* value = fields.find(key);
    if (value == nullptr || !value->is_object()) return fields.text(key, "");
    return JsonFields(*value, file.where, key + ".", JsonFields::Nulls::refused).text("content", "");
}

/// The tokens that Hugging Face's tokenizer classes have where no file says any.
struct ClassTokens {
    std::string_view tokenizer_class, bos, eos;
};
constexpr ClassTokens class_tokens[] = {{"LlamaTokenizer", "<s>", "</s>"},
                                        {"Qwen2Tokenizer", "", "<|endoftext|>"},
                                        {"GPT2Tokenizer", "<|endoftext|>", "<|endoftext|>"}};

/// As tokenizer_config.json says; else, as in older models, special_tokens_map.json; else the tokenizer's class. A null
/// says that there is no such token.
Status read_special_tokens(const JsonFile& config, const JsonFile& map, std::string_view type, ModelFiles& out) {
    if (type.ends_with("Fast")) type.remove_suffix(4);
    const auto* known = std::ranges::find(class_tokens, type, &ClassTokens::tokenizer_class);
    const auto read = [&](const char* key, std::string_view by_class) -> Result<std::string> {
        for (const JsonFile* file : {&config, &map})
            if (file->object.contains(key)) return token_text(*file, key);
        return std::string(by_class);
    };
    const bool is_known = known != std::end(class_tokens);
    RONDO_ASSIGN(out.bos_token, read("bos_token", is_known ? known->bos : ""));
    RONDO_ASSIGN(out.eos_token, read("eos_token", is_known ? known->eos : ""));
    return {};
}

/// A template as a string, or the one named "default" of a list.
Result<std::string> template_text(const JsonFields& fields, const std::string& where) {
    const auto* value = fields.find("chat_template");
    if (value == nullptr || !value->is_array()) return fields.text("chat_template", "");
    for (const auto& item : *value) {
        if (!item.is_object()) return fields.wrong("chat_template", "a string or a list of {name, template}");
        const JsonFields entry(item, where, "chat_template[].", JsonFields::Nulls::refused);
        RONDO_ASSIGN(const std::string name, entry.text("name", ""));
        if (name == "default") return entry.text("template", "");
    }
    return std::string();
}

/// Hugging Face's classes of Llama tokenizers add these tokens themselves, whatever tokenizer.json says.
Status read_around_text(const JsonFields& fields, std::string_view type, ModelFiles& out) {
    if (type != "LlamaTokenizer" && type != "LlamaTokenizerFast") return {};
    RONDO_ASSIGN(const bool begins, fields.boolean("add_bos_token", true));
    RONDO_ASSIGN(const bool ends, fields.boolean("add_eos_token", false));
    const auto wanted = [](bool adds, const std::string& token) -> std::optional<std::string> {
        if (!adds) return "";
        return token.empty() ? std::nullopt : std::optional(token);
    };
    out.around_text = AroundText{wanted(begins, out.bos_token), wanted(ends, out.eos_token)};
    return {};
}

Status read_tokenizer_config(const fs::path& folder, ModelFiles& out) {
    RONDO_ASSIGN(const JsonFile config, JsonFile::open(folder / "tokenizer_config.json"));
    RONDO_ASSIGN(const JsonFile map, JsonFile::open(folder / "special_tokens_map.json"));
    const JsonFields fields = config.fields();
    RONDO_ASSIGN(const std::string type, fields.text("tokenizer_class", ""));
    RONDO_TRY(read_special_tokens(config, map, type, out));
    RONDO_ASSIGN(out.chat_template, template_text(fields, config.where));
    RONDO_TRY(read_around_text(fields, type, out));
    // A file of its own is the newer way and goes before the configuration's.
    RONDO_ASSIGN(std::string own, optional_text(folder / "chat_template.jinja", limits::template_bytes_max));
    if (!own.empty()) out.chat_template = std::move(own);
    if (out.chat_template.size() <= limits::template_bytes_max) return {};
    return make_error(ErrorCode::out_of_range,
                      config.where + ": chat_template of " + std::to_string(out.chat_template.size()) +
                          " bytes, must be at most " + std::to_string(limits::template_bytes_max));
}

/// Whether the folder has weights, those that are read or others.
bool has_weights(const fs::path& folder) {
    std::error_code ignored;
    return fs::exists(folder / "model.safetensors", ignored) ||
           fs::exists(folder / "model.safetensors.index.json", ignored) || other_weights(folder, "").has_value();
}

Result<ModelFiles> open_folder(const fs::path& folder, std::string name, const WeightsChoice& choice,
                               WeightsNeed need) {
    ModelFiles out;
    out.name = std::move(name);
    const std::string where = path_text(folder);
    auto config = text_of(folder / "config.json", limits::config_bytes_max);
    if (!config && config.error().code == ErrorCode::not_found) return no_config(folder, where);
    if (!config) return config.error();
    RONDO_ASSIGN(const std::string generation,
                 optional_text(folder / "generation_config.json", limits::config_bytes_max));
    RONDO_ASSIGN(out.spec, spec_from_hf(*config, generation, path_text(folder / "config.json")));
    RONDO_ASSIGN(out.tokenizer_json, optional_text(folder / "tokenizer.json", limits::json_bytes_max));
    RONDO_TRY(read_tokenizer_config(folder, out));
    if (need == WeightsNeed::not_read || (need == WeightsNeed::if_there && !has_weights(folder))) return out;
    if (choice.random_seed) {
        RONDO_ASSIGN(out.weights, random_weights(out.spec, *choice.random_seed, choice.random_dtype, where));
        return out;
    }
    RONDO_ASSIGN(out.weights, open_safetensors(folder, where, out.spec.tied_embeddings));
    RONDO_TRY(check_weights(out.spec, *out.weights, where));
    return out;
}

std::string token_by_id(const GgufVocabulary& vocabulary, int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < vocabulary.tokens.size() ? vocabulary.tokens[static_cast<size_t>(id)]
                                                                         : "";
}

Result<ModelFiles> open_gguf(const fs::path& path, MappedFile file, const WeightsChoice& choice, WeightsNeed need) {
    RONDO_ASSIGN(GgufParts parts, open_gguf_parts(path, std::move(file), need == WeightsNeed::not_read));
    const GgufFile& gguf = parts.whole;
    ModelFiles out;
    const auto part = gguf_part_name(path.filename().string());
    out.name = part ? part->stem : path.stem().string();
    RONDO_ASSIGN(out.spec, spec_from_gguf(gguf));
    RONDO_ASSIGN(GgufVocabulary vocabulary, vocabulary_from_gguf(gguf));
    RONDO_ASSIGN(out.chat_template, chat_template_from_gguf(gguf));
    out.bos_token = token_by_id(vocabulary, vocabulary.bos_id);
    out.eos_token = token_by_id(vocabulary, vocabulary.eos_id);
    if (!vocabulary.tokens.empty()) out.gguf_vocabulary = std::move(vocabulary);
    if (need == WeightsNeed::not_read) return out;
    if (choice.random_seed) {
        RONDO_ASSIGN(out.weights, random_weights(out.spec, *choice.random_seed, choice.random_dtype, gguf.where()));
        return out;
    }
    if (gguf.tensors().empty()) {
        if (need == WeightsNeed::if_there) return out;
        return make_error(ErrorCode::unsupported, gguf.where() +
                                                      ": a vocabulary without weights; it is enough for 'rondo "
                                                      "tokenize', but to run the model take its whole file");
    }
    RONDO_ASSIGN(out.weights, make_mapped_weights(std::move(parts.files), gguf.tensors(), gguf.where()));
    RONDO_TRY(check_weights(out.spec, *out.weights, gguf.where()));
    return out;
}

/// The last part of a folder's path, also of "model/" and ".". A link keeps its own name: in the hub's cache links have
/// the names, and what they lead to is called by its hash.
std::string name_of(const fs::path& folder) {
    std::error_code ignored;
    fs::path path = folder.lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    if (path.filename() == "." || path.filename() == "..") path = fs::weakly_canonical(folder, ignored);
    const std::string name = path.filename().string();
    return name.empty() ? folder.string() : name;
}

}  // namespace

Result<WeightsChoice> parse_weights_choice(std::string_view text) {
    WeightsChoice choice;
    if (text == "auto" || text == "file") return choice;
    constexpr std::string_view prefix = "random:";
    uint64_t seed = 0;
    const char* end = text.data() + text.size();
    if (text.starts_with(prefix)) {
        const auto [stop, problem] = std::from_chars(text.data() + prefix.size(), end, seed);
        if (problem == std::errc() && stop == end) {
            choice.random_seed = seed;
            return choice;
        }
    }
    return make_error(ErrorCode::invalid_argument,
                      "weights " + in_quotes(text) + " must be auto, file or random:SEED (a number below 2^64)");
}

Result<ModelFiles> open_model_files(const fs::path& path, const WeightsChoice& choice, WeightsNeed need) {
    std::error_code problem;
    if (fs::is_directory(path, problem)) return open_folder(path, name_of(path), choice, need);
    const std::string where = path_text(path);
    auto file = MappedFile::open(path, where);
    if (!file) return no_such_model(path, file.error());
    RONDO_TRY(check_downloaded(file->bytes(), where));
    if (is_gguf(file->bytes())) return open_gguf(path, std::move(*file), choice, need);
    return not_a_model_file(path, file->bytes(), where);
}

Status check_vocabulary(const ModelSpec& spec, int64_t tokenizer_vocabulary, const std::string& where) {
    if (tokenizer_vocabulary <= spec.vocabulary) return {};
    return make_error(ErrorCode::corrupt,
                      where + ": the tokenizer has ids up to " + std::to_string(tokenizer_vocabulary - 1) +
                          "; the model's embedding has " + std::to_string(spec.vocabulary) + " rows");
}

}  // namespace rondo

#include "model/model.hpp"

#include <malloc.h>

#include <algorithm>

#include "memory/machine_memory.hpp"
#include "model/files/path_text.hpp"
#include "model/model_fingerprint.hpp"
#include "model/text/template_variables.hpp"
#include "model/text/thoughts.hpp"
#include "model/weights_memory.hpp"

namespace rondo {

namespace {

void find_thoughts(Model& model) {
    if (model.tokenizer == nullptr) return;
    const auto special_id = [&](std::string_view tag) {
        const int32_t id = model.tokenizer->find(tag);
        model.shows_thoughts = model.shows_thoughts || id >= 0;
        return id >= 0 && model.tokenizer->is_special(id) ? id : -1;
    };
    model.thought_begin_id = special_id(Thoughts::begin_tag);
    model.thought_end_id = special_id(Thoughts::end_tag);
    if (model.chat_template && model.chat_template->mentions(Thoughts::end_tag)) model.shows_thoughts = true;
}

/// Special tokens that stand in calls of tools are what one knows calls by, so they are text.
void find_calls(Model& model) {
    if (!model.chat_template || model.tokenizer == nullptr) return;
    model.call_style = find_call_style(*model.chat_template);
    if (!model.call_style) return;
    const CallStyle& style = *model.call_style;
    const std::string all = style.begin + style.between + style.before_id + style.next + style.behind;
    for (int32_t id = 0; id < model.tokenizer->vocabulary(); ++id) {
        if (!model.tokenizer->is_special(id) || model.ends_answer(id)) continue;
        const std::string token = model.tokenizer->bytes_of(id, true);
        if (!token.empty() && all.find(token) != std::string::npos) model.tokenizer->take_as_text(id);
    }
}

/// A base model that was tuned for chats often names the new end in its tokenizer's configuration alone.
void end_with(int32_t id, ModelSpec& spec) {
    if (id >= 0 && std::ranges::count(spec.eos_ids, id) == 0) spec.eos_ids.push_back(id);
}

Result<Model> text_side(const ModelFiles& files, const std::filesystem::path& path) {
    Model model;
    model.name = files.name;
    model.spec = files.spec;
    model.bos_token = files.bos_token;
    model.eos_token = files.eos_token;
    if (files.gguf_vocabulary) {
        RONDO_ASSIGN(model.tokenizer, tokenizer_from_gguf(*files.gguf_vocabulary, path.string()));
    } else if (!files.tokenizer_json.empty()) {
        RONDO_ASSIGN(model.tokenizer,
                     tokenizer_from_json(files.tokenizer_json, (path / "tokenizer.json").string(), files.around_text));
    }
    if (model.tokenizer != nullptr) {
        RONDO_TRY(check_vocabulary(model.spec, model.tokenizer->vocabulary(), path.string()));
        if (!files.eos_token.empty()) end_with(model.tokenizer->find(files.eos_token), model.spec);
    }
    if (!files.chat_template.empty()) {
        auto parsed = ChatTemplate::parse(files.chat_template, path.string() + ": chat template");
        if (parsed)
            model.chat_template.emplace(std::move(*parsed));
        else
            model.chat_template_fault = parsed.error();  // plain text needs none
    }
    find_thoughts(model);
    find_calls(model);
    return model;
}

/// The tokenizer holds what it read in less memory; the texts as the file has them must not lie beside the weights.
void give_back_texts(ModelFiles& files) {
    files.gguf_vocabulary.reset();
    files.tokenizer_json = {};
    ::malloc_trim(0);
}

}  // namespace

Result<std::string> Model::render_chat(const std::vector<ChatMessage>& messages, const GivenToTemplate& given,
                                       const std::stop_token& stop) const {
    if (tokenizer == nullptr)
        return make_error(ErrorCode::unsupported, "model " + name + " has no tokenizer; the prompt must be token ids");
    if (chat_template_fault) return *chat_template_fault;
    if (!chat_template)
        return make_error(ErrorCode::unsupported,
                          "model " + name + " has no chat template; the prompt must be plain text");
    RONDO_TRY(check_roles(messages));
    RONDO_TRY(check_template_variables(given.variables_json));
    ChatTemplateInput input;
    input.messages = messages;
    input.extra_json = given.variables_json;
    input.tools_json = given.tools_json;
    input.bos_token = bos_token;
    input.eos_token = eos_token;
    return chat_template->render(input, stop);
}

Result<std::vector<int32_t>> Model::encode_chat(const std::vector<ChatMessage>& messages, const std::stop_token& stop,
                                                const GivenToTemplate& given) const {
    RONDO_ASSIGN(const std::string text, render_chat(messages, given, stop));
    return tokenizer->encode(text, true, stop);
}

Result<std::vector<int32_t>> Model::encode_text(std::string_view text, const std::stop_token& stop) const {
    if (tokenizer == nullptr)
        return make_error(ErrorCode::unsupported, "model " + name + " has no tokenizer; the prompt must be token ids");
    RONDO_ASSIGN(std::vector<int32_t> ids, tokenizer->encode(text, true, stop));
    return tokenizer->with_template_tokens(std::move(ids));
}

Result<std::shared_ptr<const ToolUse>> Model::tool_use(std::string_view tools, const ToolChoice& choice,
                                                       const std::string& where) const {
    return ToolUse::make_for(chat_template ? &*chat_template : nullptr, style_of_calls(), tools, choice, where);
}

bool Model::ends_answer(int32_t id) const {
    return std::find(spec.eos_ids.begin(), spec.eos_ids.end(), id) != spec.eos_ids.end();
}

bool Model::ends_in_thought(std::span<const int32_t> prompt) const {
    constexpr size_t looked_at = 16;  // more ids than the tag and line breaks behind it ever take
    return begins_thought(tokenizer->decode(prompt.last(std::min(prompt.size(), looked_at)), true));
}

std::string Model::answer_bytes(int32_t id) const {
    if (id == thought_begin_id) return std::string(Thoughts::begin_tag);
    if (id == thought_end_id) return std::string(Thoughts::end_tag);
    return tokenizer->bytes_of(id, false);
}

const SortedTokens& Model::sorted_tokens() const {
    return tokens_by_bytes->get(std::min(tokenizer->vocabulary(), spec.vocabulary),
                                [this](int32_t id) { return answer_bytes(id); });
}

Result<Model> load_model_text(const std::filesystem::path& path) {
    RONDO_ASSIGN(const ModelFiles files, open_model_files(path, {}, WeightsNeed::not_read));
    return text_side(files, path);
}

Result<Model> load_model(const std::filesystem::path& path, const WeightsChoice& choice, Device& device,
                         const std::function<void(double)>& progress) {
    RONDO_ASSIGN(ModelFiles files, open_model_files(path, choice));
    RONDO_ASSIGN(Model model, text_side(files, path));
    give_back_texts(files);
    if (device.computes_in_host_memory()) {
        const size_t bytes = packed_bytes(files.spec, *files.weights, device.ops());
        RONDO_TRY(check_weights_memory(bytes, choice.kv_bytes, machine_memory_bytes(), path_text(path)));
    }
    if (choice.fingerprint) model.fingerprint = fingerprint_of(files, choice);
    RONDO_ASSIGN(model.weights, load_weights(files.spec, *files.weights, device, progress));
    return model;
}

std::filesystem::path model_path(const std::string& setting) {
    return setting == "demo" ? demo_model_path() : std::filesystem::path(setting);
}

std::filesystem::path demo_model_path() {
    // The binary first: an installed Rondo must not look into a source tree that may be gone or changed.
    std::error_code error;
    const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", error);
    for (const char* place : {"../share/rondo/demo_model", "../../examples/demo_model"}) {
        const auto candidate = binary.parent_path() / place;
        if (!error && std::filesystem::exists(candidate / "config.json", error)) return candidate.lexically_normal();
    }
    return std::filesystem::path(RONDO_SOURCE_DIR) / "examples/demo_model";
}

}  // namespace rondo

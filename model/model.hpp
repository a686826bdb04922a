#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "kernels/device.hpp"
#include "memory/store/record_header.hpp"
#include "model/format/sorted_tokens.hpp"
#include "model/model_files.hpp"
#include "model/text/chat_template.hpp"
#include "model/text/tokenizer.hpp"
#include "model/tools/call_style.hpp"
#include "model/tools/tool_use.hpp"
#include "model/weights.hpp"

namespace rondo {

/// What a chat template is given beside messages.
struct GivenToTemplate {
    std::string variables_json;  ///< as check_template_variables allows them; "" for none
    std::string tools_json;      ///< as ToolUse::json has them; "" for none
};

/// A model ready to run in one memory space: packed weights, tokenizer, chat template. Immutable.
struct Model {
    std::string name;
    ModelSpec spec;
    std::unique_ptr<Tokenizer> tokenizer;  ///< none when the folder has no tokenizer.json
    std::optional<ChatTemplate> chat_template;
    std::optional<Error> chat_template_fault;  ///< why the model's own cannot be used
    std::string bos_token, eos_token;
    bool shows_thoughts = false;    ///< its template or vocabulary has the tags of model/text/thoughts.hpp
    int32_t thought_begin_id = -1;  ///< the tags where they are special tokens, which are no text; else -1
    int32_t thought_end_id = -1;
    std::optional<CallStyle> call_style;  ///< how it writes calls of tools; none: not at all, or in an unknown way
    std::unique_ptr<Weights> weights;     ///< none when only the text side was asked for
    StoreName fingerprint{};              ///< of configuration and weights, if it was asked for
    std::unique_ptr<TokensByBytes> tokens_by_bytes = std::make_unique<TokensByBytes>();

    /// A conversation as its template writes it, up to where the model's answer begins.
    Result<std::string> render_chat(const std::vector<ChatMessage>& messages, const GivenToTemplate& given = {},
                                    const std::stop_token& stop = {}) const;
    /// A conversation as token ids, ready for the model's answer.
    Result<std::vector<int32_t>> encode_chat(const std::vector<ChatMessage>& messages, const std::stop_token& stop = {},
                                             const GivenToTemplate& given = {}) const;
    /// Plain text as ids, with the special tokens the model wants around it.
    Result<std::vector<int32_t>> encode_text(std::string_view text, const std::stop_token& stop = {}) const;
    /// Tools that its answers may call, given as a JSON list, which `where` names in errors. An error also where its
    /// template is told of none, or writes calls in a way that is not known.
    Result<std::shared_ptr<const ToolUse>> tool_use(std::string_view tools, const ToolChoice& choice,
                                                    const std::string& where) const;
    const CallStyle* style_of_calls() const { return call_style ? &*call_style : nullptr; }
    bool ends_answer(int32_t id) const;
    /// Whether an answer to this prompt begins within a thought.
    bool ends_in_thought(std::span<const int32_t> prompt) const;
    /// The bytes that a token adds to an answer, the tags of thoughts among them.
    std::string answer_bytes(int32_t id) const;
    /// The vocabulary by its bytes, sorted when it is first asked for. Needs a tokenizer.
    const SortedTokens& sorted_tokens() const;
};

/// Tokenizer and template only; weights need not be there.
Result<Model> load_model_text(const std::filesystem::path& path);
/// Everything; weights are packed for `device`. Refuses, before they are read, weights for which the host has no room.
Result<Model> load_model(const std::filesystem::path& path, const WeightsChoice& choice, Device& device,
                         const std::function<void(double)>& progress = {});

/// Where the model of `model.path` lies.
std::filesystem::path model_path(const std::string& setting);
/// The model that ships with Rondo: next to the sources, or where `make install` put it.
std::filesystem::path demo_model_path();

}  // namespace rondo

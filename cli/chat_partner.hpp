#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "actors/engine.hpp"
#include "cli/model_options.hpp"

namespace rondo::cli {

/// One conversation of the terminal chat, wherever it is served.
class ChatPartner {
public:
    virtual ~ChatPartner() = default;
    /// Who answers, in one line.
    virtual std::string name() const = 0;
    /// Asks and waits; `on_text` hears the answer as it comes, and false from it cancels the rest.
    virtual Result<TurnEnd> ask(const std::string& message, const std::function<bool(std::string_view)>& on_text) = 0;
    virtual Result<ConversationInfo> rounds() = 0;
    virtual Status rewind(int64_t round) = 0;
    /// A part of the conversations that are kept there, the newest first; `after` is the last id of the part before.
    virtual Result<ConversationPage> conversations(const std::string& after) = 0;
    /// Goes on with one of them.
    virtual Status open_conversation(const std::string& id) = 0;
    /// How turns can attend; the first is what they get if none is asked for.
    virtual std::vector<std::string> methods() const = 0;
    std::string method;  ///< of the turns to come; "": that
};

struct ChatOptions {
    ModelOptions model;
    std::string url;  ///< of a server; none: an engine in this process
    std::string api_key_file;
    std::string system;
    int64_t tokens_max = 1024;
    SamplingParams sampling;
};

Result<std::unique_ptr<ChatPartner>> open_engine_partner(const ChatOptions& options);
Result<std::unique_ptr<ChatPartner>> open_server_partner(const ChatOptions& options);

}  // namespace rondo::cli

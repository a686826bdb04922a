#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/engine.hpp"
#include "cli/model_options.hpp"
#include "cli/server_options.hpp"

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
    /// The methods that turns may ask for, the default first. Empty: there is no choice.
    virtual std::vector<std::string> methods() const = 0;
    /// What is known of a turn that ended, in lines.
    virtual std::string stats(const TurnEnd& turn) const;

    std::string method;  ///< of the turns to come; "": the default
};

struct ChatOptions {
    ModelOptions model;
    ServerOptions server;  ///< without a URL: an engine in this process
    std::string system;
    // Without a value, Rondo gets the defaults below, and another server uses its own.
    std::optional<int64_t> tokens_max;
    std::optional<float> temperature, top_p;
    std::optional<uint64_t> seed;

    static constexpr int64_t default_tokens_max = 1024;
    SamplingParams sampling() const;
};

Result<std::unique_ptr<ChatPartner>> open_engine_partner(const ChatOptions& options);
/// A Rondo that keeps the conversation, or any other server, which gets the whole of it again with each turn.
Result<std::unique_ptr<ChatPartner>> open_server_partner(const ChatOptions& options);

}  // namespace rondo::cli

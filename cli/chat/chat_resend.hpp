#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/chat/chat_partner.hpp"
#include "cli/server_connection.hpp"

namespace rondo::cli {

/// What a server's list of models says of the model that is asked, and of the server.
struct ServedModel {
    std::string model;
    bool is_rondo = false;
    std::vector<std::string> methods;  ///< of a Rondo
};

/// `wanted` is the model's name, or "" for the first of the list.
Result<ServedModel> served_model(const nlohmann::json& models, const std::string& wanted);

/// Any server of OpenAI's chat completions: it keeps nothing, so each turn sends all that was said. Nothing but fields
/// of OpenAI's own API is sent, and of those only what the user asked for.
std::unique_ptr<ChatPartner> resending_partner(const ChatOptions& options, std::shared_ptr<ServerConnection> server,
                                               std::string model);

/// A message of a request.
nlohmann::json message_of(const char* role, const std::string& content);

/// Whether a turn is a round: a question that was stopped before a word of its answer was never said.
bool is_said(const std::string& answer, const TurnEnd& end);

/// not_found where a conversation of so many rounds has no such round.
Status check_round(int64_t round, size_t rounds);

/// Members of what a server sent: "" , 0 or an empty list where they are missing or of another type.
std::string text_in(const nlohmann::json& object, const char* name);
int64_t count_in(const nlohmann::json& object, const char* name);
nlohmann::json list_in(const nlohmann::json& object, const char* name);

}  // namespace rondo::cli

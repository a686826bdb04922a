#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/turn_events.hpp"

namespace rondo {

struct ServedModel {
    std::string id;
    int64_t created_s = 0;
    int64_t context_tokens_max = 0;
    std::vector<std::string> methods;  ///< that requests may ask for, the server's own first
    int64_t budget_tokens_max = 0;     ///< that they may ask for with one
};

struct RoundInfo {
    int index = 0;
    int64_t tokens = 0;
    std::string user;
    std::string assistant;
    std::optional<TurnFigures> figures = {};  ///< of its turn; none: a client brought the round along
};

struct SessionInfo {
    std::string id;
    std::string title;
    std::string system;  ///< "": it has no system prompt
    int64_t tokens = 0;
    std::vector<RoundInfo> rounds;
};

/// One of a list, without what was said.
struct ListedSession {
    std::string id;
    std::string title;
    int64_t tokens = 0;
    int64_t rounds = 0;
};

/// What a tenant has in the store.
struct StoreInfo {
    bool enabled = false, encrypted = false;
    uint64_t bytes = 0, bytes_max = 0;
    uint64_t host_bytes = 0;  ///< of them, those that lie in host memory as well
    int64_t records = 0, conversations = 0;
    int64_t tokens_asked = 0, tokens_restored = 0;
    double restore_seconds = 0.0;
};

/// GET /v1/store
std::string store_response(const StoreInfo& store);
/// GET /v1/models
std::string models_response(std::span<const ServedModel> models);
/// GET /v1/models/ID
std::string model_response(const ServedModel& model);
/// A conversation: after create, rewind, fork and drop, and when it is asked for.
std::string session_response(const SessionInfo& session);
/// GET /v1/sessions: a part of the list.
std::string sessions_response(std::span<const ListedSession> sessions, bool has_more);
std::string session_deleted_response(std::string_view id);
std::string session_put_away_response(std::string_view id, int64_t tokens);
std::string session_warm_response(std::string_view id, const TurnUsage& usage);
std::string tokenize_response(std::span<const int32_t> ids);
/// `text` may be any bytes; what is no UTF-8 becomes U+FFFD.
std::string detokenize_response(std::string_view text);

}  // namespace rondo

#include "actors/api/listings.hpp"

#include "actors/api/json_text.hpp"

namespace rondo {

std::string models_response(std::span<const ServedModel> models) {
    OrderedJson data = OrderedJson::array();
    for (const ServedModel& model : models) {
        data.push_back({{"id", model.id},
                        {"object", "model"},
                        {"created", model.created_s},
                        {"owned_by", "rondo"},
                        {"context_tokens_max", model.context_tokens_max},
                        {"methods", model.methods}});
    }
    return json_text({{"object", "list"}, {"data", std::move(data)}});
}

std::string session_response(const SessionInfo& session) {
    OrderedJson rounds = OrderedJson::array();
    for (const RoundInfo& round : session.rounds) {
        rounds.push_back(
            {{"index", round.index}, {"tokens", round.tokens}, {"user", round.user}, {"assistant", round.assistant}});
    }
    return json_text(
        {{"id", session.id}, {"object", "session"}, {"tokens", session.tokens}, {"rounds", std::move(rounds)}});
}

std::string sessions_response(std::span<const SessionInfo> sessions) {
    OrderedJson data = OrderedJson::array();
    for (const SessionInfo& session : sessions) {
        data.push_back({{"id", session.id},
                        {"object", "session"},
                        {"tokens", session.tokens},
                        {"round_count", session.rounds.size()}});
    }
    return json_text({{"object", "list"}, {"data", std::move(data)}});
}

std::string session_deleted_response(std::string_view id) {
    return json_text({{"id", id}, {"object", "session"}, {"deleted", true}});
}

std::string tokenize_response(std::span<const int32_t> ids) {
    return json_text({{"ids", std::vector<int32_t>(ids.begin(), ids.end())}, {"count", ids.size()}});
}

std::string detokenize_response(std::string_view text) {
    return json_text({{"text", text}});
}

}  // namespace rondo

#include "actors/gateway/bodies/listings.hpp"

#include "actors/gateway/bodies/answer_parts.hpp"
#include "actors/gateway/bodies/json_text.hpp"

namespace rondo {

namespace {

OrderedJson object_of(const ServedModel& model) {
    return {{"id", model.id},
            {"object", "model"},
            {"created", model.created_s},
            {"owned_by", "rondo"},
            {"context_tokens_max", model.context_tokens_max},
            {"methods", model.methods},
            {"budget_tokens_max", model.budget_tokens_max}};
}

OrderedJson object_of(const RoundInfo& round) {
    OrderedJson json{
        {"index", round.index}, {"tokens", round.tokens}, {"user", round.user}, {"assistant", round.assistant}};
    if (!round.figures) return json;
    json["finish_reason"] = finish_reason_json(round.figures->outcome);
    json["usage"] = usage_json(round.figures->usage);
    json["timings"] = timings_json(round.figures->timings);
    json["attention"] = attention_json(round.figures->attention);
    return json;
}

}  // namespace

std::string models_response(std::span<const ServedModel> models) {
    OrderedJson data = OrderedJson::array();
    for (const ServedModel& model : models) data.push_back(object_of(model));
    return json_text({{"object", "list"}, {"data", std::move(data)}});
}

std::string model_response(const ServedModel& model) {
    return json_text(object_of(model));
}

std::string session_response(const SessionInfo& session) {
    OrderedJson rounds = OrderedJson::array();
    for (const RoundInfo& round : session.rounds) rounds.push_back(object_of(round));
    return json_text({{"id", session.id},
                      {"object", "session"},
                      {"title", session.title},
                      {"system", session.system},
                      {"tokens", session.tokens},
                      {"rounds", std::move(rounds)}});
}

std::string sessions_response(std::span<const ListedSession> sessions, bool has_more) {
    OrderedJson data = OrderedJson::array();
    for (const ListedSession& one : sessions) {
        data.push_back({{"id", one.id},
                        {"object", "session"},
                        {"title", one.title},
                        {"tokens", one.tokens},
                        {"round_count", one.rounds}});
    }
    OrderedJson body{{"object", "list"}, {"data", std::move(data)}, {"first_id", nullptr}, {"last_id", nullptr}};
    if (!sessions.empty()) {
        body["first_id"] = sessions.front().id;
        body["last_id"] = sessions.back().id;
    }
    body["has_more"] = has_more;
    return json_text(body);
}

std::string session_deleted_response(std::string_view id) {
    return json_text({{"id", id}, {"object", "session"}, {"deleted", true}});
}

std::string session_put_away_response(std::string_view id, int64_t tokens) {
    return json_text({{"id", id}, {"object", "session"}, {"put_away_tokens", tokens}});
}

std::string session_warm_response(std::string_view id, const TurnUsage& usage) {
    return json_text({{"id", id},
                      {"object", "session"},
                      {"tokens", usage.prompt_tokens},
                      {"cached_tokens", usage.cached_tokens},
                      {"restored_tokens", usage.restored_tokens},
                      {"recomputed_tokens", usage.recomputed_tokens}});
}

std::string tokenize_response(std::span<const int32_t> ids) {
    return json_text({{"ids", std::vector<int32_t>(ids.begin(), ids.end())}, {"count", ids.size()}});
}

std::string detokenize_response(std::string_view text) {
    return json_text({{"text", text}});
}

std::string store_response(const StoreInfo& store) {
    OrderedJson out{{"object", "store"}, {"enabled", store.enabled}};
    if (store.enabled) {
        out["encrypted"] = store.encrypted;
        out["bytes"] = store.bytes;
        out["bytes_max"] = store.bytes_max;
        out["host_bytes"] = store.host_bytes;
        out["records"] = store.records;
        out["conversations"] = store.conversations;
        out["prompt_tokens_asked"] = store.tokens_asked;
        out["prompt_tokens_restored"] = store.tokens_restored;
        out["restore_seconds"] = store.restore_seconds;
    }
    return json_text(out);
}

}  // namespace rondo

#include "cli/chat/chat_resend.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cli/chat/chat_answer.hpp"

namespace rondo::cli {

using nlohmann::json;

json message_of(const char* role, const std::string& content) {
    return {{"role", role}, {"content", content}};
}

bool is_said(const std::string& answer, const TurnEnd& end) {
    return !answer.empty() || end.outcome != TurnOutcome::cancelled;
}

Status check_round(int64_t round, size_t rounds) {
    if (round >= 0 && static_cast<size_t>(round) < rounds) return Status::ok();
    return make_error(ErrorCode::not_found,
                      "no round " + std::to_string(round) +
                          (rounds == 0 ? "; there are none" : "; it must be 0 to " + std::to_string(rounds - 1)));
}

namespace {

struct Said {
    std::string user, assistant;
    int64_t tokens_until = 0;  ///< of all that was said with it; 0 where the server counts none
};

class ResendingPartner : public ChatPartner {
public:
    ResendingPartner(const ChatOptions& options, std::shared_ptr<ServerConnection> server, std::string model)
        : options_(options), server_(std::move(server)), model_(std::move(model)) {}

    std::string name() const override { return model_ + " at " + server_->url().authority(); }
    std::vector<std::string> methods() const override { return {}; }

    Result<TurnEnd> ask(const std::string& message, const std::function<bool(std::string_view)>& on_text) override {
        for (;;) {
            ChatAnswer answer(on_text);
            const auto response = server_->stream("/chat/completions", request_of(message),
                                                  [&](std::string_view piece) { return answer.take(piece); });
            if (response && !response->is_success()) {
                if (asks_for_less(response->body)) continue;
                return server_->refusal(*response);
            }
            if (!response && answer.fault() && !answer.stopped()) return response.error();
            RONDO_ASSIGN(TurnEnd end, answer.finish(false));
            if (is_said(answer.text(), end))
                said_.push_back({message, answer.text(), end.usage.prompt_tokens + end.usage.completion_tokens});
            return end;
        }
    }

    Result<ConversationInfo> rounds() override {
        ConversationInfo info;
        int64_t before = 0;
        for (const Said& round : said_) {
            info.rounds.push_back(
                {{{"user", round.user}}, round.assistant, std::max<int64_t>(round.tokens_until - before, 0)});
            before = std::max(before, round.tokens_until);
        }
        return info;
    }

    Status rewind(int64_t round) override {
        RONDO_TRY(check_round(round, said_.size()));
        said_.resize(static_cast<size_t>(round));
        return Status::ok();
    }

    Result<ConversationPage> conversations(const std::string&) override { return keeps_none(); }
    Status open_conversation(const std::string&) override { return keeps_none(); }

    std::string stats(const TurnEnd& turn) const override {
        char text[200];
        std::string lines = "the server told no counts of tokens\n";
        if (turn.usage.prompt_tokens > 0) {
            std::snprintf(text, sizeof text, "prompt %ld tokens: %ld cached; answer %ld tokens\n",
                          static_cast<long>(turn.usage.prompt_tokens), static_cast<long>(turn.usage.cached_tokens),
                          static_cast<long>(turn.usage.completion_tokens));
            lines = text;
        }
        std::snprintf(text, sizeof text, "first text after %.1f ms%s\n", turn.timings.first_token * 1e3,
                      turn.outcome == TurnOutcome::cancelled ? "; stopped" : "");
        return lines + text;
    }

private:
    Error keeps_none() const {
        return make_error(ErrorCode::unsupported,
                          server_->url().authority() + " keeps no conversations: it must be Rondo");
    }

    json request_of(const std::string& message) const {
        json messages = json::array();
        if (!options_.system.empty()) messages.push_back(message_of("system", options_.system));
        for (const Said& round : said_) {
            messages.push_back(message_of("user", round.user));
            messages.push_back(message_of("assistant", round.assistant));
        }
        messages.push_back(message_of("user", message));
        json body = {{"model", model_}, {"messages", std::move(messages)}, {"stream", true}};
        if (usage_wanted_) body["stream_options"] = {{"include_usage", true}};
        if (options_.tokens_max) body[tokens_field_] = *options_.tokens_max;
        if (options_.temperature) body["temperature"] = *options_.temperature;
        if (options_.top_p) body["top_p"] = *options_.top_p;
        if (options_.seed) body["seed"] = *options_.seed;
        return body;
    }

    /// Whether a request with other fields may succeed: older servers know no stream_options, newer ones no max_tokens.
    bool asks_for_less(const std::string& why) {
        if (why.find("max_completion_tokens") != why.npos && options_.tokens_max && tokens_field_ == "max_tokens") {
            tokens_field_ = "max_completion_tokens";
            return true;
        }
        return why.find("stream_options") != why.npos && std::exchange(usage_wanted_, false);
    }

    const ChatOptions& options_;
    std::shared_ptr<ServerConnection> server_;
    std::string model_, tokens_field_ = "max_tokens";
    bool usage_wanted_ = true;
    std::vector<Said> said_;
};

}  // namespace

std::string text_in(const json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int64_t count_in(const json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

json list_in(const json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return found != object.end() && found->is_array() ? *found : json::array();
}

Result<ServedModel> served_model(const json& models, const std::string& wanted) {
    const json list = list_in(models, "data");
    ServedModel served;
    served.model = wanted;
    for (const json& one : list) {
        const std::string id = text_in(one, "id");
        if (id.empty() || (!served.model.empty() && id != served.model)) continue;
        served.model = id;
        served.is_rondo = text_in(one, "owned_by") == "rondo";
        for (const json& method : list_in(one, "methods"))
            if (method.is_string()) served.methods.push_back(method.get<std::string>());
        break;
    }
    if (!served.model.empty()) return served;
    return make_error(ErrorCode::not_found, "/v1/models lists no model; run: rondo chat --url URL --model-name NAME");
}

std::unique_ptr<ChatPartner> resending_partner(const ChatOptions& options, std::shared_ptr<ServerConnection> server,
                                               std::string model) {
    return std::make_unique<ResendingPartner>(options, std::move(server), std::move(model));
}

}  // namespace rondo::cli

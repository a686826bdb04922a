#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/chat/chat_answer.hpp"
#include "cli/chat/chat_partner.hpp"
#include "cli/chat/chat_resend.hpp"
#include "cli/server_connection.hpp"

namespace rondo::cli {

namespace {

using nlohmann::json;

/// The fields of a request to a Rondo, but for its messages.
json request_of(const ChatOptions& options, const std::string& model, const std::string& conversation) {
    const SamplingParams sampling = options.sampling();
    return {{"model", model},
            {"conversation", conversation},
            {"continue", true},
            {"stream", true},
            {"stream_options", {{"include_usage", true}}},
            {"max_tokens", options.tokens_max.value_or(ChatOptions::default_tokens_max)},
            {"temperature", sampling.temperature},
            {"top_p", sampling.top_p},
            {"seed", sampling.seed}};
}

std::string path_of(const std::string& conversation) {
    return "/sessions/" + percent_encoded(conversation);
}

/// A Rondo, which keeps the conversation. The chat keeps it too, to tell it to a server that was started anew.
class RondoPartner : public ChatPartner {
public:
    RondoPartner(const ChatOptions& options, std::shared_ptr<ServerConnection> server, ServedModel served)
        : options_(options), server_(std::move(server)), served_(std::move(served)) {}
    ~RondoPartner() override { leave(); }
    RondoPartner(const RondoPartner&) = delete;
    RondoPartner& operator=(const RondoPartner&) = delete;

    Status open() {
        RONDO_ASSIGN(conversation_, begin());
        return Status::ok();
    }

    std::string name() const override { return served_.model + " at " + server_->url().authority(); }
    std::vector<std::string> methods() const override { return served_.methods; }

    Result<TurnEnd> ask(const std::string& message, const std::function<bool(std::string_view)>& on_text) override {
        bool is_gone = false;
        Result<TurnEnd> end = ask_once(message, on_text, is_gone);
        if (!is_gone || !is_ours_) return end;
        RONDO_ASSIGN(conversation_, begin());
        std::fprintf(stderr, "rondo: the server no longer had this conversation; it gets all of it again\n");
        is_told_ = false;
        return ask_once(message, on_text, is_gone);
    }

    Result<ConversationInfo> rounds() override {
        if (!is_told_) return own_rounds();
        RONDO_ASSIGN(const json said, server_->object_of(server_->send("GET", path_of(conversation_))));
        ConversationInfo info;
        info.id = conversation_;
        for (const json& one : list_in(said, "rounds")) {
            info.rounds.push_back(
                {{{"user", text_in(one, "user")}}, text_in(one, "assistant"), count_in(one, "tokens")});
        }
        return info;
    }

    Status rewind(int64_t round) override {
        const std::string body = json{{"round", round}}.dump();
        RONDO_TRY(is_told_
                      ? server_->object_of(server_->send("POST", path_of(conversation_) + "/rewind", body)).status()
                      : check_round(round, said_.size()));
        if (round >= 0 && static_cast<size_t>(round) < said_.size()) said_.resize(static_cast<size_t>(round));
        return Status::ok();
    }

    Result<ConversationPage> conversations(const std::string& after) override {
        const std::string from = after.empty() ? "" : "&after=" + percent_encoded(after);
        RONDO_ASSIGN(const json said, server_->object_of(server_->send("GET", "/sessions?limit=100" + from)));
        ConversationPage page;
        for (const json& one : list_in(said, "data"))
            page.conversations.push_back(
                {text_in(one, "id"), {count_in(one, "tokens"), count_in(one, "round_count"), 0}});
        page.has_more = said.contains("has_more") && said["has_more"] == true;
        return page;
    }

    Status open_conversation(const std::string& id) override {
        RONDO_TRY(server_->object_of(server_->send("GET", path_of(id))));
        if (id == conversation_) return Status::ok();
        leave();
        conversation_ = id;
        is_ours_ = false;
        is_told_ = true;
        is_half_told_ = false;
        said_.clear();
        return Status::ok();
    }

private:
    struct Said {
        std::string user, answer;
    };

    ConversationInfo own_rounds() const {
        ConversationInfo info;
        info.id = conversation_;
        for (const Said& round : said_) info.rounds.push_back({{{"user", round.user}}, round.answer, 0});
        return info;
    }

    Result<std::string> begin() {
        json wanted = json::object();
        if (!options_.system.empty()) wanted["system"] = options_.system;
        RONDO_ASSIGN(const json made, server_->object_of(server_->send("POST", "/sessions", to_text(wanted))));
        const std::string id = text_in(made, "id");
        if (id.empty()) return make_error(ErrorCode::corrupt, "the server began a conversation and gave it no id");
        return id;
    }

    Result<TurnEnd> ask_once(const std::string& message, const std::function<bool(std::string_view)>& on_text,
                             bool& is_gone) {
        if (is_half_told_) {
            leave();
            conversation_.clear();
            RONDO_ASSIGN(conversation_, begin());
        }
        is_half_told_ = !is_told_;
        json messages = json::array();
        for (size_t i = 0; i < said_.size() && !is_told_; ++i) {
            messages.push_back(message_of("user", said_[i].user));
            messages.push_back(message_of("assistant", said_[i].answer));
        }
        messages.push_back(message_of("user", message));
        json body = request_of(options_, served_.model, conversation_);
        body["messages"] = std::move(messages);
        if (!method.empty()) body["method"] = method;
        ChatAnswer answer(on_text);
        const auto response =
            server_->stream("/chat/completions", body, [&](std::string_view piece) { return answer.take(piece); });
        is_gone = response && response->status == 404;
        if (response && !response->is_success()) {
            is_half_told_ = false;  // it has heard nothing
            return server_->refusal(*response);
        }
        if (!response && answer.fault() && !answer.stopped()) return response.error();
        RONDO_ASSIGN(TurnEnd end, answer.finish(true));
        if (!is_said(answer.text(), end) && !answer.thought()) return end;  // a round of thoughts alone is one, too
        said_.push_back({message, answer.text()});
        is_told_ = true;
        is_half_told_ = false;
        return end;
    }

    /// Deletes a conversation that was begun here, since nobody else knows it.
    void leave() {
        if (!conversation_.empty() && is_ours_) server_->forget(path_of(conversation_));
    }

    const ChatOptions& options_;
    std::shared_ptr<ServerConnection> server_;
    ServedModel served_;
    std::string conversation_;
    bool is_ours_ = true;        // begun here
    bool is_told_ = true;        // the server has its rounds: it was not started anew, or has heard them since
    bool is_half_told_ = false;  // it may have heard a part of them
    std::vector<Said> said_;     // its rounds, as long as it is ours
};

}  // namespace

Result<std::unique_ptr<ChatPartner>> open_server_partner(const ChatOptions& options) {
    RONDO_ASSIGN(std::shared_ptr<ServerConnection> server, ServerConnection::open(options.server));
    const auto models = server->models();
    // Not every server lists its models.
    const bool is_named = !models && models.error().code == ErrorCode::not_found && !options.server.model_name.empty();
    if (!models && !is_named) return models.error();
    RONDO_ASSIGN(const ServedModel served, served_model(is_named ? json() : *models, options.server.model_name));
    if (!served.is_rondo) return resending_partner(options, std::move(server), served.model);
    auto partner = std::make_unique<RondoPartner>(options, server, served);
    const Status opened = partner->open();
    if (opened) return std::unique_ptr<ChatPartner>(std::move(partner));
    // A proxy may let nothing through but OpenAI's own paths.
    if (opened.error().code != ErrorCode::not_found) return opened.error();
    return resending_partner(options, std::move(server), served.model);
}

}  // namespace rondo::cli

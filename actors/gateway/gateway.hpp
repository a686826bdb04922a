#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "actors/gateway/bodies/answer_parts.hpp"
#include "actors/gateway/bodies/answer_request.hpp"
#include "actors/gateway/bodies/api_keys.hpp"
#include "actors/gateway/bodies/chat_request.hpp"
#include "actors/gateway/bodies/listings.hpp"
#include "actors/gateway/bodies/template_fields.hpp"
#include "actors/gateway/bodies/tools.hpp"
#include "actors/gateway/exchange.hpp"
#include "actors/gateway/health.hpp"
#include "actors/gateway/open_exchanges.hpp"
#include "actors/text_crew.hpp"
#include "config/settings.hpp"
#include "transport/http_server.hpp"

namespace rondo {

/// The engine over HTTP: OpenAI's API, conversations, health, metrics and the chat page.
class Gateway {
public:
    struct Options {
        ServerSettings server;
        HttpLimits limits;
        LogTo log;
    };
    static Result<std::unique_ptr<Gateway>> start(Engine& engine, Options options);
    ~Gateway();

    uint16_t port() const { return server_->port(); }
    /// Lines for the operator, of what nobody can ask for any more.
    std::vector<std::string> notes() const;
    /// Turns under way go on; nothing new is let in. When `patience` is over, each answer that is not complete ends
    /// with an error of its own. Returns when all is said and taken, `last_words_time` after that at the latest.
    void drain(std::chrono::milliseconds patience);
    static constexpr std::chrono::milliseconds last_words_time{500};

private:
    Gateway(Engine& engine, Options options);

    void handle(HttpRequest request, std::shared_ptr<HttpReply> reply);
    HttpHeaders refused(HttpRequest request, int status, size_t bytes);
    void route(const std::shared_ptr<Exchange>& exchange);
    bool let_in(Exchange& exchange) const;
    void page(Exchange& exchange, const std::string& file) const;
    void health(Exchange& exchange, bool ready);
    void metrics(Exchange& exchange);
    std::vector<std::string> model_names() const;  ///< the first is what answers say
    std::vector<ServedModel> served_models() const;
    void model(Exchange& exchange, const std::string& id) const;
    void chat(const std::shared_ptr<Exchange>& exchange);
    void responses(const std::shared_ptr<Exchange>& exchange);
    void response(const std::shared_ptr<Exchange>& exchange, const std::string& id);
    void completion(const std::shared_ptr<Exchange>& exchange);
    void tokenize(const std::shared_ptr<Exchange>& exchange);
    void detokenize(const std::shared_ptr<Exchange>& exchange);
    void sessions(const std::shared_ptr<Exchange>& exchange);
    void store(const std::shared_ptr<Exchange>& exchange);
    ApiResult<Ask> make_chat_ask(const std::string& tenant, ChatRequest& request) const;
    ApiResult<Ask> make_ask(const std::string& tenant, const AnswerRequest& request) const;
    ApiResult<std::string> template_variables(const TemplateFields& fields,
                                              const std::vector<ChatMessage>& messages) const;
    ApiResult<std::shared_ptr<const ToolUse>> fit_tools(const ToolFields& fields,
                                                        std::shared_ptr<const AnswerFormat> text) const;
    AnswerHead answer_head(const char* prefix, const AnswerRequest& request);
    /// Answers by one of the above; what may take long does so on a thread for large requests.
    using Answer = void (Gateway::*)(const std::shared_ptr<Exchange>& exchange);
    void answer(const std::shared_ptr<Exchange>& exchange, Answer answer);
    void apart(const std::shared_ptr<Exchange>& exchange, std::function<void()> job);
    std::optional<Error> no_tokenizer() const;
    std::optional<Error> too_long(const char* what, size_t bytes) const;
    void session(const std::shared_ptr<Exchange>& exchange, const std::string& id, const std::string& verb);
    void warm(const std::shared_ptr<Exchange>& exchange, const ConversationName& name);
    std::string new_id(const char* prefix);

    Engine& engine_;
    Options options_;
    ApiKeys keys_;
    Health health_;
    caf::actor lists_;  // the ListDesk
    OpenExchanges open_;
    std::atomic<bool> draining_{false};
    std::atomic<uint64_t> ids_{0};
    int64_t started_s_ = 0;
    TextCrew texts_;  // large requests, whose threads use all of the above; their clients are gone when it ends
    std::unique_ptr<HttpServer> server_;  // last: its threads use all of the above
};

}  // namespace rondo

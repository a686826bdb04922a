#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/chat_partner.hpp"
#include "transport/http_client.hpp"
#include "transport/sse_reader.hpp"

namespace rondo::cli {

namespace {

using nlohmann::json;
using std::chrono::steady_clock;

/// Any server with our API.
class ServerPartner : public ChatPartner {
public:
    ServerPartner(const ChatOptions& options, Url url) : options_(options), client_(std::move(url)) {
        headers_ = {{"Content-Type", "application/json"}};
    }

    Status open() {
        if (!options_.api_key_file.empty()) {
            RONDO_ASSIGN(std::string key, read_file(options_.api_key_file, 4096));
            while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
            headers_.emplace_back("Authorization", "Bearer " + key);
        }
        RONDO_ASSIGN(const json models, call("GET", "/v1/models", ""));
        const json& served = models.at("data").at(0);
        model_ = served.at("id").get<std::string>();
        methods_ = served.value("methods", std::vector<std::string>{"dense"});
        json wanted = json::object();
        if (!options_.system.empty()) wanted["system"] = options_.system;
        RONDO_ASSIGN(const json made, call("POST", "/v1/sessions", wanted.dump()));
        conversation_ = made.at("id").get<std::string>();
        return Status::ok();
    }

    std::string name() const override { return model_ + " at " + client_.url().authority(); }

    Result<TurnEnd> ask(const std::string& message, const std::function<bool(std::string_view)>& on_text) override {
        json body{{"model", model_},
                  {"conversation", conversation_},
                  {"continue", true},
                  {"messages", json::array({{{"role", "user"}, {"content", message}}})},
                  {"stream", true},
                  {"stream_options", {{"include_usage", true}}},
                  {"max_tokens", options_.tokens_max},
                  {"temperature", options_.sampling.temperature},
                  {"top_p", options_.sampling.top_p},
                  {"seed", options_.sampling.seed}};
        if (!method.empty()) body["method"] = method;
        SseReader reader;
        TurnEnd end;
        Status broken;
        bool stopped = false;
        const auto on_event = [&](const SseEvent& event) {
            if (event.data == "[DONE]" || !broken.is_ok()) return;
            broken = take(json::parse(event.data, nullptr, false), end,
                          [&](std::string_view text) { stopped = stopped || !on_text(text); });
        };
        const auto on_piece = [&](std::string_view piece) {
            if (Status read = reader.read(piece, on_event); broken.is_ok() && !read) broken = read;
            if (piece.empty()) stopped = stopped || !on_text("");
            return !stopped && broken.is_ok();
        };
        const Result<HttpResponse> response =
            client_.stream("POST", "/v1/chat/completions", headers_,
                           body.dump(-1, ' ', false, json::error_handler_t::replace), deadline(), on_piece);
        if (!broken.is_ok()) return broken.error();
        if (stopped) {
            end.outcome = TurnOutcome::cancelled;
            return end;
        }
        if (!response) return response.error();
        if (!response->is_success()) return refusal(*response);
        if (end.outcome == TurnOutcome::failed)
            return make_error(ErrorCode::io, "the server ended the answer before it was whole");
        return end;
    }

    Result<ConversationInfo> rounds() override {
        RONDO_ASSIGN(const json said, call("GET", path_of(conversation_), ""));
        ConversationInfo info;
        info.id = conversation_;
        for (const json& one : said.value("rounds", json::array())) {
            info.rounds.push_back(
                {{{"user", one.value("user", "")}}, one.value("assistant", ""), one.value("tokens", 0)});
        }
        return info;
    }

    Status rewind(int64_t round) override {
        return call("POST", path_of(conversation_) + "/rewind", json{{"round", round}}.dump()).status();
    }

    Result<ConversationPage> conversations(const std::string& after) override {
        const std::string from = after.empty() ? "" : "&after=" + percent_encoded(after);
        RONDO_ASSIGN(const json said, call("GET", "/v1/sessions?limit=100" + from, ""));
        ConversationPage page;
        for (const json& one : said.value("data", json::array())) {
            page.conversations.push_back(
                {one.value("id", ""), {one.value("tokens", int64_t{0}), one.value("round_count", int64_t{0}), 0}});
        }
        page.has_more = said.value("has_more", false);
        return page;
    }

    Status open_conversation(const std::string& id) override {
        RONDO_TRY(call("GET", path_of(id), "").status());
        leave();
        conversation_ = id;
        is_ours_ = false;
        return Status::ok();
    }

    std::vector<std::string> methods() const override { return methods_; }

    ~ServerPartner() override { leave(); }
    ServerPartner(const ServerPartner&) = delete;
    ServerPartner& operator=(const ServerPartner&) = delete;

private:
    /// Nobody else knows the conversation that was begun here. A server that does not answer keeps it until it forgets
    /// it.
    void leave() {
        if (conversation_.empty() || !is_ours_) return;
        static_cast<void>(client_.request("DELETE", path_of(conversation_), headers_, "",
                                          steady_clock::now() + std::chrono::seconds(2)));
    }

    static std::string path_of(const std::string& conversation) {
        return "/v1/sessions/" + percent_encoded(conversation);
    }
    static std::string percent_encoded(const std::string& text) {
        constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
        std::string encoded;
        for (const char c : text) {
            if (plain.find(c) != std::string_view::npos) {
                encoded += c;
                continue;
            }
            constexpr char digits[] = "0123456789ABCDEF";
            const auto byte = static_cast<uint8_t>(c);
            encoded += {'%', digits[byte >> 4], digits[byte & 15]};
        }
        return encoded;
    }

    steady_clock::time_point deadline() const { return steady_clock::now() + std::chrono::hours(1); }

    static Error refusal(const HttpResponse& response) {
        const json body = json::parse(response.body, nullptr, false);
        std::string message = "the server answered with status " + std::to_string(response.status);
        if (body.is_object() && body.contains("error") && body["error"].is_object())
            message = body["error"].value("message", message);
        return make_error(response.status == 429 ? ErrorCode::overloaded : ErrorCode::invalid_argument, message);
    }

    Result<json> call(const std::string& method, const std::string& target, std::string body) {
        RONDO_ASSIGN(const HttpResponse response,
                     client_.request(method, target, headers_, std::move(body), deadline()));
        if (!response.is_success()) return refusal(response);
        json value = json::parse(response.body, nullptr, false);
        if (!value.is_object()) return make_error(ErrorCode::corrupt, "the server's answer is no JSON object");
        return value;
    }

    static Status take(const json& chunk, TurnEnd& end, const std::function<void(std::string_view)>& on_text) {
        if (!chunk.is_object())
            return make_error(ErrorCode::corrupt, "a piece of the server's answer is no JSON object");
        if (chunk.contains("error"))
            return make_error(ErrorCode::internal,
                              chunk["error"].is_object() ? chunk["error"].value("message", "") : "");
        for (const json& choice : chunk.value("choices", json::array())) {
            const json delta = choice.value("delta", json::object());
            if (delta.contains("content") && delta["content"].is_string()) on_text(delta["content"].get<std::string>());
            const json reason = choice.value("finish_reason", json());
            if (reason.is_string()) end.outcome = reason == "length" ? TurnOutcome::length : TurnOutcome::stop;
        }
        if (const json times = chunk.value("timings", json()); times.is_object()) {
            end.timings.queued = times.value("queued_ms", 0.0) / 1e3;
            end.timings.restore = times.value("restore_ms", 0.0) / 1e3;
            end.timings.prefill = times.value("prefill_ms", 0.0) / 1e3;
            end.timings.decode = times.value("decode_ms", 0.0) / 1e3;
            end.timings.first_token = times.value("first_token_ms", 0.0) / 1e3;
            end.timings.preemptions = times.value("preemptions", 0);
        }
        if (const json how = chunk.value("attention", json()); how.is_object()) {
            end.attention.method = how.value("method", "dense");
            const auto phase = [&](const std::string& name) {
                // As shares of one: the server says no more, and less where nothing was measured.
                const double mass = how.value(name + "_mass", -1.0);
                return TurnAttention::Phase{static_cast<int64_t>(how.value(name + "_density", 1.0) * 1e6), 1'000'000,
                                            std::max(mass, 0.0), mass < 0.0 ? 0 : 1};
            };
            end.attention.prompt = phase("prompt");
            end.attention.answer = phase("answer");
            end.attention.selections = how.value("selections", 0);
            end.attention.lag_steps = how.value("lag_steps", 0);
        }
        if (const json usage = chunk.value("usage", json()); usage.is_object()) {
            end.usage.prompt_tokens = usage.value("prompt_tokens", 0);
            end.usage.completion_tokens = usage.value("completion_tokens", 0);
            const json details = usage.value("prompt_tokens_details", json::object());
            end.usage.cached_tokens = details.value("cached_tokens", 0);
            end.usage.restored_tokens = details.value("restored_tokens", 0);
            end.usage.recomputed_tokens = details.value("recomputed_tokens", 0);
        }
        return Status::ok();
    }

    const ChatOptions& options_;
    HttpClient client_;
    HttpHeaders headers_;
    std::string model_, conversation_;
    bool is_ours_ = true;  // begun here
    std::vector<std::string> methods_;
};

}  // namespace

Result<std::unique_ptr<ChatPartner>> open_server_partner(const ChatOptions& options) {
    RONDO_ASSIGN(const Url url, Url::parse(options.url));
    auto partner = std::make_unique<ServerPartner>(options, url.without_v1());
    RONDO_TRY(partner->open());
    return std::unique_ptr<ChatPartner>(std::move(partner));
}

}  // namespace rondo::cli

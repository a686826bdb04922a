#include "cli/measure/multi_turn/endpoint.hpp"

#include <algorithm>
#include <utility>

#include "cli/measure/multi_turn/answer_stream.hpp"
#include "cli/measure/multi_turn/words.hpp"
#include "cli/server_complaint.hpp"
#include "cli/server_connection.hpp"

namespace rondo::cli::multi_turn {

using nlohmann::json;

namespace {

constexpr int64_t sample_words = 512;
constexpr uint64_t sample_stream = uint64_t{1} << 62;
constexpr auto forget_time_max = std::chrono::seconds(10);

/// The ids that a tokenizer's answer lists, under the name its server gives them.
size_t count_ids(const json& answer) {
    for (const char* name : {"ids", "tokens"}) {
        const auto found = answer.find(name);
        if (found != answer.end() && found->is_array()) return found->size();
    }
    return 0;
}

std::string_view kind_of(const Error& error) {
    switch (error.code) {
        case ErrorCode::timeout:
            return "timeout";
        case ErrorCode::io:
            return "connection";
        case ErrorCode::corrupt:
            return "malformed answer";
        case ErrorCode::out_of_range:
            return "answer too large";
        default:
            return "other";
    }
}

}  // namespace

Endpoint::Endpoint(Options options) : options_(std::move(options)), http_(options_.url, {}, options_.trust) {
    headers_ = {{"Content-Type", "application/json"}};
    if (!options_.api_key.empty()) headers_.emplace_back("Authorization", "Bearer " + options_.api_key);
}

Result<Endpoint> Endpoint::open(Options options) {
    options.url = options.url.without_v1();
    Endpoint endpoint(std::move(options));
    if (!endpoint.options_.model.empty()) return endpoint;
    RONDO_ASSIGN(const json list, endpoint.fetch("GET", "/v1/models", json()));
    const json models = list.value("data", json::array());
    const json* const first = models.is_array() && !models.empty() && models[0].is_object() ? &models[0] : nullptr;
    if (first == nullptr || !first->contains("id") || !(*first)["id"].is_string()) {
        return make_error(ErrorCode::not_found, "/v1/models lists no model; it must be named by --model NAME");
    }
    endpoint.options_.model = (*first)["id"];
    return endpoint;
}

Result<json> Endpoint::fetch(const std::string& method, const std::string& target, const json& body) {
    const std::string text = body.is_null() ? std::string() : to_text(body);
    RONDO_ASSIGN(const HttpResponse response, http_.request(method, target, headers_, text, deadline()));
    const std::string where = options_.url.origin() + options_.url.path + target + ": ";
    if (!response.is_success()) return make_error(ErrorCode::io, where + complaint(response));
    json answer = json::parse(response.body, nullptr, false);
    if (!answer.is_object()) return make_error(ErrorCode::corrupt, where + "its answer is not a JSON object");
    return answer;
}

Answer Endpoint::ask(const Question& question, const std::function<bool()>& goes_on) {
    json body = {{"model", options_.model},
                 {"messages", question.messages},
                 {"max_tokens", question.answer_tokens},
                 {"temperature", 0},
                 {"ignore_eos", true},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}}};
    if (!question.conversation.empty()) body["conversation"] = question.conversation;
    const std::string text = to_text(body);
    AnswerStream stream(question.answer_tokens);
    const auto response = http_.stream("POST", "/v1/chat/completions", headers_, text, deadline(),
                                       [&](std::string_view piece) { return goes_on() && stream.take(piece); });
    // The stream's own fault comes first: it is why the request was stopped.
    Answer answer = stream.finish();
    if (!answer.times.error.empty() && answer.times.error != "cut off") return answer;
    if (!response) {
        answer.times.error = kind_of(response.error());
        answer.times.message = response.error().message;
    } else if (!response->is_success()) {
        answer.times.error = "HTTP " + std::to_string(response->status);
        answer.times.message = complaint(*response);
    }
    return answer;
}

Status Endpoint::forget(const std::string& conversation) {
    const HttpClient::Deadline soon = std::min(deadline(), std::chrono::steady_clock::now() + forget_time_max);
    const std::string target = "/v1/sessions/" + conversation;
    RONDO_ASSIGN(const HttpResponse response, http_.request("DELETE", target, headers_, "", soon));
    if (response.is_success() || response.status == 404) return Status::ok();
    return make_error(ErrorCode::io, options_.url.origin() + options_.url.path + target + ": " + complaint(response));
}

Result<int64_t> Endpoint::prompt_tokens(const std::string& text) {
    const json body = {{"model", options_.model},
                       {"messages", json::array({{{"role", "user"}, {"content", text}}})},
                       {"max_tokens", 1},
                       {"temperature", 0}};
    RONDO_ASSIGN(const json answer, fetch("POST", "/v1/chat/completions", body));
    const json usage = answer.value("usage", json());
    if (!usage.is_object() || !usage.contains("prompt_tokens") || !usage["prompt_tokens"].is_number_integer()) {
        return make_error(ErrorCode::unsupported,
                          "the server counts no tokens; it must have /tokenize or usage.prompt_tokens");
    }
    return usage["prompt_tokens"].get<int64_t>();
}

Result<double> Endpoint::tokens_per_word(uint64_t seed) {
    Seeded random(seed, sample_stream);
    const std::string sample = draw_words(random, sample_words);
    // A server without /tokenize, or with another form of it, is no error: the next form is tried.
    for (const json& body :
         {json{{"text", sample}}, json{{"content", sample}}, json{{"model", options_.model}, {"prompt", sample}}}) {
        const auto answer = fetch("POST", "/tokenize", body);
        if (!answer && answer.error().code == ErrorCode::timeout) return answer.error();
        const size_t ids = answer ? count_ids(*answer) : 0;
        if (ids > 0) return static_cast<double>(ids) / static_cast<double>(sample_words);
    }
    // What the chat template adds is in both counts and falls out.
    RONDO_ASSIGN(const int64_t one, prompt_tokens(draw_words(random, 1)));
    RONDO_ASSIGN(const int64_t many, prompt_tokens(sample));
    return std::max(0.1, static_cast<double>(many - one) / static_cast<double>(sample_words - 1));
}

}  // namespace rondo::cli::multi_turn

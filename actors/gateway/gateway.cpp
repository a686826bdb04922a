#include "actors/gateway/gateway.hpp"

#include <algorithm>
#include <future>
#include <system_error>

#include "actors/engine_inside.hpp"
#include "actors/gateway/bodies/listings.hpp"
#include "actors/gateway/bodies/tokenize_requests.hpp"
#include "actors/gateway/browsers.hpp"
#include "actors/gateway/left_behind.hpp"
#include "actors/gateway/list_desk.hpp"
#include "actors/gateway/page_files.hpp"
#include "actors/gateway/path_rest.hpp"
#include "actors/logger_holder.hpp"
#include "actors/make_turn.hpp"
#include "actors/timespan.hpp"

namespace rondo {

namespace {

constexpr size_t texts_at_once = 2;
/// A body of so many bytes is parsed in 2 ms at the most, whatever is in it; larger ones wait for a thread of theirs.
constexpr size_t parsed_at_once_bytes_max = size_t{32} << 10;

/// Whether it needs no key.
bool is_open_to_all(std::string_view path) {
    constexpr std::string_view open[] = {"/", "/health", "/ready", "/metrics"};
    return path.starts_with("/page/") || std::ranges::count(open, path) > 0;
}

/// As it says: what comes in chunks says nothing.
bool has_small_body(const HttpRequest& request) {
    constexpr size_t digits_max = 4;
    return request.header("transfer-encoding").empty() && request.header("content-length").size() <= digits_max;
}

}  // namespace

Gateway::Gateway(Engine& engine, Options options)
    : engine_(engine),
      options_(std::move(options)),
      health_(engine),
      texts_({.threads = texts_at_once,
              .waiting_max = static_cast<size_t>(options_.server.requests_waiting_max),
              .several_tenants = !options_.server.api_keys_file.empty()}) {}

Result<std::unique_ptr<Gateway>> Gateway::start(Engine& engine, Options options) {
    std::unique_ptr<Gateway> gateway;
    try {
        gateway.reset(new Gateway(engine, std::move(options)));
    } catch (const std::system_error& error) {
        return make_error(ErrorCode::out_of_memory,
                          std::string("the server cannot start its threads: ") + error.what());
    }
    const ServerSettings& server = gateway->options_.server;
    if (!server.api_keys_file.empty()) {
        RONDO_ASSIGN(gateway->keys_, ApiKeys::read(server.api_keys_file, server.api_keys_shared));
    }
    gateway->started_s_ = whole_seconds_since_1970();
    const LoggerHolder lets_go;
    gateway->lists_ = caf::actor_cast<caf::actor>(
        engine.system().spawn<ListDesk>(engine.front(), inside(engine).load(), !server.api_keys_file.empty()));
    HttpServer::Options http;
    http.host = server.host;
    http.port = static_cast<uint16_t>(server.port);
    http.limits = gateway->options_.limits;
    http.refused = [raw = gateway.get()](HttpRequest request, int status, size_t bytes) {
        return raw->refused(std::move(request), status, bytes);
    };
    http.turn_away = [raw = gateway.get()](const HttpRequest& request) -> std::optional<std::string> {
        const bool has_key = raw->keys_.tenant_of(request.header("authorization")).has_value();
        const bool may_go_on = is_open_to_all(request.path) || request.method == "OPTIONS";  // `route` decides then
        if (has_key || (may_go_on && has_small_body(request))) return {};
        return wrong_api_key().body();
    };
    RONDO_ASSIGN(gateway->server_,
                 HttpServer::open(http, [raw = gateway.get()](HttpRequest request, std::shared_ptr<HttpReply> reply) {
                     raw->handle(std::move(request), std::move(reply));
                 }));
    RONDO_TRY(gateway->server_->begin());
    return gateway;
}

Gateway::~Gateway() {
    server_.reset();  // nobody asks any more
    if (!lists_) return;
    const LoggerHolder lets_go;
    caf::anon_send_exit(lists_, caf::exit_reason::user_shutdown);
    caf::scoped_actor(engine_.system())->wait_for(lists_);
}

std::vector<std::string> Gateway::notes() const {
    return left_behind(inside(engine_).store_owners(), keys_);
}

void Gateway::drain(std::chrono::milliseconds patience) {
    draining_ = true;
    const auto drained = std::make_shared<std::promise<void>>();
    const std::future<void> done = drained->get_future();
    server_->drain(patience + last_words_time, [drained] { drained->set_value(); });
    if (done.wait_for(patience) == std::future_status::ready) return;
    open_.end_all(shutting_down());
    done.wait_for(last_words_time);
}

std::string Gateway::new_id(const char* prefix) {
    // Unlike those of another start, and in order within this one.
    return prefix + std::to_string(started_s_) + "-" + std::to_string(++ids_);
}

void Gateway::handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
    auto exchange =
        std::make_shared<Exchange>(std::move(request), std::move(reply), options_.log, options_.server.cors_origin);
    exchange->id = new_id("req-");
    if (!open_.add(exchange)) return exchange->send_error(shutting_down());
    exchange->watch_client();
    route(exchange);
}

/// A request that the transport answers itself: it gets its id and its line in the log here.
HttpHeaders Gateway::refused(HttpRequest request, int status, size_t bytes) {
    Exchange exchange(std::move(request), nullptr, options_.log, options_.server.cors_origin);
    exchange.id = new_id("req-");
    return exchange.refused(status, bytes);
}

void Gateway::route(const std::shared_ptr<Exchange>& exchange) {
    const std::string& path = exchange->request().path;
    const std::string& method = exchange->request().method;
    const auto only = [&](std::string_view allowed, auto&& answer) {
        if (method == allowed || (allowed == "GET" && method == "HEAD")) return answer();
        exchange->send_error(wrong_method(allowed == "GET" ? "GET, HEAD" : allowed));
    };
    if (const auto foreign = foreign_page(exchange->request(), options_.server)) return exchange->send_error(*foreign);
    if (method == "OPTIONS" && !options_.server.cors_origin.empty()) return exchange->send(204, "text/plain", "");
    if (!is_open_to_all(path) && !let_in(*exchange)) return exchange->send_error(wrong_api_key());
    if (path == "/") return only("GET", [&] { page(*exchange, "index.html"); });
    if (path.starts_with("/page/")) return only("GET", [&] { page(*exchange, path.substr(6)); });
    if (path == "/health") return only("GET", [&] { health(*exchange, false); });
    if (path == "/ready") return only("GET", [&] { health(*exchange, true); });
    if (path == "/metrics") return only("GET", [&] { metrics(*exchange); });
    if (path == "/v1/models") return only("GET", [&] { exchange->send_json(200, models_response(served_models())); });
    if (constexpr std::string_view models = "/v1/models/"; path.starts_with(models))
        return only("GET", [&] { model(*exchange, decode_rest(path.substr(models.size()))); });
    if (path == "/v1/chat/completions") return only("POST", [&] { answer(exchange, &Gateway::chat); });
    if (path == "/v1/responses") return only("POST", [&] { answer(exchange, &Gateway::responses); });
    if (constexpr std::string_view kept = "/v1/responses/"; path.starts_with(kept))
        return only("DELETE", [&] { response(exchange, decode_rest(path.substr(kept.size()))); });
    if (path == "/v1/completions") return only("POST", [&] { answer(exchange, &Gateway::completion); });
    if (path == "/tokenize") return only("POST", [&] { answer(exchange, &Gateway::tokenize); });
    if (path == "/detokenize") return only("POST", [&] { answer(exchange, &Gateway::detokenize); });
    if (path == "/v1/store") return only("GET", [&] { store(exchange); });
    if (path == "/v1/sessions" || path.starts_with("/v1/sessions/")) return answer(exchange, &Gateway::sessions);
    exchange->send_error(unknown_path());
}

bool Gateway::let_in(Exchange& exchange) const {
    const std::optional<std::string> tenant = keys_.tenant_of(exchange.request().header("authorization"));
    if (tenant) exchange.tenant = *tenant;
    return tenant.has_value();
}

void Gateway::page(Exchange& exchange, const std::string& file) const {
    const PageFile* found = page_file(file);
    if (found == nullptr) return exchange.send_error(unknown_path());
    exchange.send_page(found->type, std::string(found->content));
}

void Gateway::health(Exchange& exchange, bool ready) {
    const Health::Verdict verdict = health_.look(std::chrono::steady_clock::now());
    if (!verdict.good) return exchange.send_error(not_serving("unhealthy", verdict.reason));
    if (ready && draining_) return exchange.send_error(shutting_down());
    const StoreFigures& store = inside(engine_).store_figures();
    const char* const disk = !store.wanted ? "" : store.serves ? ",\"store\":\"ok\"" : ",\"store\":\"off\"";
    exchange.send_json(200, std::string("{\"status\":\"ok\"") + (ready ? disk : "") + "}");
}

void Gateway::metrics(Exchange& exchange) {
    const KvPool& pool = inside(engine_).pool();
    Metrics::Now now;
    const auto turns = static_cast<double>(inside(engine_).load().turns);
    now.running = std::min(turns, static_cast<double>(inside(engine_).load().running));
    now.waiting = turns - now.running;
    now.tell_blocks(pool.blocks_total(), pool.blocks_free(), inside(engine_).load().blocks_cached);
    now.conversations = static_cast<double>(inside(engine_).load().conversations);
    now.conversation_bytes = static_cast<double>(inside(engine_).load().conversation_bytes);
    now.left_by_age = static_cast<double>(inside(engine_).load().left_by_age);
    now.left_for_room = static_cast<double>(inside(engine_).load().left_for_room);
    now.refused = static_cast<double>(inside(engine_).load().refused);
    now.waited_for_keys = inside(engine_).load().waited_seconds;
    now.connections = static_cast<double>(server_->counts().connections);
    exchange.send(200, "text/plain; version=0.0.4; charset=utf-8", inside(engine_).metrics().text(now));
}

void Gateway::tokenize(const std::shared_ptr<Exchange>& exchange) {
    ApiResult<TokenizeRequest> request = parse_tokenize(exchange->take_body());
    if (!request) return exchange->send_error(request.error());
    if (const auto error = no_tokenizer()) return exchange->send_error(*error);
    if (const auto error = too_long("text", request->text.size() + content_bytes(request->messages)))
        return exchange->send_error(*error);
    ApiResult<std::string> variables = template_variables(request->for_template, request->messages);
    if (!variables) return exchange->send_error(variables.error());
    const auto tools = fit_tools(request->tools, nullptr);
    if (!tools) return exchange->send_error(tools.error());
    GivenToTemplate given{std::move(*variables), *tools ? (*tools)->json() : std::string()};
    apart(exchange,
          [runtime = inside(engine_).runtime(), exchange, wanted = std::move(*request), given = std::move(given)] {
              const Model& model = runtime->model;
              const std::stop_token stop = exchange->stop_token();
              const Result<std::vector<int32_t>> ids =
                  !wanted.messages.empty() ? model.encode_chat(wanted.messages, stop, given)
                  : wanted.add_special     ? model.encode_text(wanted.text, stop)
                                           : model.tokenizer->encode(wanted.text, true, stop);
              if (!ids) return exchange->send_error(ids.error());
              exchange->send_json(200, tokenize_response(*ids));
          });
}

void Gateway::detokenize(const std::shared_ptr<Exchange>& exchange) {
    ApiResult<DetokenizeRequest> request =
        parse_detokenize(exchange->take_body(), inside(engine_).model().spec.vocabulary);
    if (!request) return exchange->send_error(request.error());
    if (const auto error = no_tokenizer()) return exchange->send_error(*error);
    exchange->send_json(200, detokenize_response(inside(engine_).model().tokenizer->decode(request->ids, true)));
}

std::optional<Error> Gateway::no_tokenizer() const {
    if (inside(engine_).model().tokenizer != nullptr) return {};
    return make_error(ErrorCode::unsupported,
                      "model " + inside(engine_).model().name + " has no tokenizer; the prompt must be token ids");
}

/// Text that could not fit into a context is refused before it is tokenized, also where it is only to be counted.
std::optional<Error> Gateway::too_long(const char* what, size_t bytes) const {
    if (bytes <= content_bytes_max(*inside(engine_).runtime())) return {};
    return make_error(ErrorCode::context_full, std::string("the ") + what + " is too long: no " +
                                                   std::to_string(bytes) + " bytes fit into a context of " +
                                                   std::to_string(engine_.context_tokens()) + " tokens");
}

void Gateway::answer(const std::shared_ptr<Exchange>& exchange, Answer answer) {
    if (exchange->request().body.size() <= parsed_at_once_bytes_max) return (this->*answer)(exchange);
    apart(exchange, [this, exchange, answer] { (this->*answer)(exchange); });
}

/// The server's thread goes on meanwhile. A job may use this gateway, which waits for it at its end.
void Gateway::apart(const std::shared_ptr<Exchange>& exchange, std::function<void()> job) {
    if (exchange->is_apart) return job();
    exchange->is_apart = true;
    auto if_wanted = [exchange, job = std::move(job)] {
        if (!exchange->stop_token().stop_requested()) job();
    };
    const size_t bytes = std::max<size_t>(exchange->body_bytes(), 1);
    if (texts_.add(exchange->tenant, bytes, std::move(if_wanted))) return;
    exchange->send_error(
        make_error(ErrorCode::overloaded, "too many large requests and texts wait to be read; ask again later"));
}

}  // namespace rondo

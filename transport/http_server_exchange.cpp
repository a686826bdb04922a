#include "transport/http_server_exchange.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "transport/http_server_response.hpp"

namespace rondo {

namespace {

/// An answer of so few bytes always finds room: there cannot be more of them than connections.
constexpr size_t small_bytes = size_t{16} << 10;

class Reply final : public HttpReply {
public:
    explicit Reply(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}
    ~Reply() override { exchange_->give_up(); }
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;

    void send(int status, HttpHeaders headers, std::string body) override {
        exchange_->send(status, std::move(headers), std::move(body));
    }
    void begin(int status, HttpHeaders headers) override { exchange_->begin(status, std::move(headers)); }
    bool write(std::string piece) override { return exchange_->write(std::move(piece)); }
    void finish() override { exchange_->finish(); }
    void on_gone(std::function<void()> gone) override { exchange_->on_gone(std::move(gone)); }

private:
    const std::shared_ptr<HttpExchange> exchange_;
};

/// A callback of the handler's must not take the server's thread down.
void call(const std::function<void()>& gone) {
    try {
        if (gone) gone();
    } catch (...) {
    }
}

}  // namespace

std::shared_ptr<HttpReply> make_http_reply(std::shared_ptr<HttpExchange> exchange) {
    return std::make_shared<Reply>(std::move(exchange));
}

HttpExchange::HttpExchange(Request request, size_t write_bytes_max, std::shared_ptr<AnswerBytes> answers,
                           std::function<void()> wake)
    : request_(request),
      write_bytes_max_(write_bytes_max),
      answers_(std::move(answers)),
      wake_(std::move(wake)),
      close_(request.close) {}

HttpExchange::~HttpExchange() {
    let_go(unsent_bytes_);
}

void HttpExchange::send(int status, HttpHeaders headers, std::string body) {
    std::function<void()> unused;
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::open || begun_) return;
    send_locked(status, std::move(headers), std::move(body));
    unused = end(Stage::complete);
}

void HttpExchange::send_locked(int status, HttpHeaders headers, std::string body) {
    said_close_ = close_;
    if (http_has_body(status) && !request_.head && !has_room(body.size())) {
        status = 503;
        body = http_error_body(status, "too many answers wait for slow clients; ask again later");
        std::erase_if(headers, [](const auto& header) { return header.first == "Content-Type"; });
        headers.emplace_back("Content-Type", "application/json");
        headers.emplace_back("Retry-After", "1");
    }
    HttpFraming framing{.content_bytes = {}, .chunked = false, .close = close_};
    if (http_has_body(status)) framing.content_bytes = body.size();
    push(http_response_head(status, headers, framing));
    if (http_has_body(status) && !request_.head) push(std::move(body));
}

void HttpExchange::begin(int status, HttpHeaders headers) {
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::open || begun_) return;
    begun_ = true;
    said_close_ = close_;
    has_body_ = http_has_body(status) && !request_.head;
    // HTTP/1.0 knows no chunks: there the end of the connection is the end of the body.
    const bool chunked = request_.http11 && http_has_body(status);
    push(http_response_head(status, headers, {.content_bytes = {}, .chunked = chunked, .close = close_}));
    wake_up();
}

bool HttpExchange::write(std::string piece) {
    if (request_.http11) piece = http_chunk(std::move(piece));
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::open || !begun_) return false;
    if (!has_body_ || piece.empty()) return true;
    if (piece.size() > write_bytes_max_ - std::min(write_bytes_max_, unsent_bytes_) || !has_room(piece.size())) {
        stage_ = Stage::overflown;
        // The connection was woken before and may wait for its client; it must hear of this all the same.
        woken_ = false;
        wake_up();
        return false;
    }
    push(std::move(piece));
    wake_up();
    return true;
}

void HttpExchange::finish() {
    std::function<void()> unused;
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::open || !begun_) return;
    if (has_body_ && request_.http11) push(std::string(http_last_chunk));
    unused = end(Stage::complete);
}

void HttpExchange::on_gone(std::function<void()> gone) {
    {
        const std::lock_guard lock(mutex_);
        if (!lost_) {
            if (stage_ != Stage::complete) gone_.swap(gone);
            return;
        }
        if (stage_ == Stage::complete) return;
    }
    call(gone);
}

void HttpExchange::give_up() {
    std::function<void()> unused;
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::open) return;
    if (!begun_) send_locked(500, http_error_headers(), http_error_body(500, "the request was not answered"));
    unused = end(begun_ ? Stage::cut : Stage::complete);
}

std::function<void()> HttpExchange::end(Stage stage) {
    stage_ = stage;
    wake_up();
    return std::exchange(gone_, nullptr);
}

HttpExchange::Stage HttpExchange::take(std::vector<std::string>& pieces) {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    pieces.insert(pieces.end(), std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.end()));
    waiting_.clear();
    return stage_;
}

void HttpExchange::sent(size_t bytes) {
    const std::lock_guard lock(mutex_);
    let_go(bytes);
}

bool HttpExchange::is_answered() const {
    const std::lock_guard lock(mutex_);
    return stage_ == Stage::complete;
}

bool HttpExchange::is_overflown() const {
    const std::lock_guard lock(mutex_);
    return stage_ == Stage::overflown;
}

void HttpExchange::close_after() {
    const std::lock_guard lock(mutex_);
    close_ = true;
}

bool HttpExchange::said_close() const {
    const std::lock_guard lock(mutex_);
    return said_close_;
}

void HttpExchange::detach() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
}

void HttpExchange::lost() {
    std::function<void()> gone;
    {
        const std::lock_guard lock(mutex_);
        lost_ = true;
        wake_ = nullptr;
        waiting_.clear();
        let_go(unsent_bytes_);
        if (stage_ == Stage::open) stage_ = Stage::cut;
        gone.swap(gone_);
    }
    call(gone);
}

/// Answers that are written at the same time may both find the last room.
bool HttpExchange::has_room(size_t bytes) const {
    const size_t most = answers_->bytes_max;
    return unsent_bytes_ + bytes <= small_bytes || bytes <= most - std::min<size_t>(most, answers_->all);
}

void HttpExchange::let_go(size_t bytes) {
    unsent_bytes_ -= bytes;
    answers_->all -= bytes;
}

void HttpExchange::push(std::string bytes) {
    if (bytes.empty()) return;
    unsent_bytes_ += bytes.size();
    answers_->all += bytes.size();
    waiting_.push_back(std::move(bytes));
}

void HttpExchange::wake_up() {
    if (woken_ || !wake_) return;
    woken_ = true;
    wake_();
}

}  // namespace rondo

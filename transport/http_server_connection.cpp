#include "transport/http_server_connection.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>

#include "transport/http_server_response.hpp"

namespace rondo {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using NetError = boost::system::error_code;

constexpr size_t read_bytes_max = size_t{16}
                                  << 10;  // at once; also what is kept of pipelined requests before reading rests
constexpr std::chrono::milliseconds linger_time{1000};
constexpr std::chrono::milliseconds never = std::chrono::milliseconds::max();

/// Asio copies the buffers it is given; this copies two pointers.
struct Gather {
    const std::vector<asio::const_buffer>* buffers;
    auto begin() const { return buffers->begin(); }
    auto end() const { return buffers->end(); }
};

/// Of IPv6 addresses a host has as many as it likes, all with the same first half.
std::string network_of(const std::string& peer) {
    NetError unknown;
    const asio::ip::address address = asio::ip::make_address(peer, unknown);
    if (unknown || !address.is_v6() || address.to_v6().is_v4_mapped()) return peer;
    const auto bytes = address.to_v6().to_bytes();
    return {bytes.begin(), bytes.begin() + 8};
}

}  // namespace

HttpConnection::HttpConnection(tcp::socket socket, std::string peer, HttpShared& shared)
    : socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      peer_(std::move(peer)),
      network_(network_of(peer_)),
      shared_(shared) {}

void HttpConnection::start() {
    run(&HttpConnection::begin);
}

void HttpConnection::drain() {
    run(&HttpConnection::stop_if_idle);
}

void HttpConnection::cut_off() {
    run(&HttpConnection::say_why_and_shut);
}

void HttpConnection::close() {
    run(&HttpConnection::shut);
}

void HttpConnection::run(void (HttpConnection::*step)()) {
    asio::post(socket_.get_executor(), [self = shared_from_this(), step] {
        if (self->phase_ != Phase::closed) ((*self).*step)();
    });
}

void HttpConnection::begin() {
    set_read_deadline(shared_.limits.idle_time);
    wait_for_bytes();
}

void HttpConnection::wait_for_bytes() {
    const bool full = phase_ == Phase::answering && in_.size() >= read_bytes_max;
    if (phase_ == Phase::closed || waiting_ || no_more_bytes_ || full) return;
    waiting_ = true;
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const NetError& error) {
        self->waiting_ = false;
        if (!error && self->phase_ != Phase::closed) self->receive();
    });
}

void HttpConnection::receive() {
    static thread_local std::array<char, read_bytes_max> lent;
    NetError error;
    const size_t count = socket_.read_some(asio::buffer(lent), error);
    if (error && error != asio::error::would_block) return end_of_stream(error);
    if (phase_ == Phase::lingering) {
        read_over_bytes_ += count;
        if (read_over_bytes_ > shared_.limits.body_bytes_max) return shut();
    } else {
        in_.append(lent.data(), count);
        parse();
    }
    wait_for_bytes();
}

/// A client that has closed its side still gets an answer that is complete; otherwise the connection ends.
void HttpConnection::end_of_stream(const NetError& error) {
    if (error != asio::error::eof || !exchange_ || !exchange_->is_answered()) return shut();
    no_more_bytes_ = true;
}

void HttpConnection::parse() {
    using State = HttpRequestReader::State;
    while (phase_ == Phase::reading && !in_.empty()) {
        const bool fresh = !reader_;
        if (fresh) reader_.emplace(shared_.limits);
        const bool in_header = reader_->state() == State::header;
        in_.erase(0, reader_->take(in_));
        if (reader_->state() == State::refused) return refuse(reader_->refusal());
        if (reader_->state() == State::done) {
            hand_over();
            continue;
        }
        if (reader_->is_between_requests()) {  // an empty line behind a body begins none
            reader_.reset();
            break;
        }
        if (in_header && reader_->state() == State::body)
            if (const auto why = turned_away()) return refuse({401, "", *why});
        if (!has_room_for_body())
            return refuse({503, "too many large requests are on their way to this server; ask again later"});
        // One deadline for each part, set when it begins, so that no drip of bytes can move it.
        if (reader_->state() == State::header) {
            if (fresh) set_read_deadline(shared_.limits.header_time);
        } else if (in_header) {
            set_read_deadline(shared_.limits.body_time);
            if (reader_->awaits_continue() && !say("HTTP/1.1 100 Continue\r\n\r\n")) return shut();
        }
        break;
    }
    if (in_.empty()) std::string().swap(in_);
}

BodyBytes::Held BodyBytes::hold(const std::string& peer, size_t before, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = by_peer_.try_emplace(peer).first;
    all_ += bytes - before;  // or less: sizes wrap round
    found->second += bytes - before;
    const Held held{all_, found->second};
    if (held.by_peer == 0) by_peer_.erase(found);
    return held;
}

size_t BodyBytes::all() const {
    const std::lock_guard lock(mutex_);
    return all_;
}

BodyBytes::Held HttpConnection::hold_body(size_t bytes) {
    if (bytes == body_bytes_) return {};
    const BodyBytes::Held held = shared_.bodies.hold(network_, body_bytes_, bytes);  // without memory it throws
    body_bytes_ = bytes;
    return held;
}

std::optional<std::string> HttpConnection::turned_away() const {
    try {
        if (shared_.turn_away) return shared_.turn_away(reader_->so_far());
    } catch (...) {
        // Whoever handles the whole request says what is wrong with it.
    }
    return {};
}

/// Small bodies always find room: there cannot be more of them than connections. One address has half of the rest at
/// most, so that who sends nothing but beginnings does not shut out everybody else.
bool HttpConnection::has_room_for_body() {
    const size_t own = reader_->body_bytes(), most = shared_.limits.bodies_bytes_max;
    if (own <= shared_.limits.header_bytes_max) return true;
    const BodyBytes::Held held = hold_body(own);
    return held.by_all <= most && held.by_peer <= most / 2;
}

void HttpConnection::hand_over() {
    hold_body(0);
    set_read_deadline(never);
    phase_ = Phase::answering;
    HttpRequest request = reader_->release();
    request.peer = peer_;
    const HttpExchange::Request shape{.http11 = reader_->is_http11(),
                                      .head = request.method == "HEAD",
                                      .close = !reader_->keeps_alive() || shared_.draining};
    reader_.reset();
    exchange_ = std::make_shared<HttpExchange>(shape, shared_.limits.write_bytes_max, shared_.answers,
                                               [this] { run(&HttpConnection::flush); });
    try {
        shared_.handle(std::move(request), make_http_reply(exchange_));
    } catch (...) {
        exchange_->give_up();
    }
}

void HttpConnection::flush() {
    if (!exchange_) return;
    if (exchange_->is_overflown()) return shut();
    if (writing_) return;
    const HttpExchange::Stage stage = exchange_->take(out_);
    if (!out_.empty()) return write();
    if (stage == HttpExchange::Stage::complete) answered();
    if (stage == HttpExchange::Stage::cut) shut();
}

void HttpConnection::write() {
    gather_.clear();
    size_t offset = out_offset_;
    for (size_t i = out_done_; i < out_.size(); ++i) {
        gather_.push_back(asio::buffer(out_[i]) + offset);
        offset = 0;
    }
    writing_ = true;
    write_deadline_ = Clock::now() + shared_.limits.write_time;
    arm_timer();
    socket_.async_write_some(Gather{&gather_}, [self = shared_from_this()](const NetError& error, size_t bytes) {
        if (self->phase_ != Phase::closed) self->wrote(error, bytes);
    });
}

void HttpConnection::wrote(const NetError& error, size_t bytes) {
    writing_ = false;
    write_deadline_ = Clock::time_point::max();
    if (error) return shut();
    exchange_->sent(bytes);
    while (out_done_ < out_.size()) {
        const size_t left = out_[out_done_].size() - out_offset_;
        if (bytes < left) {
            out_offset_ += bytes;
            return write();
        }
        bytes -= left;
        out_offset_ = 0;
        std::string().swap(out_[out_done_++]);
    }
    out_.clear();
    out_done_ = 0;
    flush();
}

void HttpConnection::answered() {
    const bool closes = exchange_->said_close();
    exchange_->detach();
    exchange_.reset();
    std::vector<std::string>().swap(out_);
    std::vector<asio::const_buffer>().swap(gather_);
    if (no_more_bytes_) return shut();
    if (closes) return linger();
    phase_ = Phase::reading;
    set_read_deadline(shared_.limits.idle_time);
    parse();
    if (shared_.draining) return stop_if_idle();
    wait_for_bytes();
}

bool HttpConnection::say(std::string_view text) {
    NetError error;
    return socket_.write_some(asio::buffer(text.data(), text.size()), error) == text.size() && !error;
}

bool HttpConnection::say_error(int status, std::string_view message) {
    return say_body(status, http_error_body(status, message));
}

bool HttpConnection::say_body(int status, const std::string& body) {
    return say(http_response_head(status, refusal_headers(status, body.size()),
                                  {.content_bytes = body.size(), .chunked = false, .close = true}) +
               body);
}

/// The owner of the server hears of the refusal and may add to its headers.
HttpHeaders HttpConnection::refusal_headers(int status, size_t bytes) {
    if (!shared_.refused) return http_error_headers();
    HttpRequest so_far = reader_ ? reader_->release() : HttpRequest();
    so_far.peer = peer_;
    try {
        return shared_.refused(std::move(so_far), status, bytes);
    } catch (...) {
        return http_error_headers();
    }
}

void HttpConnection::refuse(const HttpRefusal& refusal) {
    const bool said =
        refusal.body.empty() ? say_error(refusal.status, refusal.message) : say_body(refusal.status, refusal.body);
    if (!said) return shut();
    linger();
}

void HttpConnection::linger() {
    phase_ = Phase::lingering;
    reader_.reset();
    hold_body(0);
    std::string().swap(in_);
    NetError ignored;  // the client may have left meanwhile, which reading will tell
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    set_read_deadline(linger_time);
    wait_for_bytes();
}

void HttpConnection::stop_if_idle() {
    if (exchange_) return exchange_->close_after();
    // A request may lie unread in the socket: whoever sent it before the drain began gets an answer.
    if (phase_ == Phase::reading && !reader_) receive();
    if (phase_ == Phase::reading && !reader_) return shut();
    wait_for_bytes();
}

void HttpConnection::say_why_and_shut() {
    if (reader_) say_error(503, "the server is shutting down");
    shut();
}

void HttpConnection::shut() {
    phase_ = Phase::closed;
    NetError ignored;
    socket_.close(ignored);
    timer_.cancel();
    reader_.reset();
    hold_body(0);
    std::string().swap(in_);
    if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->lost();
    shared_.closed(shared_from_this());
}

void HttpConnection::set_read_deadline(std::chrono::milliseconds time) {
    read_deadline_ = time == never ? Clock::time_point::max() : Clock::now() + time;
    arm_timer();
}

/// The timer is moved only to go off earlier: most deadlines are gone before they come, and setting one costs more
/// than a needless look at the clock.
void HttpConnection::arm_timer() {
    const auto next = std::min(read_deadline_, write_deadline_);
    if (next >= timer_at_) return;
    timer_at_ = next;
    timer_.expires_at(next);
    timer_.async_wait([self = shared_from_this()](const NetError& error) {
        if (!error && self->phase_ != Phase::closed) self->on_timer();
    });
}

void HttpConnection::on_timer() {
    timer_at_ = Clock::time_point::max();
    const auto now = Clock::now();
    if (now < std::min(read_deadline_, write_deadline_)) return arm_timer();
    time_out();
}

void HttpConnection::time_out() {
    if (phase_ != Phase::lingering) ++shared_.timed_out;
    // Best effort, and the connection ends now: whoever drips bytes is not waited for once more.
    if (reader_) say_error(408, "the request did not arrive in time");
    shut();
}

}  // namespace rondo

#include "transport/http_client.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <optional>
#include <utility>

#include "transport/http_chunks.hpp"

namespace rondo {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using net::ip::tcp;
using Code = boost::system::error_code;

namespace {

// How long a caller that wants to stop may have to wait for its next chance to say so.
constexpr auto look_around_every = std::chrono::milliseconds(100);
constexpr size_t piece_bytes = size_t{16} << 10;

using Request = http::request<http::string_body>;
using HeaderParser = http::response_parser<http::empty_body>;

bool is_token(std::string_view text) {
    constexpr auto npos = std::string_view::npos;
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char byte) {
        return std::isalnum(byte) != 0 || std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(byte)) != npos;
    });
}

bool has_control_bytes(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; });
}

/// Nothing a caller passes on may end a line of the header and begin another.
Result<Request> make_request(const Url& url, const std::string& method, const std::string& target,
                             const HttpHeaders& headers, std::string body) {
    if (!is_token(method)) return make_error(ErrorCode::invalid_argument, "HTTP method; GET or POST would be right");
    if (target.empty() || target.front() != '/' || has_control_bytes(target) || target.find(' ') != target.npos) {
        return make_error(ErrorCode::invalid_argument, "HTTP target; a path such as /v1/models would be right");
    }
    Request request;
    request.version(11);
    request.method_string(method);
    request.target(url.path + target);
    request.set(http::field::host, url.authority());
    request.set(http::field::user_agent, "rondo");
    for (const auto& [name, value] : headers) {
        if (!is_token(name) || has_control_bytes(value)) {
            return make_error(ErrorCode::invalid_argument, "HTTP header; a name and one line would be right");
        }
        request.set(name, value);
    }
    request.body() = std::move(body);
    request.prepare_payload();
    return request;
}

/// The body of an answer: as long as its header says, in chunks, or all that comes until the connection ends.
class AnswerBody {
public:
    using State = HttpChunks::State;

    AnswerBody(const HeaderParser& header, size_t bytes_max) : bytes_left_(bytes_max) {
        if (header.is_done()) {
            state_ = State::done;
        } else if (header.chunked()) {
            chunks_.emplace(bytes_max);
        } else if (const auto length = header.content_length()) {
            has_length_ = true;
            bytes_left_ = *length;
        }
    }

    State state() const { return state_; }
    bool ends_with_connection() const { return !chunks_ && !has_length_; }

    /// Appends to `piece` and returns how many of `bytes` were used: all, unless the body ended or was refused.
    size_t take(std::string_view bytes, std::string& piece) {
        if (chunks_) {
            const size_t used = chunks_->take(bytes, piece);
            state_ = chunks_->state();
            return used;
        }
        const auto used = static_cast<size_t>(std::min<uint64_t>(bytes.size(), bytes_left_));
        piece += bytes.substr(0, used);
        bytes_left_ -= used;
        if (has_length_ && bytes_left_ == 0) state_ = State::done;
        if (!has_length_ && used < bytes.size()) state_ = State::too_large;
        return used;
    }

private:
    State state_ = State::more;
    std::optional<HttpChunks> chunks_;
    bool has_length_ = false;
    uint64_t bytes_left_;  ///< of a body without chunks
};

Error explain(const Url& url, const Code& error) {
    const std::string where = "http://" + url.authority() + ": ";
    if (error == beast::error::timeout) return make_error(ErrorCode::timeout, where + "no answer before the deadline");
    if (error == http::error::header_limit || error == http::error::body_limit ||
        error == http::error::buffer_overflow) {
        return make_error(ErrorCode::out_of_range, where + "the answer is larger than this client takes");
    }
    if (error == http::error::end_of_stream || error == http::error::partial_message) {
        return make_error(ErrorCode::io, where + "the connection was closed before the answer was whole");
    }
    if (error == net::error::connection_refused) {
        return make_error(ErrorCode::io, where + "nothing listens there; a running server would be right");
    }
    if (error.category() == Code(http::error::bad_version).category()) {
        return make_error(ErrorCode::corrupt, where + "the answer is not HTTP/1.1 (" + error.message() + ")");
    }
    return make_error(ErrorCode::io, where + error.message());
}

}  // namespace

struct HttpClient::Connection {
    explicit Connection(size_t buffer_bytes_max) : buffer(buffer_bytes_max) {}

    net::io_context io{1};
    beast::tcp_stream stream{io};
    beast::flat_buffer buffer;
};

/// One request on one connection.
class HttpClient::Exchange {
public:
    Exchange(Connection& connection, Deadline deadline, const OnPiece* on_piece)
        : connection_(connection), on_piece_(on_piece) {
        connection_.stream.expires_at(deadline);
    }

    Code connect(const Url& url);
    Code run(Request& request, const HttpClientLimits& limits);

    bool aborted() const { return aborted_; }
    /// No byte of an answer has come.
    bool is_unanswered() const { return !parser_ || (!parser_->got_some() && connection_.buffer.size() == 0); }
    bool keeps_connection() const { return parser_->keep_alive() && connection_.buffer.size() == 0; }
    HttpResponse& response() { return response_; }

private:
    template <class Start>
    Code wait(Start start);
    Code read_header(const HttpClientLimits& limits);
    Code read_body(size_t bytes_max);
    Code receive();
    bool take(std::string_view piece);

    Connection& connection_;
    const OnPiece* on_piece_;
    bool aborted_ = false;
    std::optional<HeaderParser> parser_;
    HttpResponse response_;
};

/// Runs one operation to its end; tcp_stream ends it when the deadline is over.
template <class Start>
Code HttpClient::Exchange::wait(Start start) {
    Code outcome;
    bool done = false;
    start([&](Code error, auto&&...) {
        outcome = error;
        done = true;
    });
    connection_.io.restart();
    while (!done) {
        connection_.io.run_for(look_around_every);
        if (!done && !aborted_ && on_piece_ != nullptr && !(*on_piece_)({})) {
            aborted_ = true;
            connection_.stream.cancel();
        }
    }
    return outcome;
}

Code HttpClient::Exchange::connect(const Url& url) {
    Code error;
    tcp::resolver::results_type found;
    const net::ip::address address = net::ip::make_address(url.host, error);
    if (!error) {
        found = tcp::resolver::results_type::create(tcp::endpoint(address, url.port), url.host, "");
    } else {
        found = tcp::resolver(connection_.io).resolve(url.host, std::to_string(url.port), error);
        if (error) return error;
    }
    error = wait([&](auto handler) { connection_.stream.async_connect(found, std::move(handler)); });
    if (error) return error;
    // A request leaves at once; waiting to fill a packet would be measured as the server's time.
    connection_.stream.socket().set_option(tcp::no_delay(true), error);
    return error;
}

Code HttpClient::Exchange::run(Request& request, const HttpClientLimits& limits) {
    Code error = wait([&](auto handler) { http::async_write(connection_.stream, request, std::move(handler)); });
    if (!error) error = read_header(limits);
    if (!error) error = read_body(limits.body_bytes_max);
    return error;
}

Code HttpClient::Exchange::read_header(const HttpClientLimits& limits) {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(std::min<size_t>(limits.header_bytes_max, UINT32_MAX)));
    parser_->body_limit(limits.body_bytes_max);
    const Code error = wait([&](auto handler) {
        http::async_read_header(connection_.stream, connection_.buffer, *parser_, std::move(handler));
    });
    if (error) return error;
    response_.status = static_cast<int>(parser_->get().result_int());
    for (const auto& field : parser_->get()) {
        std::string name(field.name_string());
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char byte) { return std::tolower(byte); });
        response_.headers.emplace_back(std::move(name), std::string(field.value()));
    }
    return {};
}

Code HttpClient::Exchange::read_body(size_t bytes_max) {
    AnswerBody body(*parser_, bytes_max);
    std::string piece;
    while (body.state() == AnswerBody::State::more) {
        if (connection_.buffer.size() == 0) {
            const Code error = receive();
            if (error == net::error::eof && body.ends_with_connection()) return {};
            if (error == net::error::eof) return http::error::partial_message;
            if (error) return error;
        }
        piece.clear();
        const net::const_buffer bytes = connection_.buffer.data();
        connection_.buffer.consume(body.take({static_cast<const char*>(bytes.data()), bytes.size()}, piece));
        aborted_ = aborted_ || (!piece.empty() && !take(piece));
        if (aborted_) return net::error::operation_aborted;
    }
    if (body.state() == AnswerBody::State::malformed) return http::error::bad_chunk;
    if (body.state() == AnswerBody::State::too_large) return http::error::body_limit;
    return {};
}

/// Waits for bytes and puts them into the connection's buffer.
Code HttpClient::Exchange::receive() {
    size_t got = 0;
    const Code error = wait([&](auto handler) {
        connection_.stream.async_read_some(connection_.buffer.prepare(piece_bytes),
                                           [&got, handler = std::move(handler)](Code outcome, size_t count) mutable {
                                               got = count;
                                               handler(outcome);
                                           });
    });
    connection_.buffer.commit(got);
    return error;
}

bool HttpClient::Exchange::take(std::string_view piece) {
    if (on_piece_ != nullptr && response_.is_success()) return (*on_piece_)(piece);
    response_.body += piece;
    return true;
}

std::string_view HttpResponse::header(std::string_view lower_case_name) const {
    const auto found = std::find_if(headers.begin(), headers.end(),
                                    [&](const auto& header) { return header.first == lower_case_name; });
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

HttpClient::HttpClient(Url url, HttpClientLimits limits) : url_(std::move(url)), limits_(limits) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

Result<HttpResponse> HttpClient::request(const std::string& method, const std::string& target,
                                         const HttpHeaders& headers, std::string body, Deadline deadline) {
    return perform(method, target, headers, std::move(body), deadline, nullptr);
}

Result<HttpResponse> HttpClient::stream(const std::string& method, const std::string& target,
                                        const HttpHeaders& headers, std::string body, Deadline deadline,
                                        const OnPiece& on_piece) {
    return perform(method, target, headers, std::move(body), deadline, &on_piece);
}

/// A kept connection may have been closed by the server meanwhile, which only using it tells: then, and only when not
/// one byte of an answer has come, the request goes out once more on a connection of its own.
Result<HttpResponse> HttpClient::perform(const std::string& method, const std::string& target,
                                         const HttpHeaders& headers, std::string body, Deadline deadline,
                                         const OnPiece* on_piece) {
    try {
        RONDO_ASSIGN(Request request, make_request(url_, method, target, headers, std::move(body)));
        for (;;) {
            std::unique_ptr<Connection> connection = std::move(connection_);
            const bool kept = connection != nullptr;
            if (!kept) connection = std::make_unique<Connection>(limits_.header_bytes_max + 4 * piece_bytes);
            Exchange exchange(*connection, deadline, on_piece);
            Code error = kept ? Code() : exchange.connect(url_);
            if (!error) error = exchange.run(request, limits_);
            if (exchange.aborted()) {
                return make_error(ErrorCode::cancelled, "http://" + url_.authority() + ": stopped by the caller");
            }
            if (!error) {
                if (exchange.keeps_connection()) connection_ = std::move(connection);
                return std::move(exchange.response());
            }
            if (!kept || !exchange.is_unanswered() || error == beast::error::timeout) return explain(url_, error);
        }
    } catch (const std::exception& error) {
        return make_error(ErrorCode::internal, "http://" + url_.authority() + ": " + error.what());
    }
}

}  // namespace rondo

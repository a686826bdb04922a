#include "transport/http_client.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>

#include "transport/http_chunks.hpp"
#include "transport/socket_stream.hpp"

namespace rondo {

namespace http = boost::beast::http;
using Code = boost::system::error_code;

namespace {

constexpr size_t piece_bytes = size_t{16} << 10;
constexpr int interim_answers_max = 8;  // "103 Early Hints" and the like, before the answer itself

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

/// The bytes of a request. Nothing that a caller passes on may end a line of the header and begin another.
Result<std::string> make_request(const Url& url, const std::string& method, const std::string& target,
                                 const HttpHeaders& headers, const std::string& body) {
    if (!is_token(method)) return make_error(ErrorCode::invalid_argument, "the HTTP method must be a word such as GET");
    if (target.empty() || target.front() != '/' || has_control_bytes(target) || target.find(' ') != target.npos) {
        return make_error(ErrorCode::invalid_argument, "the HTTP target must be a path such as /v1/models");
    }
    std::string text =
        method + " " + url.path + target + " HTTP/1.1\r\nHost: " + url.authority() + "\r\nUser-Agent: rondo\r\n";
    for (const auto& [name, value] : headers) {
        if (!is_token(name) || has_control_bytes(value)) {
            return make_error(ErrorCode::invalid_argument, "an HTTP header must be a name and one line of text");
        }
        text.append(name).append(": ").append(value).append("\r\n");
    }
    if (!body.empty() || method != "GET") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return text + "\r\n" + body;
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

Error wrong_header(const Code& error) {
    if (error == http::error::header_limit || error == http::error::body_limit) {
        return make_error(ErrorCode::out_of_range, "the answer is larger than this client takes");
    }
    return make_error(ErrorCode::corrupt, "the answer is not HTTP/1.1 (" + error.message() + ")");
}

Error cut_short() {
    return make_error(ErrorCode::io, "the connection was closed before the answer was whole");
}

}  // namespace

struct HttpClient::Connection {
    std::unique_ptr<ByteStream> stream;
    std::string received;  ///< and not yet read

    /// Waits for bytes; false at the connection's end.
    Result<bool> receive(const Patience& patience) {
        char piece[piece_bytes];
        RONDO_ASSIGN(const size_t got, stream->read_some(piece, patience));
        received.append(piece, got);
        return got > 0;
    }
};

/// One request on one connection.
class HttpClient::Exchange {
public:
    Exchange(Connection& connection, const Patience& patience, const OnPiece* on_piece)
        : connection_(connection), patience_(patience), on_piece_(on_piece) {}

    Status run(const std::string& request, const HttpClientLimits& limits) {
        RONDO_TRY(connection_.stream->write(request, patience_));
        RONDO_TRY(read_header(limits));
        if (request.starts_with("HEAD ")) return Status::ok();  // its answer tells of a body and has none
        return read_body(limits.body_bytes_max);
    }
    /// No byte of an answer has come.
    bool is_unanswered() const { return !answered_; }
    bool keeps_connection() const { return parser_->keep_alive() && connection_.received.empty(); }
    HttpResponse& response() { return response_; }

private:
    Status read_header(const HttpClientLimits& limits);
    Status parse_header(const HttpClientLimits& limits);
    Status read_body(size_t bytes_max);
    bool take(std::string_view piece);

    Connection& connection_;
    const Patience& patience_;
    const OnPiece* on_piece_;
    bool answered_ = false;
    std::optional<HeaderParser> parser_;
    HttpResponse response_;
};

Status HttpClient::Exchange::read_header(const HttpClientLimits& limits) {
    for (int interim = 0;; ++interim) {
        RONDO_TRY(parse_header(limits));
        response_.status = static_cast<int>(parser_->get().result_int());
        if (response_.status >= 200 || response_.status == 101) break;
        if (interim == interim_answers_max)
            return make_error(ErrorCode::out_of_range, "the server sends interim answers without end");
    }
    for (const auto& field : parser_->get()) {
        std::string name(field.name_string());
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char byte) { return std::tolower(byte); });
        response_.headers.emplace_back(std::move(name), std::string(field.value()));
    }
    return Status::ok();
}

Status HttpClient::Exchange::parse_header(const HttpClientLimits& limits) {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(std::min<size_t>(limits.header_bytes_max, UINT32_MAX)));
    parser_->body_limit(limits.body_bytes_max);
    std::string& received = connection_.received;
    for (;;) {
        Code error;
        if (!received.empty()) {
            received.erase(0, parser_->put(boost::asio::buffer(received), error));
            if (error && error != http::error::need_more) return wrong_header(error);
            if (parser_->is_header_done()) return Status::ok();
        }
        RONDO_ASSIGN(const bool open, connection_.receive(patience_));
        if (!open) return cut_short();
        answered_ = true;
    }
}

Status HttpClient::Exchange::read_body(size_t bytes_max) {
    AnswerBody body(*parser_, bytes_max);
    std::string piece;
    while (body.state() == AnswerBody::State::more) {
        if (connection_.received.empty()) {
            RONDO_ASSIGN(const bool open, connection_.receive(patience_));
            if (!open) return body.ends_with_connection() ? Status::ok() : Status(cut_short());
        }
        piece.clear();
        connection_.received.erase(0, body.take(connection_.received, piece));
        if (!piece.empty() && !take(piece)) return make_error(ErrorCode::cancelled, "stopped by the caller");
    }
    if (body.state() == AnswerBody::State::malformed) {
        return make_error(ErrorCode::corrupt, "the answer is not HTTP/1.1 (bad chunk)");
    }
    if (body.state() == AnswerBody::State::too_large) return wrong_header(http::error::body_limit);
    return Status::ok();
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

HttpClient::HttpClient(Url url, HttpClientLimits limits, std::shared_ptr<const TlsTrust> trust)
    : url_(std::move(url)), limits_(limits), trust_(std::move(trust)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

Result<HttpResponse> HttpClient::request(const std::string& method, const std::string& target,
                                         const HttpHeaders& headers, const std::string& body, Deadline deadline) {
    return perform(method, target, headers, body, deadline, nullptr);
}

Result<HttpResponse> HttpClient::stream(const std::string& method, const std::string& target,
                                        const HttpHeaders& headers, const std::string& body, Deadline deadline,
                                        const OnPiece& on_piece) {
    return perform(method, target, headers, body, deadline, &on_piece);
}

Error HttpClient::at_server(const Error& error) const {
    return make_error(error.code, url_.origin() + ": " + error.message);
}

Result<std::unique_ptr<HttpClient::Connection>> HttpClient::connect(const Patience& patience) {
    if (url_.tls && trust_ == nullptr) {
        RONDO_ASSIGN(trust_, TlsTrust::load(""));
    }
    auto connection = std::make_unique<Connection>();
    RONDO_ASSIGN(connection->stream, connect_socket(url_.host, url_.port, patience));
    if (url_.tls) {
        RONDO_ASSIGN(connection->stream, open_tls(std::move(connection->stream), url_.host, *trust_, patience));
    }
    return connection;
}

/// The server may have closed a kept connection meanwhile, and only using it tells. Then, and only when not one byte of
/// an answer has come, the request goes out once more on a new connection.
Result<HttpResponse> HttpClient::perform(const std::string& method, const std::string& target,
                                         const HttpHeaders& headers, const std::string& body, Deadline deadline,
                                         const OnPiece* on_piece) {
    RONDO_ASSIGN(const std::string request, make_request(url_, method, target, headers, body));
    Patience patience{deadline};
    if (on_piece != nullptr) patience.goes_on = [on_piece] { return (*on_piece)({}); };
    try {
        for (;;) {
            std::unique_ptr<Connection> connection = std::move(connection_);
            const bool kept = connection != nullptr;
            if (!kept) {
                auto opened = connect(patience);
                if (!opened) return at_server(opened.error());
                connection = std::move(opened).value();
            }
            Exchange exchange(*connection, patience, on_piece);
            const Status status = exchange.run(request, limits_);
            if (status) {
                if (exchange.keeps_connection()) connection_ = std::move(connection);
                return std::move(exchange.response());
            }
            const ErrorCode code = status.error().code;
            const bool over = code == ErrorCode::timeout || code == ErrorCode::cancelled;
            if (!kept || !exchange.is_unanswered() || over) return at_server(status.error());
        }
    } catch (const std::exception& error) {
        return at_server(make_error(ErrorCode::internal, error.what()));
    }
}

}  // namespace rondo

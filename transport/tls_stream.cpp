#include "transport/tls_stream.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace rondo {

namespace {

constexpr size_t piece_bytes = size_t{16} << 10;
constexpr size_t write_bytes_max = size_t{64} << 10;  // of what is encrypted before it is sent

/// What OpenSSL says of this thread's last fault; its record of faults is then empty.
std::string last_fault() {
    const unsigned long code = ::ERR_get_error();
    ::ERR_clear_error();
    const char* const reason =
        ERR_SYSTEM_ERROR(code) ? std::strerror(ERR_GET_REASON(code)) : ::ERR_reason_error_string(code);
    return reason == nullptr ? "TLS failed" : reason;
}

bool is_address(const std::string& host) {
    in6_addr bytes{};
    return ::inet_pton(AF_INET, host.c_str(), &bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

/// OpenSSL reads and writes memory here; only `below` knows a socket, and how long to wait for it.
class TlsStream : public ByteStream {
public:
    TlsStream(std::unique_ptr<ByteStream> below, SSL* ssl)
        : below_(std::move(below)), ssl_(ssl), received_(::BIO_new(::BIO_s_mem())), to_send_(::BIO_new(::BIO_s_mem())) {
        ::BIO_set_mem_eof_return(received_, -1);  // "not now": only `below` knows of an end
        ::SSL_set_bio(ssl_, received_, to_send_);
    }
    ~TlsStream() override { ::SSL_free(ssl_); }  // and what was set
    TlsStream(const TlsStream&) = delete;
    TlsStream& operator=(const TlsStream&) = delete;

    Status shake_hands(const Patience& patience) {
        for (;;) {
            ::ERR_clear_error();
            const int done = ::SSL_connect(ssl_);
            const int why = ::SSL_get_error(ssl_, done);
            RONDO_TRY(send_waiting(patience));  // an alert too: it tells the server what was wrong
            if (done == 1) return Status::ok();
            if (why != SSL_ERROR_WANT_READ) return refused();
            RONDO_ASSIGN(const bool open, receive(patience));
            if (!open) return make_error(ErrorCode::io, "the connection was closed before TLS was agreed on");
        }
    }

    Result<size_t> read_some(std::span<char> into, const Patience& patience) override {
        for (;;) {
            ::ERR_clear_error();
            const int got = ::SSL_read(ssl_, into.data(), static_cast<int>(std::min<size_t>(into.size(), INT_MAX)));
            const int why = ::SSL_get_error(ssl_, got);
            RONDO_TRY(send_waiting(patience));  // such as the answer to a new key
            if (got > 0) return static_cast<size_t>(got);
            if (why == SSL_ERROR_ZERO_RETURN) return size_t{0};
            if (why != SSL_ERROR_WANT_READ) return make_error(ErrorCode::corrupt, last_fault());
            RONDO_ASSIGN(const bool open, receive(patience));
            // Anybody on the way can close a connection, so this is no end of an answer.
            if (!open) return make_error(ErrorCode::io, "the connection was cut off");
        }
    }

    Status write(std::string_view bytes, const Patience& patience) override {
        while (!bytes.empty()) {
            const size_t count = std::min(bytes.size(), write_bytes_max);
            ::ERR_clear_error();
            const int put = ::SSL_write(ssl_, bytes.data(), static_cast<int>(count));
            if (put <= 0) return make_error(ErrorCode::corrupt, last_fault());
            RONDO_TRY(send_waiting(patience));
            bytes.remove_prefix(static_cast<size_t>(put));
        }
        return Status::ok();
    }

private:
    Error refused() const {
        const long verdict = ::SSL_get_verify_result(ssl_);
        if (verdict == X509_V_OK) return make_error(ErrorCode::io, "TLS could not be agreed on: " + last_fault());
        ::ERR_clear_error();
        return make_error(ErrorCode::io, std::string("the server's certificate is not trusted (") +
                                             ::X509_verify_cert_error_string(verdict) + ")");
    }

    Status send_waiting(const Patience& patience) {
        char piece[piece_bytes];
        for (int got = 0; (got = ::BIO_read(to_send_, piece, sizeof piece)) > 0;) {
            RONDO_TRY(below_->write({piece, static_cast<size_t>(got)}, patience));
        }
        return Status::ok();
    }

    /// False at the connection's end.
    Result<bool> receive(const Patience& patience) {
        char piece[piece_bytes];
        RONDO_ASSIGN(const size_t got, below_->read_some(piece, patience));
        if (got == 0) return false;
        if (::BIO_write(received_, piece, static_cast<int>(got)) != static_cast<int>(got)) {
            return make_error(ErrorCode::out_of_memory, "no memory for what TLS received");
        }
        return true;
    }

    std::unique_ptr<ByteStream> below_;
    SSL* const ssl_;
    BIO *const received_, *const to_send_;  // ssl_ owns both
};

}  // namespace

Result<std::shared_ptr<const TlsTrust>> TlsTrust::load(const std::string& ca_file) {
    SSL_CTX* const context = ::SSL_CTX_new(::TLS_client_method());
    if (context == nullptr) return make_error(ErrorCode::internal, "TLS: " + last_fault());
    std::shared_ptr<const TlsTrust> trust(new TlsTrust(context));
    ::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    if (ca_file.empty()) {
        if (::SSL_CTX_set_default_verify_paths(context) == 1) return trust;
        return make_error(ErrorCode::io, "the system's certificates cannot be read: " + last_fault());
    }
    if (::SSL_CTX_load_verify_file(context, ca_file.c_str()) == 1) return trust;
    return make_error(ErrorCode::invalid_argument,
                      ca_file + ": no certificates can be read there (" + last_fault() + "); it must be a PEM file");
}

TlsTrust::~TlsTrust() {
    ::SSL_CTX_free(context_);
}

Result<std::unique_ptr<ByteStream>> open_tls(std::unique_ptr<ByteStream> below, const std::string& host,
                                             const TlsTrust& trust, const Patience& patience) {
    SSL* const ssl = ::SSL_new(trust.context());
    if (ssl == nullptr) return make_error(ErrorCode::internal, "TLS: " + last_fault());
    auto stream = std::make_unique<TlsStream>(std::move(below), ssl);
    bool set = true;
    if (is_address(host)) {
        set = ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl), host.c_str()) == 1;
    } else {
        ::SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        set = ::SSL_set1_host(ssl, host.c_str()) == 1 && ::SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
    }
    if (!set) return make_error(ErrorCode::internal, "TLS: " + last_fault());
    RONDO_TRY(stream->shake_hands(patience));
    return std::unique_ptr<ByteStream>(std::move(stream));
}

}  // namespace rondo

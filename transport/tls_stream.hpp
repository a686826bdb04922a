#pragma once

#include <memory>
#include <string>

#include "transport/byte_stream.hpp"

struct ssl_ctx_st;

namespace rondo {

/// Whose certificates a client believes. Immutable, so any number of connections and threads may share one.
class TlsTrust {
public:
    /// The file's certificates (PEM) alone; "" means those of the system, or of SSL_CERT_FILE and SSL_CERT_DIR.
    static Result<std::shared_ptr<const TlsTrust>> load(const std::string& ca_file);

    ~TlsTrust();
    TlsTrust(const TlsTrust&) = delete;
    TlsTrust& operator=(const TlsTrust&) = delete;

    ssl_ctx_st* context() const { return context_; }

private:
    explicit TlsTrust(ssl_ctx_st* context) : context_(context) {}
    ssl_ctx_st* const context_;
};

/// TLS 1.2 or newer over another stream. The server's certificate must be one that is trusted, in its time, and of this
/// very host (a name or an address): there is no way to go without.
Result<std::unique_ptr<ByteStream>> open_tls(std::unique_ptr<ByteStream> below, const std::string& host,
                                             const TlsTrust& trust, const Patience& patience);

}  // namespace rondo

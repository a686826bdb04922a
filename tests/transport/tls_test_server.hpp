#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/transport/scripted_server.hpp"

namespace rondo::testing {

template <auto release>
struct Releases {
    template <class T>
    void operator()(T* held) const {
        release(held);
    }
};
using Key = std::unique_ptr<EVP_PKEY, Releases<&EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Releases<&X509_free>>;
using TlsContext = std::unique_ptr<SSL_CTX, Releases<&SSL_CTX_free>>;

/// What a server's certificate says.
struct Named {
    std::string names = "IP:127.0.0.1,DNS:localhost";  ///< as OpenSSL writes alternative names
    long begins_s = -3600, ends_s = 3600;              ///< from now
};

/// An authority that nobody but its own tests trusts.
class TestAuthority {
public:
    TestAuthority() : key_(EVP_EC_gen("P-256")), certificate_(make("Rondo's tests", *key_, {"", -3600, 3600}, true)) {}

    /// Its certificate, as a file of this name below a folder of its own.
    std::string file() {
        char name[] = "/tmp/rondo_tls_XXXXXX";
        if (folder_.empty()) folder_ = ::mkdtemp(name);
        const std::string path = folder_ / "ca.pem";
        BIO* const out = BIO_new_file(path.c_str(), "w");
        PEM_write_bio_X509(out, certificate_.get());
        BIO_free(out);
        return path;
    }
    ~TestAuthority() {
        std::error_code ignored;
        if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
    }
    TestAuthority(const TestAuthority&) = delete;
    TestAuthority& operator=(const TestAuthority&) = delete;

    TlsContext context(const Named& named, int version_max = TLS1_3_VERSION) {
        const Key key(EVP_EC_gen("P-256"));
        const Certificate certificate = make("server", *key, named, false);
        TlsContext context(SSL_CTX_new(TLS_server_method()));
        SSL_CTX_set_min_proto_version(context.get(), 0);
        SSL_CTX_set_max_proto_version(context.get(), version_max);
        SSL_CTX_set_security_level(context.get(), 0);  // an old server would take what a new client must not offer
        if (SSL_CTX_use_certificate(context.get(), certificate.get()) != 1 ||
            SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1)
            throw std::runtime_error("no certificate");
        return context;
    }

private:
    Certificate make(const char* name, EVP_PKEY& key, const Named& named, bool is_authority) {
        Certificate made(X509_new());
        X509_set_version(made.get(), 2);
        ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial_);
        X509_gmtime_adj(X509_getm_notBefore(made.get()), named.begins_s);
        X509_gmtime_adj(X509_getm_notAfter(made.get()), named.ends_s);
        X509_set_pubkey(made.get(), &key);
        X509_NAME* const subject = X509_get_subject_name(made.get());
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1, -1,
                                   0);
        X509_set_issuer_name(made.get(), is_authority ? subject : X509_get_subject_name(certificate_.get()));
        add(*made, is_authority ? NID_basic_constraints : NID_subject_alt_name,
            is_authority ? "critical,CA:TRUE" : named.names.c_str());
        X509_sign(made.get(), key_.get(), EVP_sha256());
        return made;
    }

    static void add(X509& to, int kind, const char* value) {
        X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
        if (extension == nullptr) throw std::runtime_error(std::string("no extension ") + value);
        X509_add_ext(&to, extension, -1);
        X509_EXTENSION_free(extension);
    }

    std::filesystem::path folder_;
    long serial_ = 0;
    Key key_;
    Certificate certificate_;
};

class TlsChannel : public ScriptedChannel {
public:
    /// Null where the client breaks the handshake off.
    static std::unique_ptr<ScriptedChannel> open(int socket, SSL_CTX* context, bool says_goodbye) {
        auto channel = std::make_unique<TlsChannel>(socket, context, says_goodbye);
        if (SSL_accept(channel->ssl_) != 1) return nullptr;
        return channel;
    }
    TlsChannel(int socket, SSL_CTX* context, bool says_goodbye)
        : ScriptedChannel(socket), ssl_(SSL_new(context)), says_goodbye_(says_goodbye) {
        SSL_set_fd(ssl_, socket);
    }
    ~TlsChannel() override {
        if (says_goodbye_ && SSL_is_init_finished(ssl_)) SSL_shutdown(ssl_);
        SSL_free(ssl_);
    }
    ssize_t receive(char* into, size_t bytes) override { return SSL_read(ssl_, into, static_cast<int>(bytes)); }
    ssize_t send(const char* bytes, size_t count) override { return SSL_write(ssl_, bytes, static_cast<int>(count)); }

private:
    SSL* ssl_;
    bool says_goodbye_;
};

/// A ScriptedServer behind TLS. Without a goodbye its connections just end, as an attacker would end them.
class TlsTestServer {
public:
    TlsTestServer(TlsContext context, ScriptedServer::Handler handler, bool says_goodbye = true)
        : context_(std::move(context)), server_(std::move(handler), [this, says_goodbye](int socket) {
              ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
              return TlsChannel::open(socket, context_.get(), says_goodbye);
          }) {}

    uint16_t port() const { return server_.port(); }
    std::string url(const std::string& host = "127.0.0.1") const {
        return "https://" + host + ":" + std::to_string(server_.port());
    }

private:
    TlsContext context_;
    ScriptedServer server_;
};

}  // namespace rondo::testing

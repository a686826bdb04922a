#include "memory/store/store_keys.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace rondo {

namespace {

struct FreeContext {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
    void operator()(EVP_KDF* kdf) const { EVP_KDF_free(kdf); }
    void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }
};
template <class T>
using Owned = std::unique_ptr<T, FreeContext>;

const unsigned char* raw(const std::byte* bytes) {
    return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) {
    return reinterpret_cast<unsigned char*>(bytes);
}

Error cipher_failed() {
    return make_error(ErrorCode::internal, "AES-256-GCM of this OpenSSL fails");
}

using Nonce = std::array<unsigned char, 12>;

Nonce nonce_of(SealKey::Number number) {
    Nonce nonce;
    std::memcpy(nonce.data(), &number.high, sizeof(number.high));
    std::memcpy(nonce.data() + sizeof(number.high), &number.low, sizeof(number.low));
    return nonce;
}

/// Lengths of OpenSSL are ints.
constexpr size_t piece_max = size_t{1} << 30;

/// Encrypts or decrypts all bytes in place.
bool run(EVP_CIPHER_CTX* context, std::span<std::byte> bytes) {
    int moved = 0;
    while (!bytes.empty()) {
        const auto piece = bytes.first(std::min(bytes.size(), piece_max));
        if (EVP_CipherUpdate(context, raw(piece.data()), &moved, raw(piece.data()), static_cast<int>(piece.size())) !=
            1)
            return false;
        bytes = bytes.subspan(piece.size());
    }
    return true;
}

bool run(EVP_CIPHER_CTX* context, std::span<const std::byte> beside, const MemoryParts& bytes) {
    int moved = 0;
    if (beside.size() > piece_max) return false;
    if (!beside.empty() &&
        EVP_CipherUpdate(context, nullptr, &moved, raw(beside.data()), static_cast<int>(beside.size())) != 1)
        return false;
    return std::ranges::all_of(bytes, [context](std::span<std::byte> part) { return run(context, part); });
}

}  // namespace

SealKey::~SealKey() {
    OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

Result<SealKey::Proof> SealKey::seal(Number number, std::span<const std::byte> beside,
                                     std::span<std::byte> bytes) const {
    const Owned<EVP_CIPHER_CTX> context(EVP_CIPHER_CTX_new());
    const Nonce nonce = nonce_of(number);
    Proof proof;
    int moved = 0;
    unsigned char none = 0;
    if (context == nullptr ||
        EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, raw(bytes_.data()), nonce.data()) != 1 ||
        !run(context.get(), beside, {bytes}) || EVP_EncryptFinal_ex(context.get(), &none, &moved) != 1 ||
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(proof.size()), proof.data()) != 1)
        return cipher_failed();
    return proof;
}

Status SealKey::open(Number number, std::span<const std::byte> beside, const MemoryParts& bytes,
                     const Proof& proof) const {
    const Owned<EVP_CIPHER_CTX> context(EVP_CIPHER_CTX_new());
    const Nonce nonce = nonce_of(number);
    Proof expected = proof;
    int moved = 0;
    unsigned char none = 0;
    if (context == nullptr ||
        EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, raw(bytes_.data()), nonce.data()) != 1 ||
        !run(context.get(), beside, bytes) ||
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(expected.size()), expected.data()) !=
            1)
        return cipher_failed();
    if (EVP_DecryptFinal_ex(context.get(), &none, &moved) == 1) return Status::ok();
    return make_error(ErrorCode::corrupt, "stored bytes are not those that were sealed, or the key is another");
}

StoreKeys::~StoreKeys() {
    OPENSSL_cleanse(root_.data(), root_.size());
}

Result<SealKey::Bytes> StoreKeys::derive(std::string_view use, std::span<const std::byte> salt,
                                         std::string_view tenant) const {
    std::string info(use);
    info += '\0';
    info += tenant;
    SealKey::Bytes made{};
    const Owned<EVP_KDF> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
    const Owned<EVP_KDF_CTX> context(kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf.get()));
    char digest[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, const_cast<std::byte*>(root_.data()), root_.size()),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
        salt.empty()
            ? OSSL_PARAM_construct_end()
            : OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, const_cast<std::byte*>(salt.data()), salt.size()),
        OSSL_PARAM_construct_end()};
    if (context == nullptr || EVP_KDF_derive(context.get(), raw(made.data()), made.size(), parameters) != 1)
        return make_error(ErrorCode::internal, "HKDF of this OpenSSL fails");
    return made;
}

Result<SealKey> StoreKeys::key(std::string_view use, std::span<const std::byte> salt, std::string_view tenant) const {
    RONDO_ASSIGN(SealKey::Bytes made, derive(use, salt, tenant));
    SealKey key(made);
    OPENSSL_cleanse(made.data(), made.size());
    return key;
}

Result<StoreName> StoreKeys::name(std::string_view use, std::span<const std::byte> text) const {
    RONDO_ASSIGN(SealKey::Bytes own, derive("names of " + std::string(use), {}, ""));
    std::array<unsigned char, 32> digest{};
    unsigned int size = 0;
    const bool made = HMAC(EVP_sha256(), own.data(), static_cast<int>(own.size()), raw(text.data()), text.size(),
                           digest.data(), &size) != nullptr;
    OPENSSL_cleanse(own.data(), own.size());
    if (!made) return make_error(ErrorCode::internal, "HMAC of this OpenSSL fails");
    StoreName name;
    std::memcpy(name.data(), digest.data(), name.size());
    return name;
}

}  // namespace rondo

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "config/result.hpp"
#include "memory/store/record_header.hpp"

namespace rondo {

/// A key of AES-256-GCM, and what is done with it: bytes are sealed in place, and `proof` shows that they are what was
/// sealed, together with `beside`, which stays readable. No two of one key have the same `number`.
class SealKey {
public:
    using Bytes = std::array<std::byte, 32>;
    using Proof = std::array<std::byte, 16>;

    explicit SealKey(const Bytes& bytes) : bytes_(bytes) {}
    ~SealKey();
    SealKey(const SealKey&) = default;
    SealKey& operator=(const SealKey&) = default;

    struct Number {
        uint64_t high = 0;
        uint32_t low = 0;
    };
    Result<Proof> seal(Number number, std::span<const std::byte> beside, std::span<std::byte> bytes) const;
    /// corrupt, and the bytes are of no use, where they are not what was sealed.
    Status open(Number number, std::span<const std::byte> beside, const MemoryParts& bytes, const Proof& proof) const;

private:
    Bytes bytes_;
};

/// What secrets come from: 32 bytes that nobody else knows.
class StoreKeys {
public:
    explicit StoreKeys(const SealKey::Bytes& root) : root_(root) {}
    ~StoreKeys();
    StoreKeys(const StoreKeys&) = default;
    StoreKeys& operator=(const StoreKeys&) = default;

    /// HKDF-SHA-256: a key of its own for each tenant, use and salt.
    Result<SealKey> key(std::string_view use, std::span<const std::byte> salt, std::string_view tenant) const;
    /// HMAC-SHA-256, of which 16 bytes are kept: the same for the same text, and nothing of the text can be seen.
    Result<StoreName> name(std::string_view use, std::span<const std::byte> text) const;

private:
    Result<SealKey::Bytes> derive(std::string_view use, std::span<const std::byte> salt, std::string_view tenant) const;

    SealKey::Bytes root_;
};

}  // namespace rondo

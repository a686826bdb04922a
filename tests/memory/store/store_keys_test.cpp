#include "memory/store/store_keys.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace rondo {
namespace {

std::span<const std::byte> text_bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
}
std::vector<std::byte> some_bytes(size_t count) {
    std::vector<std::byte> bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(3 * i + i / 251);
    return bytes;
}
SealKey::Bytes rising_root(int first) {
    SealKey::Bytes root{};
    for (size_t i = 0; i < root.size(); ++i) root[i] = static_cast<std::byte>(first + static_cast<int>(i));
    return root;
}

TEST(StoreKeys, NamesAndKeysDifferByEverythingThatTheyAreMadeOf) {
    const StoreKeys one(rising_root(0)), other(rising_root(1));
    std::set<StoreName> names;
    for (const StoreKeys* keys : {&one, &other})
        for (const char* use : {"ids", "tenant"})
            for (const char* text : {"", "a", "b"}) names.insert(keys->name(use, text_bytes(text)).value());
    EXPECT_EQ(names.size(), 12U);
}

TEST(StoreKeys, SealedBytesComeBackUnderTheirKeyAlone) {
    const StoreKeys keys(rising_root(0));
    const auto salt = some_bytes(32);
    const SealKey key = keys.key("kv", salt, "tenant").value();
    for (const size_t size : {0UL, 1UL, 4096UL, 1'000'003UL}) {
        const std::vector<std::byte> plain = some_bytes(size);
        std::vector<std::byte> sealed = plain;
        const auto proof = key.seal({9, 3}, text_bytes("beside"), sealed).value();
        EXPECT_TRUE(size <= 16 || sealed != plain);
        const auto opened = [&](const SealKey& with, SealKey::Number number, std::string_view beside,
                                const SealKey::Proof& shown) {
            std::vector<std::byte> bytes = sealed;
            const std::span<std::byte> all(bytes);  // in parts, of which none need have the cipher's length
            const MemoryParts parts{all.first(size / 3), all.subspan(size / 3)};
            return with.open(number, text_bytes(beside), parts, shown) && bytes == plain;
        };
        EXPECT_TRUE(opened(key, {9, 3}, "beside", proof));
        EXPECT_FALSE(opened(key, {9, 4}, "beside", proof));
        EXPECT_FALSE(opened(key, {8, 3}, "beside", proof));
        EXPECT_FALSE(opened(key, {9, 3}, "besides", proof));
        SealKey::Proof wrong = proof;
        wrong[15] ^= std::byte{1};
        EXPECT_FALSE(opened(key, {9, 3}, "beside", wrong));
        EXPECT_FALSE(opened(keys.key("kv", salt, "another").value(), {9, 3}, "beside", proof));
        EXPECT_FALSE(opened(keys.key("text", salt, "tenant").value(), {9, 3}, "beside", proof));
        EXPECT_FALSE(opened(keys.key("kv", some_bytes(31), "tenant").value(), {9, 3}, "beside", proof));
        if (size == 0) continue;
        sealed[size / 2] ^= std::byte{1};
        EXPECT_FALSE(opened(key, {9, 3}, "beside", proof));
    }
}

}  // namespace
}  // namespace rondo

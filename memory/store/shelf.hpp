#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memory/store/manifest.hpp"
#include "memory/store/record_header.hpp"
#include "memory/store/store_keys.hpp"

namespace rondo {

/// Where conversations are kept beside KV, in the store's manifest: of each a small head, which is listed, a body, and
/// the names of the records that it refers to. What they say is the caller's. All are read as they were put there or
/// are `corrupt`, or `unsupported` where a newer version put them there; nothing but `remove` deletes them.
///
/// Used by one thread. The manifest and the keys outlive it.
class Shelf {
public:
    static constexpr size_t head_bytes_max = size_t{64} << 10;
    static constexpr size_t body_bytes_max = size_t{256} << 20;
    static constexpr size_t records_max = size_t{1} << 20;  ///< that a conversation refers to

    /// Without keys whoever reads the disk reads conversations.
    Shelf(Manifest& manifest, const std::optional<StoreKeys>& keys) : manifest_(&manifest), keys_(&keys) {}

    /// Of a tenant's conversation: the same for the same two texts. With keys nothing of them can be seen from it.
    StoreName name(std::string_view tenant, std::string_view id) const { return name(*keys_, tenant, id); }
    static StoreName name(const std::optional<StoreKeys>& keys, std::string_view tenant, std::string_view id);

    /// Durable when it returns, all of it or nothing; what was of that name is replaced. out_of_range where something
    /// is too large.
    Status put(const StoreName& name, const StoreName& tenant, std::span<const std::byte> head,
               std::span<const std::byte> body, std::span<const StoreName> records);
    /// Puts the same into changes that will be committed with others.
    Status put(Manifest::Changes& changes, const StoreName& name, const StoreName& tenant,
               std::span<const std::byte> head, std::span<const std::byte> body,
               std::span<const StoreName> records) const;
    /// Replaces the list of records that a conversation refers to. The conversation must be on the shelf.
    Status put_records(Manifest::Changes& changes, const StoreName& name, const StoreName& tenant,
                       std::span<const StoreName> records) const;
    /// The whole conversation, in one commit. Nothing happens where there is none.
    Status remove(const StoreName& name) { return remove({&name, 1}); }
    /// All of them in one commit.
    Status remove(std::span<const StoreName> names);

    // Each is not_found where there is no such conversation, and corrupt where the bytes are not those that were put
    // there, or were sealed by another key.
    Result<std::vector<std::byte>> head(const StoreName& name);
    Result<std::vector<std::byte>> body(const StoreName& name);
    Result<std::vector<StoreName>> records(const StoreName& name);

    /// All heads, in order of the names, until one is refused. No body is read. Those that cannot be read are left out.
    using EachHead = std::function<Status(const StoreName& name, std::span<const std::byte> head)>;
    Status each_head(const EachHead& each);

    /// Conversations whose head is lost, and the records that their lists name. A repair of the manifest leaves them
    /// behind. All bodies are read. A head that cannot be read is not lost: another version or key may read it.
    struct Headless {
        std::vector<StoreName> names, records;
        std::set<StoreName> newer;  ///< other conversations: a newer version wrote something of them
    };
    Result<Headless> headless();

    /// A record is marked as unlisted from when it is found until a conversation's list that names it is durable, or
    /// until it is known that no conversation owns it. A killed process leaves the marks: after a start nobody would
    /// know whose these records are.
    static void mark_unlisted(Manifest::Changes& changes, const StoreName& record);
    static void unmark(Manifest::Changes& changes, const StoreName& record);
    Result<std::vector<StoreName>> unlisted() const;

    /// How often something corrupt was read.
    int64_t damaged() const { return damaged_; }
    /// Whether a value of the manifest's was sealed by some key.
    static bool is_sealed(std::string_view value);
    /// Whether a newer version put it there.
    static bool is_newer(std::string_view value);

private:
    Result<std::string> write(char letter, const StoreName& name, const StoreName& tenant,
                              std::span<const std::byte> bytes) const;
    Result<std::vector<std::byte>> get(char letter, const StoreName& name);
    Result<std::vector<std::byte>> read(char letter, const StoreName& name, std::string_view value);
    Result<std::vector<std::byte>> open(char letter, const StoreName& name, std::string_view value) const;

    Manifest* manifest_;
    const std::optional<StoreKeys>* keys_;
    int64_t damaged_ = 0;
};

}  // namespace rondo

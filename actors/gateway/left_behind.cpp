#include "actors/gateway/left_behind.hpp"

#include <optional>

namespace rondo {

namespace {

constexpr size_t lines_max = 8;

/// `whose` has that; `keys` are the lines that would give it back.
std::string line(const std::string& whose, int64_t conversations, uint64_t bytes, const std::string& keys) {
    return "the store has what no API key leads to, of " + whose + " (conversations: " + std::to_string(conversations) +
           ", bytes: " + std::to_string(bytes) + "); it stays until it leaves by age or DELETE; " + keys +
           " in server.api_keys_file gives it back";
}

}  // namespace

std::vector<std::string> left_behind(const std::vector<StoreOwner>& owners) {
    std::vector<std::string> lines;
    StoreOwner others;
    size_t more = 0, nameless = 0;
    for (const StoreOwner& owner : owners) {
        const bool has_name = owner.tenant && ApiKeys::may_be_tenant(*owner.tenant);
        if (has_name && lines.size() < lines_max) {
            lines.push_back(
                line("tenant " + *owner.tenant, owner.conversations, owner.bytes, "a line KEY " + *owner.tenant));
            continue;
        }
        ++more;
        nameless += has_name ? 0 : 1;
        others.conversations += owner.conversations;
        others.bytes += owner.bytes;
    }
    if (more > 0)
        lines.push_back(
            line("further tenants: " + std::to_string(more) + ", without a known name: " + std::to_string(nameless),
                 others.conversations, others.bytes, "a line KEY TENANT for each"));
    return lines;
}

std::vector<std::string> left_behind(const StoreOwners& owners, const ApiKeys& keys) {
    return left_behind(owners.others_than(keys.tenants()));
}

}  // namespace rondo

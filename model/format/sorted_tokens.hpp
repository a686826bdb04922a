#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

/// A vocabulary in the order of its tokens' bytes, so that beginnings that they share are looked at once. Tokens
/// without bytes are left out.
class SortedTokens {
public:
    using BytesOf = std::function<std::string(int32_t)>;

    SortedTokens(int64_t vocabulary, const BytesOf& bytes_of);

    size_t size() const { return ids_.size(); }
    int32_t id(size_t at) const { return ids_[at]; }
    std::string_view bytes(size_t at) const {
        const size_t begin = at == 0 ? 0 : ends_[at - 1];
        return std::string_view(bytes_).substr(begin, ends_[at] - begin);
    }
    /// So many bytes are those of the token before it.
    size_t shared(size_t at) const { return shared_[at]; }

private:
    std::vector<int32_t> ids_;
    std::string bytes_;
    std::vector<size_t> ends_;  // in bytes_
    std::vector<uint32_t> shared_;
};

/// Sorts a vocabulary when it is first asked for; other threads that ask wait.
class TokensByBytes {
public:
    const SortedTokens& get(int64_t vocabulary, const SortedTokens::BytesOf& bytes_of) {
        std::call_once(once_, [&] { sorted_ = std::make_unique<SortedTokens>(vocabulary, bytes_of); });
        return *sorted_;
    }

private:
    std::once_flag once_;
    std::unique_ptr<SortedTokens> sorted_;
};

}  // namespace rondo

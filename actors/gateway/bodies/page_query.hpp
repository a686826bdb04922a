#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "actors/gateway/bodies/api_error.hpp"

namespace rondo {

/// Which part of a list is wanted, as OpenAI's lists have it.
struct PageRequest {
    std::string after;   ///< the id before it; "": from the beginning
    int64_t limit = 20;  ///< 1 to 100
};

/// Of a target's query, as sent: limit=N&after=ID.
ApiResult<PageRequest> parse_page_query(std::string_view query);

}  // namespace rondo

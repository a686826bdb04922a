#pragma once

#include <string>
#include <string_view>

#include "actors/gateway/bodies/api_error.hpp"

namespace rondo {

/// A server-sent event. `json` is one line, as JSON text without indentation is.
inline std::string stream_event(std::string_view json) {
    return "data: " + std::string(json) + "\n\n";
}

/// What ends a stream whose answers are whole.
inline std::string stream_done() {
    return stream_event("[DONE]");
}

/// What ends a stream otherwise, its status 200 being sent already.
inline std::string stream_error(const ApiError& error) {
    return stream_event(error.body());
}

}  // namespace rondo

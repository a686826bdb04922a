#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "config/result.hpp"

namespace rondo {

/// One server-sent event.
struct SseEvent {
    std::string name;  ///< "" when the server gave none
    std::string data;  ///< its data lines, joined by line feeds
};

/// Reads a stream of server-sent events that arrives in pieces cut anywhere. Comments, ids and retry times are passed
/// over; an event that the stream ends within never was one.
class SseReader {
public:
    explicit SseReader(size_t event_bytes_max = size_t{1} << 20) : event_bytes_max_(event_bytes_max) {}

    /// Calls `on_event` with each event that these bytes complete. An event over the limit is an error, after which the
    /// reader is of no more use.
    Status read(std::string_view bytes, const std::function<void(const SseEvent&)>& on_event);

private:
    void end_line(const std::function<void(const SseEvent&)>& on_event);

    size_t event_bytes_max_;
    std::string line_;
    SseEvent event_;
    bool has_data_ = false;
    bool after_return_ = false;  ///< the last byte was CR: an LF now belongs to it
    bool at_start_ = true;       ///< a byte order mark may stand before the first line
};

}  // namespace rondo

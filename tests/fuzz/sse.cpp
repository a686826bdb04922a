#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "transport/sse_reader.hpp"

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

struct Event {
    std::string name, data;
    bool operator==(const Event&) const = default;
};

struct Outcome {
    std::vector<Event> events;
    bool failed = false;
};

Outcome read(std::string_view bytes, size_t event_bytes_max, uint32_t seed) {
    rondo::SseReader reader(event_bytes_max);
    Outcome out;
    while (!bytes.empty() && !out.failed) {
        seed = seed * 1664525 + 1013904223;
        const std::string_view piece = bytes.substr(0, 1 + (seed >> 24) % 29);
        bytes.remove_prefix(piece.size());
        out.failed = !reader.read(piece, [&](const rondo::SseEvent& event) {
            require(event.data.size() + event.name.size() <= event_bytes_max);
            out.events.push_back({event.name, event.data});
        });
    }
    return out;
}

/// The whole stream at once, as the specification of event streams says it (WHATWG HTML, 9.2.6).
std::vector<Event> events_of(std::string_view stream) {
    if (stream.starts_with("\xEF\xBB\xBF")) stream.remove_prefix(3);
    std::vector<Event> events;
    Event event;
    bool has_data = false;
    while (!stream.empty()) {
        const size_t end = stream.find_first_of("\r\n");
        if (end == std::string_view::npos) break;  // a line that never ended
        const std::string_view line = stream.substr(0, end);
        stream.remove_prefix(end + (stream.substr(end, 2) == "\r\n" ? 2 : 1));
        if (line.empty()) {
            if (has_data) events.push_back(event);
            event = {};
            has_data = false;
            continue;
        }
        const std::string_view field = line.substr(0, line.find(':'));
        std::string_view value = field.size() < line.size() ? line.substr(field.size() + 1) : std::string_view();
        if (value.starts_with(' ')) value.remove_prefix(1);
        if (field == "event") event.name = value;
        if (field != "data") continue;
        event.data += (has_data ? "\n" : "") + std::string(value);
        has_data = true;
    }
    return events;
}

}  // namespace

/// The input is two bytes that say where to cut and how long an event may be, then a stream of server-sent events. The
/// events are those of the specification, however the stream is cut. An event that is too long ends the reading with an
/// error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const std::string_view stream(reinterpret_cast<const char*>(data) + 2, size - 2);
    const std::vector<Event> wanted = events_of(stream);
    const Outcome all = read(stream, size_t{1} << 20, data[0]);
    require(!all.failed && all.events == wanted);
    const size_t event_bytes_max = 8 + data[1];
    const Outcome bounded = read(stream, event_bytes_max, data[0]);
    const Outcome otherwise = read(stream, event_bytes_max, ~uint32_t{data[0]});
    require(bounded.failed == otherwise.failed && bounded.events == otherwise.events);
    require(bounded.events.size() <= wanted.size());
    require(std::equal(bounded.events.begin(), bounded.events.end(), wanted.begin()));
    if (!bounded.failed) require(bounded.events.size() == wanted.size());
    return 0;
}

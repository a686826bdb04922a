#include "transport/sse_reader.hpp"

#include <algorithm>

namespace rondo {

Status SseReader::read(std::string_view bytes, const std::function<void(const SseEvent&)>& on_event) {
    while (!bytes.empty()) {
        if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
        after_return_ = false;
        const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
        if (line_.size() + event_.data.size() + event_.name.size() + end > event_bytes_max_) {
            return make_error(ErrorCode::out_of_range,
                              "a server-sent event has more than " + std::to_string(event_bytes_max_) +
                                  " bytes, must be at most " + std::to_string(event_bytes_max_));
        }
        line_ += bytes.substr(0, end);
        if (end == bytes.size()) break;
        after_return_ = bytes[end] == '\r';
        bytes.remove_prefix(end + 1);
        end_line(on_event);
    }
    return Status::ok();
}

void SseReader::end_line(const std::function<void(const SseEvent&)>& on_event) {
    std::string_view line = line_;
    if (at_start_ && line.substr(0, 3) == "\xef\xbb\xbf") line.remove_prefix(3);
    at_start_ = false;
    if (line.empty()) {
        if (has_data_) on_event(event_);
        event_ = {};
        has_data_ = false;
    } else {
        const size_t colon = std::min(line.find(':'), line.size());
        const std::string_view field = line.substr(0, colon);
        std::string_view value = line.substr(std::min(colon + 1, line.size()));
        if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
        if (field == "data") {
            if (has_data_) event_.data += '\n';
            event_.data += value;
            has_data_ = true;
        } else if (field == "event") {
            event_.name = value;
        }
    }
    line_.clear();
}

}  // namespace rondo

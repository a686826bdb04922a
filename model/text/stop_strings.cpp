#include "model/text/stop_strings.hpp"

#include <algorithm>
#include <utility>

#include "config/limits.hpp"

namespace rondo {

Status StopStrings::check(std::span<const std::string> stops) {
    if (stops.size() > limits::stop_strings_max)
        return make_error(ErrorCode::out_of_range, "stop: " + std::to_string(stops.size()) + " strings, must be 0 to " +
                                                       std::to_string(limits::stop_strings_max));
    for (size_t i = 0; i < stops.size(); ++i)
        if (stops[i].empty() || stops[i].size() > limits::stop_string_bytes_max)
            return make_error(ErrorCode::out_of_range, "stop[" + std::to_string(i) + "]: is " +
                                                           std::to_string(stops[i].size()) + " bytes, must be 1 to " +
                                                           std::to_string(limits::stop_string_bytes_max));
    return {};
}

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
    // An empty one would stop every answer before its first character.
    std::erase(stops_, std::string());
}

std::string StopStrings::push(std::string_view text, bool& stopped, bool armed) {
    if (stopped_) {
        stopped = true;
        return {};
    }
    const size_t before = held_.size();
    held_ += text;
    // Of each stop the first occurrence that ends in `text`: what was held may contain one that was not to stop.
    size_t begin = held_.size(), end = std::string::npos;
    for (const std::string& stop : stops_) {
        const size_t from = before < stop.size() ? 0 : before - stop.size() + 1;
        const size_t at = armed ? held_.find(stop, from) : std::string::npos;
        if (at == std::string::npos) continue;
        if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
            begin = at;
            end = at + stop.size();
        }
    }
    stopped = stopped_ = end != std::string::npos;
    const size_t safe = stopped_ ? begin : held_.size() - held_back();
    std::string out = held_.substr(0, safe);
    held_.erase(0, stopped_ ? held_.size() : safe);
    return out;
}

/// Length of the longest end of `held_` that begins a stop string.
size_t StopStrings::held_back() const {
    size_t longest = 0;
    for (const std::string& stop : stops_) {
        for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
            if (held_.ends_with(std::string_view(stop).substr(0, length))) longest = length;
        }
    }
    return longest;
}

std::string StopStrings::finish() {
    return std::exchange(held_, {});
}

}  // namespace rondo

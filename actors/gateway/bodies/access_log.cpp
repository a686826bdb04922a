#include "actors/gateway/bodies/access_log.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "actors/gateway/bodies/json_text.hpp"

namespace rondo {

namespace {

/// As ISO 8601 has it, in UTC, to the millisecond.
std::string written(std::chrono::system_clock::time_point time) {
    const auto second = std::chrono::floor<std::chrono::seconds>(time);
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(time - second).count();
    const std::time_t clock = std::chrono::system_clock::to_time_t(second);
    std::tm parts{};
    gmtime_r(&clock, &parts);
    std::array<char, 32> day{};
    const size_t length = std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    std::array<char, 8> fraction{};
    std::snprintf(fraction.data(), fraction.size(), ".%03dZ", static_cast<int>(rest));
    return std::string(day.data(), length) + fraction.data();
}

std::string cut(const std::string& text) {
    constexpr size_t bytes_max = 512;
    return text.substr(0, bytes_max);
}

}  // namespace

std::string access_log_line(const AccessRecord& record) {
    OrderedJson line{{"time", written(record.time)},
                     {"peer", cut(record.peer)},
                     {"method", cut(record.method)},
                     {"path", cut(record.path)},
                     {"status", record.status},
                     {"outcome", record.outcome},
                     {"ms", std::round(record.seconds * 1e6) / 1e3},
                     {"bytes", record.bytes},
                     {"tenant", cut(record.tenant)},
                     {"request_id", cut(record.request_id)},
                     {"prompt_tokens", record.prompt_tokens},
                     {"completion_tokens", record.completion_tokens}};
    if (!record.error.empty()) line["error"] = cut(record.error);
    return line.dump(-1, ' ', true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace rondo

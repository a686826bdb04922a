#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rondo {

/// What the access log keeps of a request: neither its query, nor a key, nor a word of a prompt or an answer.
struct AccessRecord {
    std::chrono::system_clock::time_point time;  ///< of arrival
    std::string peer;
    std::string method;
    std::string path;
    int status = 0;
    std::string outcome;   ///< "ok", "refused", "failed" or "aborted" (the client left), whatever the status was
    double seconds = 0.0;  ///< until the answer's last byte
    uint64_t bytes = 0;    ///< of the answer
    std::string tenant;    ///< "": the client gave no valid key
    std::string request_id;
    int64_t prompt_tokens = 0;
    int64_t completion_tokens = 0;
    std::string error;  ///< what went wrong inside, where the client was told less; "": nothing
};

/// One line of JSON in printable ASCII, with a line feed at its end. So nothing that a client put into a field can
/// begin a line, or reach a terminal as a control sequence. Long fields are cut.
std::string access_log_line(const AccessRecord& record);

}  // namespace rondo

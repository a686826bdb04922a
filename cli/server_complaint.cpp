#include "cli/server_complaint.hpp"

namespace rondo::cli {

namespace {

using nlohmann::json;

constexpr size_t message_bytes_max = 300;

std::string text_at(const json& from, const char* name) {
    const auto found = from.is_object() ? from.find(name) : from.end();
    return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The text as one line: each run of blanks and ends of lines becomes one blank, and a long text is cut.
std::string one_line(const std::string& text) {
    std::string line;
    for (const char byte : text) {
        const bool blank = byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
        if (blank && (line.empty() || line.back() == ' ')) continue;
        line += blank ? ' ' : byte;
        if (line.size() > message_bytes_max) break;
    }
    if (line.size() <= message_bytes_max) return line;
    line.resize(message_bytes_max);
    while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xc0U) == 0x80) line.pop_back();
    if (!line.empty() && static_cast<unsigned char>(line.back()) >= 0x80) line.pop_back();  // a character cut in two
    return line + "…";
}

}  // namespace

std::string error_message(const json& error) {
    return error.is_string() ? error.get<std::string>() : text_at(error, "message");
}

std::string complaint(const HttpResponse& response) {
    const std::string status = "HTTP " + std::to_string(response.status);
    if (response.status >= 300 && response.status < 400 && !response.header("location").empty()) {
        return status + ": it redirects to " + one_line(std::string(response.header("location"))) +
               ", which is not followed; the URL must name the server itself";
    }
    const json body = json::parse(response.body, nullptr, false);
    std::string text = error_message(body.is_object() && body.contains("error") ? body["error"] : json());
    for (const char* name : {"message", "detail"})
        if (text.empty()) text = text_at(body, name);
    text = one_line(text.empty() ? response.body : text);
    return text.empty() ? status : status + ": " + text;
}

}  // namespace rondo::cli

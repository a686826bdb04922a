#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "transport/http_server_request.hpp"

namespace {

using State = rondo::HttpRequestReader::State;

constexpr rondo::HttpLimits limits{.header_bytes_max = 4096, .body_bytes_max = 1024};

void require(bool holds) {
    if (!holds) std::abort();
}

struct Outcome {
    State state = State::header;
    rondo::HttpRefusal refusal;
    rondo::HttpRequest request;
    size_t used = 0;
};

/// Reads bytes as a connection hands them over: unused bytes come again, with what follows. `seed` says where to cut.
Outcome read(std::string_view bytes, uint32_t seed) {
    rondo::HttpRequestReader reader(limits);
    Outcome out;
    std::string waiting;
    while (!bytes.empty() && (reader.state() == State::header || reader.state() == State::body)) {
        seed = seed * 1664525 + 1013904223;
        const size_t count = seed == 0 ? bytes.size() : 1 + (seed >> 24) % 37;
        waiting += bytes.substr(0, count);
        bytes.remove_prefix(std::min(count, bytes.size()));
        const size_t used = reader.take(waiting);
        require(used <= waiting.size());
        waiting.erase(0, used);
        out.used += used;
    }
    out.state = reader.state();
    out.refusal = reader.refusal();
    if (out.state == State::done) out.request = reader.release();
    return out;
}

bool is_token(std::string_view text) {
    constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
    for (const char c : text) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && marks.find(c) == std::string_view::npos) return false;
    }
    return !text.empty();
}

/// What every handler of the gateway builds on.
void check_request(const rondo::HttpRequest& request) {
    require(is_token(request.method));
    require(request.path == "*" || request.path.starts_with('/'));
    require(request.body.size() <= limits.body_bytes_max);
    for (const char c : request.path + request.query) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    size_t header_bytes = 0;
    int hosts = 0, lengths = 0, codings = 0;
    for (const auto& [name, value] : request.headers) {
        require(is_token(name));
        for (const char c : name) require(c < 'A' || c > 'Z');
        for (const char c : value) require(c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
        header_bytes += name.size() + value.size();
        hosts += name == "host";
        lengths += name == "content-length";
        codings += name == "transfer-encoding";
    }
    require(header_bytes <= limits.header_bytes_max);
    require(hosts <= 1 && lengths <= 1 && codings <= 1 && lengths + codings <= 1);
    if (lengths == 1)
        require(request.body.size() == std::strtoull(request.header("content-length").data(), nullptr, 10));
    if (lengths + codings == 0) require(request.body.empty());
}

void check_refusal(const rondo::HttpRefusal& refusal) {
    const int status = refusal.status;
    require(status == 400 || status == 413 || status == 417 || status == 431);
    require(!refusal.message.empty() && refusal.message.find_first_of("\r\n") == std::string::npos);
    require(refusal.message.size() < 200);
}

}  // namespace

/// The input is four bytes that say where to cut, then any bytes that a client may send. They give a request or a
/// refusal, the same however they are cut. Nothing behind a request is used.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 4) return 0;
    const uint32_t seed = data[0] | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 | uint32_t{data[3]} << 24;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 4, size - 4);
    const Outcome pieces = read(bytes, seed);
    rondo::HttpRequestReader reader(limits);
    const size_t used = reader.take(bytes);
    require(reader.state() == pieces.state);
    if (pieces.state == State::refused) {
        check_refusal(pieces.refusal);
        require(reader.refusal().status == pieces.refusal.status && reader.refusal().message == pieces.refusal.message);
    }
    if (pieces.state != State::done) return 0;
    require(used == pieces.used);
    check_request(pieces.request);
    const rondo::HttpRequest whole = reader.release();
    require(whole.method == pieces.request.method && whole.path == pieces.request.path);
    require(whole.query == pieces.request.query && whole.body == pieces.request.body);
    require(whole.headers == pieces.request.headers);
    // A request that ends where another begins: the same bytes alone give the same request.
    rondo::HttpRequestReader alone(limits);
    require(alone.take(bytes.substr(0, used)) == used && alone.state() == State::done);
    return 0;
}

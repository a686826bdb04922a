#include "transport/http_chunks.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using State = rondo::HttpChunks::State;

constexpr size_t body_bytes_max = 512;

void require(bool holds) {
    if (!holds) std::abort();
}

/// Where a run of bytes is cut: lengths of 1 to 61.
class Cuts {
public:
    explicit Cuts(uint8_t seed) : state_(seed) {}
    size_t next() {
        state_ = state_ * 1664525 + 1013904223;
        return 1 + (state_ >> 24) % 61;
    }

private:
    uint32_t state_;
};

struct Outcome {
    State state = State::more;
    std::string body;
    size_t used = 0;
};

Outcome read(std::string_view bytes, Cuts cuts) {
    rondo::HttpChunks chunks(body_bytes_max);
    Outcome out;
    while (out.used < bytes.size() && chunks.state() == State::more) {
        const std::string_view piece = bytes.substr(out.used, cuts.next());
        const size_t used = chunks.take(piece, out.body);
        require(used <= piece.size() && (used == piece.size() || chunks.state() != State::more));
        out.used += used;
    }
    out.state = chunks.state();
    return out;
}

/// The body a done reading must have given: the chunks' bytes, found by searching instead of stepping.
std::string body_of(std::string_view bytes) {
    std::string body;
    for (;;) {
        const size_t size = std::strtoull(std::string(bytes.substr(0, bytes.find('\r'))).c_str(), nullptr, 16);
        bytes.remove_prefix(bytes.find("\r\n") + 2);
        if (size == 0) return body;
        body += bytes.substr(0, size);
        bytes.remove_prefix(size + 2);
    }
}

/// `bytes` as a body in chunks must come out as they went in.
void check_round_trip(std::string_view bytes, uint8_t seed) {
    std::string sent;
    Cuts sizes(seed);
    for (std::string_view left = bytes; !left.empty();) {
        const size_t size = std::min(sizes.next(), left.size());
        char line[32];
        std::snprintf(line, sizeof(line), seed % 2 == 0 ? "%zx\r\n" : "%04zX;a=\"b\"\r\n", size);
        sent += line;
        sent += left.substr(0, size);
        sent += "\r\n";
        left.remove_prefix(size);
    }
    sent += "0\r\nTrailer: t\r\n\r\n";
    const Outcome read_back = read(sent + "GET", Cuts(static_cast<uint8_t>(~seed)));
    if (bytes.size() > body_bytes_max) {
        require(read_back.state == State::too_large);
    } else {
        require(read_back.state == State::done && read_back.body == bytes && read_back.used == sent.size());
    }
}

}  // namespace

/// A byte that says where the rest is cut; the rest as a chunked body, and as the body that chunks were made of.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    rondo::HttpChunks chunks(body_bytes_max);
    std::string body;
    const size_t used = chunks.take(bytes, body);
    require(body.size() <= body_bytes_max && used <= bytes.size());
    const Outcome pieces = read(bytes, Cuts(data[0]));
    require(pieces.state == chunks.state() && pieces.body == body && pieces.used == used);
    if (chunks.state() == State::more) require(used == bytes.size());
    if (chunks.state() == State::done) {
        require(bytes.substr(0, used).ends_with("\r\n\r\n") || bytes.substr(0, used).ends_with("0\r\n\r\n"));
        require(body == body_of(bytes));
    }
    check_round_trip(bytes, data[0]);
    return 0;
}

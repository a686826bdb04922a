#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo {

/// Takes a chunked body apart as it comes (RFC 9112, section 7.1), keeping nothing but its place in it. Extensions and
/// trailers are read over. Strict where leniency lets two readers of one stream disagree: lines end with CR LF, a size
/// is hexadecimal digits and nothing else. One body, one thread.
class HttpChunks {
public:
    enum class State { more, done, malformed, too_large };

    explicit HttpChunks(size_t body_bytes_max) : body_bytes_left_(body_bytes_max) {}

    /// Appends to `body` and returns how many of `bytes` were used: all, unless the body ended or was refused.
    size_t take(std::string_view bytes, std::string& body);
    State state() const { return state_; }

private:
    enum class Place { size, extension, size_lf, data, data_cr, data_lf, line_start, line, line_lf, end_lf };

    void step(char c);
    void step_size(char c);
    void start_chunk();
    void expect(char wanted, char c, Place next);

    State state_ = State::more;
    Place place_ = Place::size;
    size_t body_bytes_left_;
    size_t chunk_bytes_left_ = 0;
    size_t line_bytes_ = 0;  ///< of the size line, or of all trailers
    bool size_begun_ = false;
};

}  // namespace rondo

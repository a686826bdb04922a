#include "transport/http_chunks.hpp"

#include <algorithm>

#include "config/hex_value.hpp"

namespace rondo {

namespace {

constexpr size_t line_bytes_max = 4096;

bool is_control(char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

}  // namespace

size_t HttpChunks::take(std::string_view bytes, std::string& body) {
    size_t used = 0;
    while (used < bytes.size() && state_ == State::more) {
        if (place_ != Place::data) {
            step(bytes[used++]);
            continue;
        }
        const size_t count = std::min(chunk_bytes_left_, bytes.size() - used);
        body.append(bytes, used, count);
        used += count;
        chunk_bytes_left_ -= count;
        if (chunk_bytes_left_ == 0) place_ = Place::data_cr;
    }
    return used;
}

void HttpChunks::step(char c) {
    if (++line_bytes_ > line_bytes_max) {
        state_ = State::malformed;
        return;
    }
    switch (place_) {
        case Place::size:
            step_size(c);
            break;
        case Place::extension:
            if (c == '\r')
                place_ = Place::size_lf;
            else if (is_control(c))
                state_ = State::malformed;
            break;
        case Place::size_lf:
            expect('\n', c, Place::data);
            if (state_ == State::more) start_chunk();
            break;
        case Place::data:
            break;
        case Place::data_cr:
            expect('\r', c, Place::data_lf);
            break;
        case Place::data_lf:
            expect('\n', c, Place::size);
            line_bytes_ = 0;
            break;
        case Place::line_start:
        case Place::line:
            if (c == '\r')
                place_ = place_ == Place::line_start ? Place::end_lf : Place::line_lf;
            else if (is_control(c))
                state_ = State::malformed;
            else
                place_ = Place::line;
            break;
        case Place::line_lf:
            expect('\n', c, Place::line_start);
            break;
        case Place::end_lf:
            expect('\n', c, Place::end_lf);
            if (state_ == State::more) state_ = State::done;
            break;
    }
}

void HttpChunks::step_size(char c) {
    const int digit = hex_value(c);
    if (digit >= 0) {
        size_begun_ = true;
        const bool fits = chunk_bytes_left_ <= body_bytes_left_ / 16;
        if (fits) chunk_bytes_left_ = chunk_bytes_left_ * 16 + static_cast<size_t>(digit);
        if (!fits || chunk_bytes_left_ > body_bytes_left_) state_ = State::too_large;
    } else if (size_begun_ && c == ';') {
        place_ = Place::extension;
    } else if (size_begun_) {
        expect('\r', c, Place::size_lf);
    } else {
        state_ = State::malformed;
    }
}

void HttpChunks::start_chunk() {
    if (chunk_bytes_left_ == 0) place_ = Place::line_start;  // the last chunk: trailers follow
    body_bytes_left_ -= chunk_bytes_left_;
    size_begun_ = false;
    line_bytes_ = 0;
}

void HttpChunks::expect(char wanted, char c, Place next) {
    if (c == wanted)
        place_ = next;
    else
        state_ = State::malformed;
}

}  // namespace rondo

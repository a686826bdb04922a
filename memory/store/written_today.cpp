#include "memory/store/written_today.hpp"

#include <span>

#include "memory/store/byte_io.hpp"

namespace rondo {

WrittenToday::WrittenToday(std::string_view value) {
    RecordReader in(std::as_bytes(std::span(value)));
    day_ = in.take<int64_t>();
    bytes_ = in.take<uint64_t>();
}

std::string WrittenToday::value() const {
    RecordWriter out;
    out.put(day_);
    out.put(bytes_);
    return {reinterpret_cast<const char*>(out.bytes().data()), out.size()};
}

/// A clock that goes back over midnight begins no day anew. One that was further ahead is right again.
bool WrittenToday::is_same_day(int64_t now) const {
    const int64_t today = now / seconds_a_day;
    return today == day_ || today + 1 == day_;
}

void WrittenToday::add(uint64_t bytes, int64_t now) {
    bytes_ = this->bytes(now) + bytes;
    day_ = now / seconds_a_day;
}

}  // namespace rondo

#include "actors/field_io.hpp"

#include "memory/store/record_header.hpp"

namespace rondo {

Error damaged(const StoredKind& kind, const std::string& what) {
    return make_error(ErrorCode::corrupt, kind.name + (" " + what));
}

std::vector<std::byte> FieldWriter::take() {
    out_.put(checksum_of(out_.bytes()));
    return out_.take();
}

Result<FieldReader> FieldReader::open(const StoredKind& kind, std::span<const std::byte> bytes) {
    RecordReader in(bytes);
    const auto version = in.take<uint32_t>();
    if (!in.is_whole()) return damaged(kind, "is cut off");
    if (version != stored_version)
        return make_error(ErrorCode::unsupported, std::string(kind.name) + " is of version " + std::to_string(version) +
                                                      ", must be " + std::to_string(stored_version));
    const auto number = in.take<uint8_t>();
    if (in.left() < sizeof(uint64_t)) return damaged(kind, "is cut off");
    const std::span<const std::byte> fields = in.take(in.left() - sizeof(uint64_t));
    if (in.take<uint64_t>() != checksum_of(bytes.first(bytes.size() - sizeof(uint64_t))))
        return damaged(kind, "does not have its checksum");
    if (number != kind.number) return damaged(kind, "is something else");
    return FieldReader(kind, fields);
}

Status FieldReader::check_end() const {
    if (!is_whole()) return damaged(kind_, "is cut off");
    if (in_.left() > 0) return damaged(kind_, "has bytes behind its end");
    return possible_ ? Status::ok() : damaged(kind_, "has an impossible number");
}

}  // namespace rondo

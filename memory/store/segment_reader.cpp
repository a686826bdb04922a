#include "memory/store/segment_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>
#include <vector>

#include "config/checked.hpp"
#include "memory/store/record_seal.hpp"

namespace rondo {

namespace {

Error failed(const char* what) {
    return disk_error(errno, (std::string("a segment: cannot ") + what).c_str());
}

}  // namespace

Result<SegmentReader> SegmentReader::open(const StoreFolder& folder, uint64_t segment) {
    RONDO_ASSIGN(const int file, folder.open_file(Segments::name_of(segment), O_RDONLY));
    SegmentReader made(segment, file);
    struct stat what = {};
    if (fstat(file, &what) != 0) return failed("look");
    made.file_bytes_ = static_cast<uint64_t>(what.st_size);
    made.disk_bytes_ = static_cast<uint64_t>(what.st_blocks) * 512;
    return made;
}

SegmentReader::SegmentReader(SegmentReader&& other) noexcept
    : segment_(other.segment_),
      file_(std::exchange(other.file_, -1)),
      file_bytes_(other.file_bytes_),
      disk_bytes_(other.disk_bytes_) {}

SegmentReader::~SegmentReader() {
    if (file_ >= 0) close(file_);
}

Status SegmentReader::read(uint64_t offset, std::span<std::byte> into) const {
    while (!into.empty()) {
        const ssize_t got = pread(file_, into.data(), into.size(), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed("read");
        if (got == 0) return make_error(ErrorCode::corrupt, "the segment's file is cut off");
        into = into.subspan(static_cast<size_t>(got));
        offset += static_cast<uint64_t>(got);
    }
    return Status::ok();
}

Result<Segments::Salt> SegmentReader::salt() const {
    const AlignedBytes header(disk_alignment);
    RONDO_TRY(read(0, header.span()));
    return Segments::salt_in(segment_, header.span());
}

Result<AlignedBytes> SegmentReader::header_of(const StoredRecord& record) const {
    const size_t bytes =
        RecordHeader::header_bytes(static_cast<size_t>(record.tokens), static_cast<size_t>(record.layers));
    assert(bytes <= record.place.bytes);
    AlignedBytes header(bytes);
    RONDO_TRY(read(record.place.offset, header.span()));
    return header;
}

/// A header that is not sealed has zeros for a proof. Where it has something else and yet can be read with zeros there,
/// the proof alone is damaged.
bool SegmentReader::is_sealed(std::span<const std::byte> header) {
    const auto proof = header.subspan(RecordHeader::proof_at, sizeof(SealKey::Proof));
    if (std::ranges::all_of(proof, [](std::byte byte) { return byte == std::byte{0}; })) return false;
    std::vector<std::byte> without(header.begin(), header.end());
    std::ranges::fill(std::span(without).subspan(RecordHeader::proof_at, proof.size()), std::byte{0});
    return !RecordHeader::read(without);
}

Status SegmentReader::prove(const StoredRecord& record, std::span<std::byte> header, const SealKey* key) const {
    RONDO_ASSIGN(const RecordHeader found, store::open_header(record, key, header));
    const AlignedBytes bytes(round_up<size_t>(found.layer_bytes(), disk_alignment));
    for (size_t layer = 0; layer < found.layers.size(); ++layer) {
        RONDO_TRY(read(record.place.offset + found.layers[layer].offset, bytes.span()));
        const Status opened = store::open_layer(record, found, layer, key, {bytes.span()});
        if (!opened)
            return make_error(opened.error().code, "layer " + std::to_string(layer) + ": " + opened.error().message);
    }
    return Status::ok();
}

}  // namespace rondo

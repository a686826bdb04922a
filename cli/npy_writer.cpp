#include "cli/npy_writer.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace rondo::cli {

Result<NpyWriter> NpyWriter::create(const std::string& path, int64_t rows, int64_t columns) {
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) return make_error(ErrorCode::io, path + " cannot be written: " + std::strerror(errno));
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                         std::to_string(columns) + "), }";
    // Magic, version and length take 10 bytes; the data begins at a multiple of 64.
    const size_t length = (10 + header.size() + 1 + 63) / 64 * 64 - 10;
    header.resize(length - 1, ' ');
    header += '\n';
    const auto bytes = static_cast<uint16_t>(length);
    const char prefix[10] = {
        '\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(bytes & 0xff), static_cast<char>(bytes >> 8)};
    NpyWriter writer(file, path);
    writer.failed_ = std::fwrite(prefix, 1, sizeof prefix, file) != sizeof prefix ||
                     std::fwrite(header.data(), 1, header.size(), file) != header.size();
    return writer;
}

NpyWriter::~NpyWriter() {
    if (file_ != nullptr) std::fclose(file_);
}

void NpyWriter::write(std::span<const float> values) {
    failed_ = failed_ || std::fwrite(values.data(), sizeof(float), values.size(), file_) != values.size();
}

Status NpyWriter::close() {
    failed_ = std::fclose(std::exchange(file_, nullptr)) != 0 || failed_;
    return failed_ ? Status(make_error(ErrorCode::io, path_ + " could not be written whole")) : Status::ok();
}

}  // namespace rondo::cli

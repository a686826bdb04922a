#include "memory/store/rocks/rocks_status.hpp"

#include <rocksdb/status.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace rondo {

bool has_no_space(const rocksdb::Status& status) {
    if (status.IsNoSpace()) return true;
    return status.IsIOError() && status.ToString().find(std::strerror(EDQUOT)) != std::string::npos;
}

Status status_of_rocksdb(const rocksdb::Status& status) {
    if (status.ok()) return Status::ok();
    const std::string what = "the store's manifest: " + status.ToString();
    if (status.IsNotFound()) return make_error(ErrorCode::not_found, what);
    if (status.IsCorruption()) return make_error(ErrorCode::corrupt, what);
    if (has_no_space(status) || status.IsMemoryLimit()) return make_error(ErrorCode::out_of_memory, what);
    return make_error(ErrorCode::io, what);
}

}  // namespace rondo

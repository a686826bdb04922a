#pragma once

#include "config/result.hpp"

namespace rocksdb {
class Status;
}  // namespace rocksdb

namespace rondo {

/// The disk is full, or the user has used up what he may have of it. RocksDB knows the first alone.
bool has_no_space(const rocksdb::Status& status);

/// No space is out_of_memory.
Status status_of_rocksdb(const rocksdb::Status& status);

}  // namespace rondo

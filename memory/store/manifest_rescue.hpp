#pragma once

#include <cstdint>
#include <string>

#include "config/result.hpp"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace rondo {

/// Damage that RocksDB takes for something else, before it opens a database: without a description it would make a new
/// one, and one whose last length is wrong it would take for shorter. Either way it would remove tables.
Status prove_description(const std::string& folder, rocksdb::Env& env);

/// Whether the disk refuses a block of a table, and reads others of it.
bool has_lost_blocks(const std::string& folder, rocksdb::Env& env);

/// What was left of a damaged manifest.
struct ManifestRescue {
    int64_t entries = 0;
    int64_t damaged_blocks = 0;  ///< of its tables: some entries each, or where those lie
    int64_t damaged_logs = 0;    ///< of which the begin was kept
};

/// Reads all that is whole of a database's tables and logs, without RocksDB, and makes it a database of one log. Until
/// that is durable nothing changes, then all of it at once; whoever opens it next removes the files of the old one.
/// not_found: there are no files of a database. No other process may have it open.
Result<ManifestRescue> rescue_manifest(const std::string& folder, rocksdb::Env& env);

}  // namespace rondo

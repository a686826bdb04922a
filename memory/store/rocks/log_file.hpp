#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace rondo {

/// RocksDB's format of logs, in which it also writes what a database consists of: records, in pieces with checksums.

/// All records of such a file in order, up to the first damage. False where there is some; that an end is missing is
/// none, for a process may have been killed.
bool each_log_record(std::string_view file, const std::function<void(std::string_view record)>& each);

/// Appends a record to a file that is written by this function alone.
void append_log_record(std::string& file, std::string_view record);

}  // namespace rondo

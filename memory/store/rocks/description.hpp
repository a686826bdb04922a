#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rondo {

/// What a file of RocksDB's says a database consists of.
struct RocksFiles {
    struct Table {
        std::string first, last;     ///< its keys
        uint64_t last_sequence = 0;  ///< of its latest change
    };
    std::map<uint64_t, Table> tables;  ///< by number
    uint64_t first_log = 0;            ///< of those before it everything is in tables
};

/// None: the file is damaged, or says what is not known here.
std::optional<RocksFiles> read_description(std::string_view file);

/// Of a database that has one log and no tables. `free` and larger numbers are nobody's.
std::string write_description(uint64_t log, uint64_t free);

}  // namespace rondo

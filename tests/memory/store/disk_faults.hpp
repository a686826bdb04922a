#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondo::testing {

/// Stands between this process and its disk. Each call of the C library that changes something below a folder is a
/// boundary, RocksDB's calls too: this program's definitions come before the library's. With `io_error` calls that read
/// at a place are boundaries as well. What io_uring does passes by, and so does what the C library reads for fread.
class DiskFaults {
public:
    enum class Kind : uint8_t {
        none,             ///< boundaries are counted
        kill,             ///< the process is killed
        kill_and_forget,  ///< the same, and each 4 KiB that was not synced may be as it was before
        no_space,         ///< calls that need space fail: the disk is full
        quota,            ///< the same: the user has used up what he may have of it
        io_error,         ///< the same calls and those that read fail: the disk has errors
        no_holes,         ///< files have no holes: no other call fails, and all that would make one do
    };
    struct Plan {
        std::string folder;
        Kind kind = Kind::none;
        int64_t from = 0;        ///< the boundary, counted from 1
        int64_t count = 1;       ///< boundaries that fail
        bool in_middle = false;  ///< a write has written some of its bytes then, another call is over
        uint64_t seed = 0;
        std::string only = {};  ///< as `end` names them, these alone are boundaries; "": all
        int error = EIO;        ///< what `io_error` gives
        struct Byte {
            std::string file;
            uint64_t at = 0;
        };
        std::optional<Byte> bad_byte = {};  ///< calls that read its sector are the only boundaries
    };
    /// From now on.
    static void begin(const Plan& plan);
    /// Until now: the boundaries that were met, by call and kind of file.
    static std::vector<std::string> end();
};

}  // namespace rondo::testing

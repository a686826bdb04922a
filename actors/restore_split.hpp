#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo {

/// A prompt whose first rounds could be read from a disk, and how fast the disk and the computer are.
struct RestoreTask {
    struct Round {
        int64_t tokens = 0;  ///< that nobody has yet
        uint64_t bytes = 0;  ///< of it that lie on the disk
    };
    std::vector<Round> rounds;
    int64_t new_tokens = 0;  ///< behind them, that are computed in any case
    double seconds_per_token = 0.0, seconds_per_byte = 0.0;
    double computed_from = 0.0, read_from = 0.0;  ///< after so many seconds: others come first
};

/// How many of its first rounds are computed while the others are read, so that computer and disk are done at the same
/// time and neither waits for the other; 0: all are read, or all are computed, as soon as that.
size_t rounds_ahead(const RestoreTask& task);

}  // namespace rondo

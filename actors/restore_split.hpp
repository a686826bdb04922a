#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo {

/// A prompt whose first rounds could be read from a disk, and how fast the disk and the computer are.
struct RestoreTask {
    struct Round {
        double seconds = 0.0;  ///< that computing it takes
        uint64_t bytes = 0;    ///< of it that lie on the disk
    };
    std::vector<Round> rounds;
    double seconds_behind = 0.0;  ///< that computing takes in any case, of what stands behind them
    double seconds_per_byte = 0.0;
    double computed_from = 0.0, read_from = 0.0;  ///< after so many seconds: others come first
};

/// How many of its first rounds are computed while the others are read, so that computer and disk are done at the same
/// time and neither waits for the other; 0: all are read, or all are computed, as soon as that.
size_t rounds_ahead(const RestoreTask& task);

}  // namespace rondo
